//! The nodes of a client: which to ask, and which to leave alone for a while.
//!
//! Of two nodes drawn at random the one with fewer calls in flight is asked. A node that failed is set
//! aside for a time that doubles with each failure in a row, and is then tried with one call first.
//! When all are aside, the one that is due soonest is the choice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::codegen::http;
use tower::util::BoxCloneSyncService;

use crate::deadline::Deadline;

/// The way to a node. Cheap to clone.
pub(crate) type Transport = BoxCloneSyncService<
    http::Request<tonic::body::Body>,
    http::Response<tonic::body::Body>,
    tonic::transport::Error,
>;

/// How long a node is set aside after its first failure; it doubles with each one in a row.
const ASIDE: Duration = Duration::from_millis(50);
/// The longest, whatever the node itself asks for.
const ASIDE_MAX: Duration = Duration::from_secs(3);

/// One node.
pub(crate) struct Node {
    pub(crate) transport: Transport,
    in_flight: AtomicUsize,
    health: Mutex<Health>,
}

#[derive(Default)]
struct Health {
    /// In a row.
    failures: u32,
    aside: Option<Deadline>,
}

impl Node {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport, in_flight: AtomicUsize::new(0), health: Mutex::default() }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is still to be left alone.
    fn aside(&self) -> Duration {
        self.health().aside.map_or(Duration::ZERO, Deadline::left)
    }

    /// Counts a call, for as long as the returned value lives. If the node failed last, others leave it
    /// alone meanwhile: one call finds out whether it is back.
    pub(crate) fn begin(&self, patience: Duration) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut health = self.health();
        if health.failures > 0 {
            health.aside = Some(Deadline::within(patience.min(ASIDE_MAX)));
        }
        InFlight(self)
    }

    /// It answered. Whether it had failed before.
    pub(crate) fn succeeded(&self) -> bool {
        std::mem::take(&mut *self.health()).failures > 0
    }

    /// It gave no answer, or asked to be left alone. `random` spreads the returns of many clients.
    pub(crate) fn failed(&self, asked_for: Option<Duration>, random: u64) {
        let mut health = self.health();
        let aside = aside_after(health.failures, asked_for, random);
        health.failures = health.failures.saturating_add(1);
        health.aside = Some(Deadline::within(aside));
    }
}

/// How long to leave a node alone that failed so often in a row before: at least half of what doubles.
fn aside_after(failures: u32, asked_for: Option<Duration>, random: u64) -> Duration {
    let full = ASIDE.saturating_mul(1_u32.checked_shl(failures.min(16)).unwrap_or(u32::MAX));
    let full = full.max(asked_for.unwrap_or_default()).min(ASIDE_MAX);
    let spread = full / 2;
    let percent = u32::try_from(random % 101).unwrap_or_default();
    match asked_for {
        // What a node asks for is a least, and the spread comes on top.
        Some(least) if least >= full => full + spread * percent / 100,
        _ => full - spread * percent / 100,
    }
}

/// A call in flight.
pub(crate) struct InFlight<'a>(&'a Node);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which node to ask, and how long it would like to be left alone first.
pub(crate) fn choose(nodes: &[Node], random: u64) -> Option<(&Node, Duration)> {
    let ready: Vec<&Node> = nodes.iter().filter(|node| node.aside().is_zero()).collect();
    let Some((first, second)) = two_of(&ready, random) else {
        return nodes.iter().map(|node| (node, node.aside())).min_by_key(|(_, aside)| *aside);
    };
    let load = |node: &Node| node.in_flight.load(Ordering::Relaxed);
    Some((if load(second) < load(first) { second } else { first }, Duration::ZERO))
}

/// Two different ones, unless there is but one.
fn two_of<'a>(nodes: &[&'a Node], random: u64) -> Option<(&'a Node, &'a Node)> {
    let count = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    let first = (random >> 32).checked_rem(count)?;
    let step = (random & u64::from(u32::MAX)).checked_rem(count - 1).map_or(0, |step| step + 1);
    let at = |place: u64| nodes.get(usize::try_from(place % count).ok()?).copied();
    Some((at(first)?, at(first + step)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<Node> {
        let nowhere = || {
            Transport::new(tower::service_fn(|_: http::Request<tonic::body::Body>| {
                std::future::pending()
            }))
        };
        (0..count).map(|_| Node::new(nowhere())).collect()
    }

    fn place(nodes: &[Node], random: u64) -> usize {
        let (chosen, _) = choose(nodes, random).unwrap();
        nodes.iter().position(|node| std::ptr::eq(node, chosen)).unwrap()
    }

    /// Spreads small numbers over all bits.
    fn random(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[tokio::test(start_paused = true)]
    async fn all_nodes_are_asked_and_the_busy_one_less() {
        let nodes = nodes(3);
        let count = |nodes: &[Node]| {
            let mut counts = [0; 3];
            (0..3_000).for_each(|number| counts[place(nodes, random(number))] += 1);
            counts
        };
        assert!(count(&nodes).iter().all(|count| (800..1_200).contains(count)));
        let _busy = nodes[1].begin(Duration::from_secs(1));
        assert_eq!(count(&nodes)[1], 0, "of any two, the other one is idle");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_failed_is_left_alone_and_then_tried_with_one_call() {
        let nodes = nodes(2);
        nodes[0].failed(None, 0);
        assert!((0..100).all(|number| place(&nodes, random(number)) == 1));
        tokio::time::advance(ASIDE).await;
        assert!((0..100).any(|number| place(&nodes, random(number)) == 0), "it is due again");
        let _busy = [(); 2].map(|()| nodes[1].begin(Duration::from_secs(1)));
        let trial = nodes[0].begin(Duration::from_secs(1));
        assert!((0..100).all(|number| place(&nodes, random(number)) == 1), "one tries");
        assert!(nodes[0].succeeded());
        drop(trial);
        assert!((0..100).any(|number| place(&nodes, random(number)) == 0));
    }

    #[tokio::test(start_paused = true)]
    async fn with_all_aside_the_one_due_soonest_is_named_with_its_wait() {
        let nodes = nodes(2);
        nodes[0].failed(Some(Duration::from_secs(1)), 0);
        nodes[1].failed(Some(Duration::from_millis(300)), 0);
        let (chosen, wait) = choose(&nodes, 7).unwrap();
        assert!(std::ptr::eq(chosen, &raw const nodes[1]));
        assert_eq!(wait, Duration::from_millis(300));
        assert!(choose(&[], 7).is_none());
    }

    #[test]
    fn the_time_aside_doubles_within_bounds_and_is_never_less_than_was_asked_for() {
        assert_eq!(aside_after(0, None, 0), ASIDE);
        assert_eq!(aside_after(0, None, 100), ASIDE / 2);
        assert_eq!(aside_after(1, None, 0), ASIDE * 2);
        assert_eq!(aside_after(40, None, 0), ASIDE_MAX);
        let asked_for = Duration::from_millis(500);
        assert_eq!(aside_after(0, Some(asked_for), 0), asked_for);
        assert_eq!(aside_after(0, Some(asked_for), 100), asked_for * 3 / 2);
        let long = aside_after(0, Some(Duration::from_secs(3_600)), 100);
        assert!(long <= ASIDE_MAX * 3 / 2, "{long:?}");
    }
}
