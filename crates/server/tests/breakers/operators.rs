//! What operators do: force, set policies, list.

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn an_override_is_forgotten_or_outlives_its_end() {
    let mut fleet = Fleet::start(2).await;
    let reply =
        fleet.clients[0].force(force(Force::ForcedOpen, Some(1_000))).await.expect("forced");
    let forced = reply.breaker.expect("a breaker");
    assert_eq!((forced.condition(), forced.generation), (Condition::Open, 1));
    // A node that starts now finds it: it is durable.
    fleet.join(|_| {}).await;
    let mut changes = fleet.clients[2].watch(&[STRIPE]).await.expect("watches");
    let seen = changes.until(|breaker| breaker.generation == 1).await;
    let view = seen.r#override.expect("an override");
    assert_eq!((view.kind(), &*view.actor, &*view.reason), (Force::ForcedOpen, "ops", "drill"));
    assert_eq!(time_us(view.expires_at) - time_us(view.since), 1_000_000);
    assert_eq!(fleet.clients[1].probe(1).await, None, "no probes");
    let ended = changes.until(|breaker| breaker.r#override.is_none()).await;
    assert_eq!((ended.condition(), ended.generation), (Condition::Closed, 2));
    assert!(machine_us() >= time_us(view.expires_at), "not before its end");
    for client in &fleet.clients {
        client.until(|breaker| breaker.generation == 2).await;
    }
}

#[tokio::test]
async fn outcomes_open_what_is_forced_closed_or_only_measured() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    for (generation, kind) in [(1, Force::ForcedClosed), (2, Force::MetricsOnly)] {
        client.force(force(kind, None)).await.expect("forced");
        for reporter in [1, 2] {
            let failed = report(reporter, generation, generation, counts(0, 50));
            client.report(failed).await.expect("reported");
        }
        let seen = fleet.until_counts(|breaker| calls(breaker) == 100).await;
        assert_eq!((seen.condition(), seen.generation), (Condition::Closed, generation));
    }
    let reset = client.force(force(Force::Reset, None)).await.expect("reset").breaker;
    let reset = reset.expect("a breaker");
    assert_eq!((calls(&reset), reset.generation, reset.r#override), (0, 3, None));
    assert_eq!(reset.admitted_per_mille, 1_000);
}

#[tokio::test]
async fn a_policy_of_an_old_version_wins_or_defaults_are_left_out() {
    let fleet = Fleet::start(2).await;
    let get =
        || v1::GetBreakerPolicyRequest { tenant: TENANT.to_owned(), dependency: STRIPE.to_owned() };
    let other = |expected_version| v1::SetBreakerPolicyRequest {
        expected_version,
        ..policy_of(v1::BreakerPolicy {
            calls_min: 7,
            slow_call: Some(milliseconds(0)),
            ..Default::default()
        })
    };
    let refused =
        fleet.clients[1].set_policy(other(Some(0))).await.expect_err("version 1 is there");
    assert_eq!(refused.reason, "POLICY_CONFLICT");
    assert_eq!(refused.metadata["current_version"], "1");
    assert_eq!(fleet.clients[1].set_policy(other(Some(1))).await.expect("set").version, 2);
    let got = fleet.clients[0].get_policy(get()).await.expect("there");
    assert_eq!((got.version, &*got.actor), (2, "ops"));
    assert!(time_us(got.set_at) > 0);
    let policy = got.policy.expect("a policy");
    assert_eq!((policy.calls_min, policy.failure_per_mille, policy.slow_call), (7, 500, None));
    assert_eq!(duration(policy.window).as_secs(), 30);
    let unset = v1::GetBreakerPolicyRequest { dependency: "other".to_owned(), ..get() };
    let unset = fleet.clients[0].get_policy(unset).await.expect("the default");
    assert_eq!((unset.version, &*unset.actor, unset.set_at), (0, "", None));
    assert_eq!(duration(unset.policy.expect("a policy").cool_down).as_secs(), 30);
    fleet.clients[0].until(|breaker| breaker.policy_version == 2).await;
}

#[tokio::test]
async fn a_list_misses_breakers_or_shows_those_of_others() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    for (tenant, dependency) in [("acme", "a"), ("acme", "b"), ("acme", "c"), ("zeta", "d")] {
        let kind = if dependency == "b" { Force::ForcedOpen } else { Force::ForcedClosed };
        let (tenant, dependency) = (tenant.to_owned(), dependency.to_owned());
        let one = v1::OverrideBreakerRequest { tenant, dependency, ..force(kind, None) };
        client.force(one).await.expect("forced");
    }
    let list = |condition: Condition, page_size, page_token| v1::ListBreakersRequest {
        tenant: TENANT.to_owned(),
        condition: condition.into(),
        page_size,
        page_token,
    };
    let names = |page: &v1::ListBreakersResponse| {
        page.breakers.iter().map(|breaker| breaker.dependency.clone()).collect::<Vec<_>>()
    };
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = client.list(list(Condition::Unspecified, 2, token)).await.expect("listed");
        found.extend(names(&page));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, ["a", "b", "c", "stripe"]);
    let open = client.list(list(Condition::Open, 0, String::new())).await.expect("listed");
    assert_eq!((names(&open), open.next_page_token), (vec!["b".to_owned()], String::new()));
    let foreign = list(Condition::Unspecified, 0, "00ff".to_owned());
    let refused = client.list(foreign).await.expect_err("no such page");
    assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_token")));
}
