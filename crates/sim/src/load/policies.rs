//! Policies by chance: budgets that are soon spent, breakers that open soon and recover soon.

use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::breakers_server::Breakers as _;
use semel_proto::v1::retries_server::Retries as _;
use tonic::Request;

use super::breakers::DEPENDENCY;
use super::{Caller, TENANT, wire};
use crate::node::Services;
use crate::oracle::breakers::Terms as BreakerTerms;
use crate::oracle::budgets::Terms as BudgetTerms;
use crate::random::Random;

/// How long a probe is permitted to take.
const PROBE_LEASE: Duration = Duration::from_millis(800);

/// Terms of a budget that is soon spent, by chance.
pub(crate) fn budget_terms(random: &mut Random) -> BudgetTerms {
    BudgetTerms {
        ratio_per_mille: *random.pick(&[0, 50, 100, 200]).unwrap_or(&100),
        floor_per_second: *random.pick(&[0, 1, 2, 5]).unwrap_or(&2),
        window_us: random.between(1, 4) * 1_000_000,
        carry_over_us: random.between(0, 1) * 1_000_000,
        lease_us: *random.pick(&[200_000, 500_000, 1_000_000]).unwrap_or(&500_000),
    }
}

fn retry_policy(terms: &BudgetTerms) -> v1::RetryPolicy {
    let span = |us| Some(wire(Duration::from_micros(us)));
    v1::RetryPolicy {
        ratio_per_mille: Some(terms.ratio_per_mille),
        floor_per_second: Some(terms.floor_per_second),
        window: span(terms.window_us),
        carry_over: span(terms.carry_over_us),
        lease: span(terms.lease_us),
        attempts_max: 5,
        ..Default::default()
    }
}

/// Terms of a breaker that opens soon and recovers soon, by chance.
pub(crate) fn breaker_terms(random: &mut Random) -> BreakerTerms {
    BreakerTerms {
        failure_per_mille: *random.pick(&[300, 500, 800]).unwrap_or(&500),
        calls_min: *random.pick(&[5, 10, 20]).unwrap_or(&10),
        probes_max: *random.pick(&[1, 1, 1, 2]).unwrap_or(&1),
        successes_to_close: *random.pick(&[1, 2, 3]).unwrap_or(&2),
    }
}

fn breaker_policy(terms: &BreakerTerms) -> v1::BreakerPolicy {
    v1::BreakerPolicy {
        failure_per_mille: terms.failure_per_mille,
        window: Some(wire(Duration::from_secs(2))),
        calls_min: terms.calls_min,
        cool_down: Some(wire(Duration::from_millis(300))),
        cool_down_max: Some(wire(Duration::from_millis(1_200))),
        probes_max: terms.probes_max,
        successes_to_close: terms.successes_to_close,
        probe_lease: Some(wire(PROBE_LEASE)),
        ramp_step: Some(wire(Duration::from_millis(200))),
        ..Default::default()
    }
}

/// Sets the policy of a budget, before anything else happens.
pub(crate) async fn set_budget_policy(caller: &mut Caller, of: &str, terms: &BudgetTerms) {
    let sent = v1::SetRetryPolicyRequest {
        tenant: TENANT.to_owned(),
        dependency: of.to_owned(),
        policy: Some(retry_policy(terms)),
        expected_version: None,
        actor: "sim".to_owned(),
    };
    caller.world.log.note(format_args!("{of}: {terms:?}"));
    let ask = move |services: Rc<Services>| {
        let sent = sent.clone();
        async move { services.retries().set_retry_policy(Request::new(sent)).await }
    };
    drop(caller.call(0, Duration::from_secs(1), ask).await);
}

/// Sets the policy of the breaker, before anything else happens.
pub(crate) async fn set_breaker_policy(caller: &mut Caller, terms: &BreakerTerms) {
    let sent = v1::SetBreakerPolicyRequest {
        tenant: TENANT.to_owned(),
        dependency: DEPENDENCY.to_owned(),
        policy: Some(breaker_policy(terms)),
        expected_version: None,
        actor: "sim".to_owned(),
    };
    caller.world.log.note(format_args!("{DEPENDENCY}: {terms:?}"));
    let ask = move |services: Rc<Services>| {
        let sent = sent.clone();
        async move { services.breakers().set_breaker_policy(Request::new(sent)).await }
    };
    drop(caller.call(0, Duration::from_secs(1), ask).await);
}
