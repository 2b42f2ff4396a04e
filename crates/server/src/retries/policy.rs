//! Policies of budgets, from the wire and back. What is absent takes its default here, and only here.

use std::sync::Arc;
use std::time::Duration;

use semel_domain::budget::{Backoff, Costs, DepositOn, Enforcement, FailMode, Policy};
use semel_domain::limits::NAME_MAX_BYTES;
use semel_domain::name::is_name_character;
use semel_domain::retry::BackoffStrategy;
use semel_proto::v1;

use crate::refusal::{Reason, Refusal};
use crate::wire::{Parsed, at_most, choice, wire_duration, within};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const H: Duration = Duration::from_secs(3_600);

/// Reads a policy.
pub(crate) fn parse(given: &v1::RetryPolicy) -> Parsed<Policy> {
    let default = Policy::default();
    let whole = Duration::from_secs(60);
    let carry_over =
        given.carry_over.filter(|carry_over| *carry_over != prost_types::Duration::default());
    Ok(Policy {
        ratio_per_mille: at_most(
            "ratio_per_mille",
            given.ratio_per_mille.unwrap_or(default.ratio_per_mille),
            1_000,
        )?,
        floor_per_second: at_most(
            "floor_per_second",
            given.floor_per_second.unwrap_or(default.floor_per_second),
            1_000_000,
        )?,
        window: whole_slots("window", within("window", given.window, default.window, (S, whole))?)?,
        carry_over: match carry_over {
            None => Duration::ZERO,
            given => whole_slots(
                "carry_over",
                within("carry_over", given, default.carry_over, (MS, whole))?,
            )?,
        },
        costs: costs(&given.costs)?,
        attempts_max: at_most("attempts_max", or(given.attempts_max, default.attempts_max), 100)?,
        retries_per_root: at_most(
            "retries_per_root",
            given.retries_per_root.unwrap_or(default.retries_per_root),
            1_000,
        )?,
        retry_layer: layer(&given.retry_layer)?,
        backoff: backoff(given)?,
        deposit_on: match choice("deposit_on", given.deposit_on)? {
            v1::DepositOn::Success => DepositOn::Success,
            v1::DepositOn::Unspecified | v1::DepositOn::Request => DepositOn::Request,
        },
        fail_mode: match choice("fail_mode", given.fail_mode)? {
            v1::FailMode::Deny => FailMode::Deny,
            v1::FailMode::Allow => FailMode::Allow,
            v1::FailMode::Unspecified | v1::FailMode::LocalBounded => FailMode::LocalBounded,
        },
        reserve_per_mille: at_most("reserve_per_mille", given.reserve_per_mille, 1_000)?,
        enforcement: match choice("enforcement", given.enforcement)? {
            v1::Enforcement::Observe => Enforcement::Observe,
            v1::Enforcement::Unspecified | v1::Enforcement::Enforce => Enforcement::Enforce,
        },
        lease: within("lease", given.lease, default.lease, (100 * MS, 10 * S))?,
    })
}

fn backoff(given: &v1::RetryPolicy) -> Parsed<Backoff> {
    let default = Backoff::default();
    let base = within("backoff_base", given.backoff_base, default.base, (MS, H))?;
    let throttled = given.backoff_base_throttled;
    let base_throttled =
        within("backoff_base_throttled", throttled, default.base_throttled, (MS, H))?;
    let longest = base.max(base_throttled);
    Ok(Backoff {
        strategy: match choice("backoff", given.backoff)? {
            v1::BackoffStrategy::EqualJitter => BackoffStrategy::EqualJitter,
            v1::BackoffStrategy::DecorrelatedJitter => BackoffStrategy::DecorrelatedJitter,
            v1::BackoffStrategy::None => BackoffStrategy::None,
            v1::BackoffStrategy::Unspecified | v1::BackoffStrategy::FullJitter => {
                BackoffStrategy::FullJitter
            }
        },
        base,
        base_throttled,
        cap: within("backoff_cap", given.backoff_cap, default.cap.max(longest), (longest, H))?,
    })
}

fn costs(given: &[v1::FailureCost]) -> Parsed<Costs> {
    let mut costs = Costs::default();
    for cost in given {
        let place = match choice("costs.kind", cost.kind)? {
            v1::FailureKind::NotSent => &mut costs.not_sent,
            v1::FailureKind::Throttled => &mut costs.throttled,
            v1::FailureKind::UnknownOutcome => &mut costs.unknown_outcome,
            v1::FailureKind::ServerError => &mut costs.server_error,
            v1::FailureKind::InProgress => &mut costs.in_progress,
            v1::FailureKind::Unspecified
            | v1::FailureKind::Rejected
            | v1::FailureKind::Cancelled => {
                let problem = "name a kind of failure that can be retried";
                return Err(Refusal::field(Reason::PolicyInvalid, "costs.kind", problem));
            }
        };
        if cost.cost_milli == 0 {
            return Err(Refusal::field(
                Reason::PolicyInvalid,
                "costs.cost_milli",
                "must be 1 or more",
            ));
        }
        *place = at_most("costs.cost_milli", cost.cost_milli, 1_000_000)?;
    }
    Ok(costs)
}

/// The name of a layer; empty: none.
pub(super) fn layer(text: &str) -> Parsed<Option<Arc<str>>> {
    if text.len() > NAME_MAX_BYTES || !text.chars().all(is_name_character) {
        let problem = format!("must be at most {NAME_MAX_BYTES} bytes of [A-Za-z0-9._:/-]");
        return Err(Refusal::field(Reason::LayerInvalid, "layer", problem));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Windows are counted in slots of a tenth of a second.
fn whole_slots(field: &str, duration: Duration) -> Parsed<Duration> {
    if !duration.as_micros().is_multiple_of(100_000) {
        let problem = "must be a whole number of tenths of a second";
        return Err(Refusal::field(Reason::PolicyInvalid, field, problem));
    }
    Ok(duration)
}

const fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

/// Writes a policy, complete.
pub(crate) fn reply(policy: &Policy) -> v1::RetryPolicy {
    let costs = [
        (v1::FailureKind::NotSent, policy.costs.not_sent),
        (v1::FailureKind::Throttled, policy.costs.throttled),
        (v1::FailureKind::UnknownOutcome, policy.costs.unknown_outcome),
        (v1::FailureKind::ServerError, policy.costs.server_error),
        (v1::FailureKind::InProgress, policy.costs.in_progress),
    ];
    let cost = |(kind, cost_milli): (v1::FailureKind, u32)| v1::FailureCost {
        kind: kind.into(),
        cost_milli,
    };
    let backoff = match policy.backoff.strategy {
        BackoffStrategy::FullJitter => v1::BackoffStrategy::FullJitter,
        BackoffStrategy::EqualJitter => v1::BackoffStrategy::EqualJitter,
        BackoffStrategy::DecorrelatedJitter => v1::BackoffStrategy::DecorrelatedJitter,
        BackoffStrategy::None => v1::BackoffStrategy::None,
    };
    let deposit_on = match policy.deposit_on {
        DepositOn::Request => v1::DepositOn::Request,
        DepositOn::Success => v1::DepositOn::Success,
    };
    let fail_mode = match policy.fail_mode {
        FailMode::LocalBounded => v1::FailMode::LocalBounded,
        FailMode::Deny => v1::FailMode::Deny,
        FailMode::Allow => v1::FailMode::Allow,
    };
    let enforcement = match policy.enforcement {
        Enforcement::Enforce => v1::Enforcement::Enforce,
        Enforcement::Observe => v1::Enforcement::Observe,
    };
    v1::RetryPolicy {
        ratio_per_mille: Some(policy.ratio_per_mille),
        floor_per_second: Some(policy.floor_per_second),
        window: Some(wire_duration(policy.window)),
        carry_over: Some(wire_duration(policy.carry_over)),
        costs: costs.map(cost).to_vec(),
        attempts_max: policy.attempts_max,
        retries_per_root: Some(policy.retries_per_root),
        retry_layer: policy.retry_layer.as_deref().unwrap_or_default().to_owned(),
        backoff: backoff.into(),
        backoff_base: Some(wire_duration(policy.backoff.base)),
        backoff_base_throttled: Some(wire_duration(policy.backoff.base_throttled)),
        backoff_cap: Some(wire_duration(policy.backoff.cap)),
        deposit_on: deposit_on.into(),
        fail_mode: fail_mode.into(),
        reserve_per_mille: policy.reserve_per_mille,
        enforcement: enforcement.into(),
        lease: Some(wire_duration(policy.lease)),
    }
}
