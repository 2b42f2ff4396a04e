//! A client of two nodes: its tokens and breakers go on with the second when the first is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use semel_client::Client;
use semel_client::breakers::{Breaker, BreakerSettings, Outcome};
use semel_client::tokens::{Budget, RetryTokenSettings};
use semel_proto::v1::BreakerCondition;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::node::{Node, seconds};
use crate::support::now;

/// One that says so of itself.
fn node(id: u8) -> Node {
    let (node, _) = Node::start();
    node.book(|book| (book.node, book.to_lease) = (Bytes::from(vec![id; 16]), 1_000));
    node
}

/// Makes calls until it is so.
async fn calling(budget: &Budget, breaker: &Breaker, until: impl Fn() -> bool) -> u64 {
    let mut calls = 0;
    let all = async {
        while !until() {
            calls += 1;
            budget.first_attempt();
            if let Ok(ticket) = breaker.enter().await {
                ticket.tell(Outcome::Succeeded);
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(20), all).await.expect("it never came to that");
    calls
}

/// The first attempts and the calls that this node counts by the words of the contract, and the numbers of
/// the reports that they came with.
fn counted(node: &Node) -> ([u64; 2], [BTreeSet<u64>; 2]) {
    node.book(|book| {
        let (mut sums, mut numbers) = ([0; 2], [BTreeSet::new(), BTreeSet::new()]);
        for deposits in book.leases.iter().filter_map(|lease| lease.deposits.as_ref()) {
            let is_own = deposits.node.is_empty() || deposits.node == book.node;
            if is_own && numbers[0].insert(deposits.seq) {
                sums[0] += deposits.requests;
            }
        }
        for report in &book.reports {
            let is_own = report.node.is_empty() || report.node == book.node;
            if is_own && numbers[1].insert(report.seq) {
                let counts = report.outcomes.iter().filter_map(|outcome| outcome.counts);
                sums[1] += counts.map(|counts| counts.succeeded).sum::<u64>();
            }
        }
        (sums, numbers)
    })
}

#[tokio::test]
async fn when_its_node_is_lost_a_process_goes_on_with_another_and_nothing_counts_twice() {
    let (nodes, mut ways) = ([node(1), node(2)], [JoinSet::new(), JoinSet::new()]);
    let mut addresses = Vec::new();
    for (node, way) in nodes.iter().zip(&mut ways) {
        addresses.push(node.listen(way).await);
    }
    let semel = Client::builder("acme", addresses).seed([1; 32]).build().unwrap();
    let mut settings = RetryTokenSettings::default();
    settings.at_hand = 5;
    let (tokens, breakers) =
        (semel.retry_tokens(settings), semel.breakers(BreakerSettings::default()));
    let budget = tokens.budget("acme", "stripe").unwrap();
    let breaker = breakers.breaker("stripe").unwrap();
    let closing = CancellationToken::new();
    let work = async {
        let leases = |node: &Node| node.book(|book| book.leases.len());
        let reports = |node: &Node| node.book(|book| book.reports.len());
        let is_settled = |node: &Node| leases(node) > 1 && reports(node) > 1;
        let supplied =
            || nodes.iter().any(is_settled) && budget.in_hand() > 0 && !breaker.is_local();
        let mut calls = calling(&budget, &breaker, supplied).await;
        let place = usize::from(!is_settled(&nodes[0]));
        let other = &nodes[1 - place];
        assert_eq!(leases(other) + reports(other), 0, "it is at one node only");
        // What only the watch of the other node can tell.
        other.say(|breaker| {
            breaker.condition = BreakerCondition::Open.into();
            (breaker.generation, breaker.admitted_per_mille) = (9, 0);
            breaker.look_again = seconds(30);
        });
        ways[place].shutdown().await;
        let since = now();
        let leased = || leases(other) > 1 && budget.in_hand() > 0;
        calls += calling(&budget, &breaker, || leased() && !breaker.is_closed()).await;
        assert!(now() - since < Duration::from_millis(1_500), "{:?}", now() - since);
        // And again, with what it has counted meanwhile.
        other.say(|breaker| {
            breaker.condition = BreakerCondition::Closed.into();
            (breaker.generation, breaker.admitted_per_mille) = (10, 1_000);
        });
        let before = reports(other);
        let is_closed = || breaker.is_closed() && reports(other) > before + 1;
        calls += calling(&budget, &breaker, is_closed).await;
        closing.cancel();
        calls
    };
    let driven = async {
        tokio::join!(work, tokens.run(closing.cancelled()), breakers.run(closing.cancelled()))
    };
    let (calls, (), ()) = driven.await;
    let [(first, of_first), (second, of_second)] = [counted(&nodes[0]), counted(&nodes[1])];
    for kind in [0, 1] {
        assert!(first[kind] > 0 && second[kind] > 0, "{first:?} {second:?}");
        assert!(first[kind] + second[kind] <= calls, "{first:?} {second:?} of {calls}");
        assert!(of_first[kind].is_disjoint(&of_second[kind]), "{of_first:?} {of_second:?}");
    }
}
