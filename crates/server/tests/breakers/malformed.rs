//! Malformed input of every field of every request: refused by its field's name.

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

/// What is wrong, as it is refused: reason, field, and the refusal that came.
type Row = (&'static str, &'static str, Result<(), Refused>);

fn check(rows: Vec<Row>) {
    for (reason, field, refused) in rows {
        let refused = refused.err().unwrap_or_else(|| panic!("{reason} {field} was taken"));
        assert_eq!(refused.named(), (reason, Some(field)), "{}", refused.message);
        assert!(
            refused.message.contains(field.rsplit('.').next().expect("a name")),
            "{}",
            refused.message
        );
    }
}

macro_rules! rows {
    ($call:expr, $valid:expr; $($reason:literal, $field:literal, $change:expr;)*) => {{
        let mut rows: Vec<Row> = Vec::new();
        $(
            let mut request = $valid;
            let change: &dyn Fn(&mut _) = &$change;
            change(&mut request);
            rows.push(($reason, $field, $call(request).await.map(drop)));
        )*
        check(rows);
    }};
}

#[tokio::test]
async fn a_malformed_question_is_answered() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    type R = v1::BreakerStateRequest;
    rows! { (|r| client.state(r)), ask_to_probe(1);
        "TENANT_INVALID", "tenant", |r: &mut R| r.tenant.clear();
        "DEPENDENCY_INVALID", "dependency", |r: &mut R| r.dependency = "a b".to_owned();
        "REPORTER_INVALID", "reporter", |r: &mut R| r.reporter = vec![1; 15].into();
        "PERMIT_INVALID", "probe_id", |r: &mut R| r.probe_id = vec![].into();
        "PERMIT_INVALID", "probe_id", |r: &mut R| r.probe_id = vec![1; 17].into();
    }
    let watch = |tenant: &str, dependencies: Vec<String>| {
        let request = v1::WatchBreakersRequest { tenant: tenant.to_owned(), dependencies };
        let mut client = client.0.clone();
        async move {
            client.watch_breakers(request).await.map(drop).map_err(|status| Refused::of(&status))
        }
    };
    let many = || (0..257).map(|number| format!("d{number}")).collect();
    check(vec![
        ("TENANT_INVALID", "tenant", watch("", vec!["a".to_owned()]).await),
        ("BATCH_INVALID", "dependencies", watch("acme", vec![]).await),
        ("BATCH_INVALID", "dependencies", watch("acme", many()).await),
        (
            "DEPENDENCY_INVALID",
            "dependencies",
            watch("acme", vec!["a".to_owned(), "ä".to_owned()]).await,
        ),
    ]);
}

#[tokio::test]
async fn a_malformed_report_counts() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    type R = v1::ReportOutcomesRequest;
    let valid = || {
        let mut valid = report(1, 1, 0, counts(1, 1));
        let probe = v1::ProbeResult { permit: id(1), outcome: Probed::Failed.into() };
        valid.outcomes.push(v1::OutcomeReport { probes: vec![probe], ..valid.outcomes[0].clone() });
        valid
    };
    rows! { (|r| client.report(r)), valid();
        "TENANT_INVALID", "tenant", |r: &mut R| r.tenant = "a b".to_owned();
        "REPORTER_INVALID", "reporter", |r: &mut R| r.reporter = vec![].into();
        "COUNT_INVALID", "seq", |r: &mut R| r.seq = 0;
        "NODE_INVALID", "node", |r: &mut R| r.node = vec![1; 3].into();
        "BATCH_INVALID", "outcomes", |r: &mut R| r.outcomes.clear();
        "BATCH_INVALID", "outcomes", |r: &mut R| r.outcomes = vec![r.outcomes[0].clone(); 1_001];
        "DEPENDENCY_INVALID", "outcomes[1].dependency", |r: &mut R| r.outcomes[1].dependency.clear();
        "COUNT_INVALID", "outcomes[1].counts.slow", |r: &mut R| r.outcomes[1].counts = Some(v1::OutcomeCounts { slow: 3, ..counts(1, 1) });
        "COUNT_INVALID", "outcomes[0].counts", |r: &mut R| r.outcomes[0].counts = Some(counts(u64::MAX, u64::MAX));
        "BATCH_INVALID", "outcomes[1].probes", |r: &mut R| r.outcomes[1].probes = vec![r.outcomes[1].probes[0].clone(); 101];
        "PERMIT_INVALID", "outcomes[1].probes.permit", |r: &mut R| r.outcomes[1].probes[0].permit = vec![1].into();
        "OUTCOME_INVALID", "outcomes[1].probes.outcome", |r: &mut R| r.outcomes[1].probes[0].outcome = 0;
        "ENUM_INVALID", "outcomes[1].probes.outcome", |r: &mut R| r.outcomes[1].probes[0].outcome = 99;
    }
    assert!(client.report(valid()).await.expect("reported").counted, "its number is not used up");
}

#[tokio::test]
async fn a_malformed_override_or_listing_is_carried_out() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    type R = v1::OverrideBreakerRequest;
    rows! { (|r| client.force(r)), force(Force::ForcedOpen, Some(1_000));
        "TENANT_INVALID", "tenant", |r: &mut R| r.tenant.clear();
        "DEPENDENCY_INVALID", "dependency", |r: &mut R| r.dependency.clear();
        "OVERRIDE_INVALID", "override", |r: &mut R| r.r#override = 0;
        "ENUM_INVALID", "override", |r: &mut R| r.r#override = 77;
        "OVERRIDE_INVALID", "expires_in", |r: &mut R| r.r#override = Force::Reset.into();
        "DURATION_INVALID", "expires_in", |r: &mut R| r.expires_in = Some(milliseconds(999));
        "DURATION_INVALID", "expires_in", |r: &mut R| r.expires_in = Some(milliseconds(30 * 86_400_000 + 1));
        "DURATION_INVALID", "expires_in", |r: &mut R| r.expires_in = Some(prost_types::Duration { seconds: -1, nanos: 0 });
        "AUDIT_INVALID", "actor", |r: &mut R| r.actor = " ".to_owned();
        "AUDIT_INVALID", "actor", |r: &mut R| r.actor = "a".repeat(129);
        "AUDIT_INVALID", "reason", |r: &mut R| r.reason.clear();
        "AUDIT_INVALID", "reason", |r: &mut R| r.reason = "a".repeat(513);
    }
    type L = v1::ListBreakersRequest;
    rows! { (|r| client.list(r)), L { tenant: TENANT.to_owned(), ..Default::default() };
        "TENANT_INVALID", "tenant", |r: &mut L| r.tenant.clear();
        "ENUM_INVALID", "condition", |r: &mut L| r.condition = 9;
        "PAGE_INVALID", "page_size", |r: &mut L| r.page_size = 1_001;
        "PAGE_INVALID", "page_token", |r: &mut L| r.page_token = "xyz".to_owned();
    }
    let now = client.now().await;
    assert_eq!((now.generation, now.r#override), (0, None), "nothing was written");
}

#[tokio::test]
async fn a_malformed_policy_is_in_force() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    type R = v1::SetBreakerPolicyRequest;
    macro_rules! with {
        ($field:ident = $value:expr) => {
            |r: &mut R| r.policy.as_mut().expect("a policy").$field = $value
        };
    }
    let ms = |ms: u64| Some(milliseconds(ms));
    const HOUR_MS: u64 = 3_600_000;
    rows! { (|r| client.set_policy(r)), policy_of(v1::BreakerPolicy::default());
        "TENANT_INVALID", "tenant", |r: &mut R| r.tenant.clear();
        "DEPENDENCY_INVALID", "dependency", |r: &mut R| r.dependency.clear();
        "POLICY_INVALID", "policy", |r: &mut R| r.policy = None;
        "AUDIT_INVALID", "actor", |r: &mut R| r.actor.clear();
        "POLICY_INVALID", "policy.failure_per_mille", with!(failure_per_mille = 1_001);
        "POLICY_INVALID", "policy.window", with!(window = ms(999));
        "POLICY_INVALID", "policy.window", with!(window = ms(600_001));
        "POLICY_INVALID", "policy.calls_min", with!(calls_min = 1_000_001);
        "POLICY_INVALID", "policy.cool_down", with!(cool_down = ms(99));
        "POLICY_INVALID", "policy.cool_down", with!(cool_down = ms(HOUR_MS + 1));
        "POLICY_INVALID", "policy.cool_down_max", with!(cool_down_max = ms(29_999));
        "POLICY_INVALID", "policy.cool_down_max", with!(cool_down_max = ms(24 * HOUR_MS + 1));
        "POLICY_INVALID", "policy.probes_max", with!(probes_max = 101);
        "POLICY_INVALID", "policy.successes_to_close", with!(successes_to_close = 101);
        "POLICY_INVALID", "policy.probe_lease", with!(probe_lease = ms(99));
        "POLICY_INVALID", "policy.ramp_step", with!(ramp_step = ms(600_001));
        "POLICY_INVALID", "policy.slow_call", with!(slow_call = Some(prost_types::Duration { seconds: 0, nanos: 999_999 }));
        "POLICY_INVALID", "policy.slow_call", with!(slow_call = ms(HOUR_MS + 1));
        "POLICY_INVALID", "policy.slow_per_mille", with!(slow_per_mille = 1_001);
        "DURATION_INVALID", "policy.window", with!(window = Some(prost_types::Duration { seconds: 1, nanos: -1 }));
    }
    assert_eq!(client.now().await.policy_version, 1, "the fleet's own");
}
