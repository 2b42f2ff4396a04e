//! What a node has to do, counted where it happens: connections for the whole node, calls for each serving
//! thread on its own, so that no two of them write to the same place.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_domain::node;

/// The load of one node.
#[derive(Debug, Default)]
pub(crate) struct Load {
    connections: AtomicU32,
    /// One for each serving thread.
    lanes: Mutex<Vec<Arc<LaneLoad>>>,
}

/// The calls of one serving thread.
#[derive(Debug, Default)]
pub(crate) struct LaneLoad {
    arrived: AtomicU64,
    answered: AtomicU64,
}

/// A call that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<LaneLoad>);

/// A connection that is open, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Load>);

impl Load {
    /// The counts of one more serving thread.
    pub(crate) fn lane(&self) -> Arc<LaneLoad> {
        let lane = Arc::default();
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&lane));
        lane
    }

    /// Counts a connection.
    pub(crate) fn connection(self: &Arc<Self>) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// The load now, with the calls that arrived since `since`, which was `ago`. Also how many arrived
    /// in all.
    pub(crate) fn now(&self, since: u64, ago: Duration) -> (node::Load, u64) {
        let (mut arrived, mut answered) = (0_u64, 0_u64);
        for lane in self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // In this order none was answered that had not arrived.
            answered = answered.saturating_add(lane.answered.load(Ordering::Acquire));
            arrived = arrived.saturating_add(lane.arrived.load(Ordering::Relaxed));
        }
        let load = node::Load {
            connections: self.connections.load(Ordering::Relaxed),
            calls_under_way: clamped(arrived.saturating_sub(answered)),
            calls_per_second: per_second(arrived.saturating_sub(since), ago),
        };
        (load, arrived)
    }
}

impl LaneLoad {
    /// Counts a call.
    pub(crate) fn call(self: &Arc<Self>) -> OpenCall {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(self))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Release);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Rounded to the nearest.
fn per_second(calls: u64, within: Duration) -> u32 {
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
    clamped(calls.saturating_mul(1_000).saturating_add(within_ms / 2) / within_ms)
}

fn clamped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_counted_over_all_threads_and_what_arrived_since() {
        let load = Arc::new(Load::default());
        let (one, other) = (load.lane(), load.lane());
        let (first, connections) = (one.call(), [load.connection(), load.connection()]);
        drop([other.call(), other.call()]);
        let (seen, arrived) = load.now(0, Duration::from_secs(2));
        let expected = node::Load { connections: 2, calls_under_way: 1, calls_per_second: 2 };
        assert_eq!((seen, arrived), (expected, 3), "1.5 a second is rounded up");
        drop((first, connections));
        let (seen, _) = load.now(3, Duration::ZERO);
        assert_eq!(seen, node::Load::default());
    }
}
