//! Records that say nothing any more.

use std::time::Duration;

use semel_domain::budget::layout::from_record_key;
use semel_proto::v1;
use semel_store::Space;

use crate::support::*;
use crate::words::*;

const SECOND_US: u64 = 1_000_000;

async fn recorded(node: &TestNode) -> Vec<String> {
    let rows = node.store.rows(Space::Records).await;
    let budgets = rows.iter().filter_map(|row| from_record_key(&row.key));
    budgets.map(|of| of.dependency.to_string()).collect()
}

#[tokio::test]
async fn the_budgets_of_a_node_that_is_gone_stay_for_ever() {
    let (gone, clock) = TestNode::manual(|_| {}).await;
    let policy =
        v1::SetRetryPolicyRequest { dependency: "paypal".to_owned(), ..set(Default::default()) };
    gone.retries.set_policy(policy).await.expect("set");
    assert_eq!(gone.ask(ask("r")).await.verdict(), Verdict::Granted);
    assert_eq!(recorded(&gone).await, ["paypal", "stripe"]);
    // It dies with what it holds, and nobody asks for that budget again.
    gone.store.faults().set_down(true);

    let store = gone.store.share(std::sync::Arc::new(clock.clone()));
    let often = |options: &mut semel_server::NodeOptions| {
        options.leftovers_interval = Duration::from_millis(10);
    };
    let other = TestNode::over(store, std::sync::Arc::new(clock.clone()), often).await;
    let ended = other.store.seen().ended;
    other.store.until(|seen| seen.ended > ended + 4).await;
    assert_eq!(recorded(&other).await, ["paypal", "stripe"], "what was spent still counts");
    clock.advance_us(120 * SECOND_US);
    while recorded(&other).await.len() > 1 {
        let ended = other.store.seen().ended;
        other.store.until(|seen| seen.ended > ended).await;
    }
    assert_eq!(recorded(&other).await, ["paypal"], "a policy is kept");
}
