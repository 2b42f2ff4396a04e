//! The store out of reach: the last that was known, marked as such; traffic is not stopped by doubt.

use crate::words::*;

#[tokio::test]
async fn a_store_that_is_away_hides_the_state_or_goes_unnoticed() {
    let fleet = Fleet::start(2).await;
    fleet.open_and_cool_down().await;
    let client = &fleet.clients[0];
    let mut changes = client.watch(&[STRIPE]).await.expect("watches");
    assert!(!changes.next().await.degraded);
    fleet.nodes[0].store.faults().set_down(true);
    while !changes.next().await.degraded {}
    let state = client.state(ask_to_probe(1)).await.expect("answered");
    let breaker = state.breaker.expect("a breaker");
    assert_eq!((breaker.condition(), breaker.generation), (Condition::Open, 1));
    assert!(state.degraded && state.permit.is_none(), "no permit without the store");
    // Outcomes gather, and count when it is back; one that was never known counts as closed.
    let unknown = semel_proto::v1::BreakerStateRequest { dependency: "new".to_owned(), ..ask() };
    let unknown = client.state(unknown).await.expect("answered");
    assert!(unknown.degraded);
    assert_eq!(unknown.breaker.expect("a breaker").condition(), Condition::Closed);
    assert!(client.report(report(7, 1, 1, counts(5, 0))).await.expect("reported").counted);

    // Meanwhile the rest of the fleet goes on.
    let permit = fleet.clients[1].probe(2).await.expect("a permit");
    fleet.clients[1].probed(1, &permit, Probed::Succeeded).await;
    fleet.nodes[0].store.faults().set_down(false);
    let back = changes.until(|breaker| breaker.generation == 2).await;
    assert_eq!(back.condition(), Condition::HalfOpen);
    assert!(!client.state(ask()).await.expect("answered").degraded);
}

#[tokio::test]
async fn a_store_that_hangs_holds_up_what_is_known() {
    use semel_store::memory::Fault;
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    fleet.open().await;
    let mut changes = client.watch(&[STRIPE]).await.expect("watches");
    fleet.nodes[0].store.faults().script(vec![Fault::Hold; 1_000]);
    while !changes.next().await.degraded {}
    let state = client.state(ask()).await.expect("answered");
    assert!(state.degraded);
    assert_eq!(state.breaker.expect("a breaker").condition(), Condition::Open);
    fleet.nodes[0].store.faults().release();
}

#[tokio::test]
async fn what_the_store_did_not_answer_is_done_twice_or_not_at_all() {
    use semel_store::memory::Fault;
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    client.now().await;
    let faults = fleet.nodes[0].store.faults();
    let unknown = |committed| Fault::Unknown { committed };
    faults.script([unknown(true), unknown(false), unknown(true)]);
    let forced = client.force(force(Force::ForcedOpen, None)).await.expect("forced");
    assert_eq!(forced.breaker.expect("a breaker").generation, 1, "once");
    faults.set_down(true);
    let refused = client.force(force(Force::Reset, None)).await.expect_err("away");
    assert_eq!(refused.reason, "STORE_UNAVAILABLE");
    faults.set_down(false);
    assert_eq!(client.now().await.generation, 1);
}
