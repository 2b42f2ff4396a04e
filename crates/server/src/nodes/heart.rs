//! This node's heartbeats: each tells the store how the node is, and the node how its clock is.

use std::sync::Arc;
use std::time::Duration;

use semel_domain::node::{ClockSample, Command, Format, Heartbeat, NodeId};
use semel_domain::time::Timestamp;
use semel_domain::{breaker, budget, keys, node};
use semel_store::{Clock, Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::clock_guard::ClockGuard;
use super::load::Load;
use super::transition::{Decided, update};
use crate::settle;

/// How long a node that ends tries to take its record away. If it can't, others see that it is gone.
const LEAVE_FOR: Duration = Duration::from_secs(1);

/// Tells of one node.
pub(crate) struct Heart<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock_guard: Arc<ClockGuard>,
    pub(crate) load: Arc<Load>,
    pub(crate) node: NodeId,
    pub(crate) interval: Duration,
    pub(crate) address: Box<str>,
}

/// What one heartbeat leaves for the next.
#[derive(Default)]
struct Pulse {
    seq: u64,
    arrived: u64,
    beaten_us: u64,
    clock: Option<ClockSample>,
    is_silent: bool,
}

impl<S: Store> Heart<S> {
    /// Beats until the node closes, then takes its record away.
    pub(crate) async fn run(&self, closing: &CancellationToken) {
        closing.run_until_cancelled(self.beat_on()).await;
        let leave = self.store.update(vec![update(self.node, Command::Leave)]);
        match tokio::time::timeout(LEAVE_FOR, leave).await.map(|mut results| results.pop()) {
            Ok(Some(Ok(_))) => {}
            _ => tracing::warn!("the store was not told that this node ends"),
        }
    }

    async fn beat_on(&self) {
        let started_us = self.clock().monotonic_us();
        let mut pulse = Pulse { beaten_us: started_us, ..Pulse::default() };
        loop {
            self.beat(&mut pulse, started_us).await;
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn beat(&self, pulse: &mut Pulse, started_us: u64) {
        pulse.seq = pulse.seq.saturating_add(1);
        let (sent, sent_us) = (self.wall(), self.clock().monotonic_us());
        let command = Command::Heartbeat(self.heartbeat(pulse, started_us, sent_us));
        let answer = settle::answers(&*self.store, vec![update(self.node, command)]).await.pop();
        let took = Duration::from_micros(self.clock().monotonic_us().saturating_sub(sent_us));
        let answered = self.wall();
        let silent = answer.as_ref().is_none_or(Result::is_err);
        match answer {
            Some(Ok(Decided { outcome, now })) => {
                let sample = ClockSample::measured(sent, answered, took, now);
                self.clock_guard.note(&sample);
                pulse.clock = Some(sample);
                if let Err(error) = outcome {
                    tracing::error!(%error, "this node's own record can't be read");
                }
            }
            // Once: the next one follows soon.
            Some(Err(error)) if !pulse.is_silent => warn_of(&error),
            _ => {}
        }
        pulse.is_silent = silent;
    }

    fn heartbeat(&self, pulse: &mut Pulse, started_us: u64, now_us: u64) -> Heartbeat {
        let ago = Duration::from_micros(now_us.saturating_sub(pulse.beaten_us));
        let (load, arrived) = self.load.now(pulse.arrived, ago);
        (pulse.arrived, pulse.beaten_us) = (arrived, now_us);
        Heartbeat {
            seq: pulse.seq,
            up_for: Duration::from_micros(now_us.saturating_sub(started_us)),
            interval: self.interval,
            version: env!("CARGO_PKG_VERSION").into(),
            address: self.address.clone(),
            formats: formats(),
            load,
            clock: pulse.clock,
        }
    }

    fn clock(&self) -> &dyn Clock {
        &**self.clock_guard.clock()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.clock().now_us())
    }
}

fn warn_of(error: &StoreError) {
    tracing::warn!(%error, "the store was not told that this node lives; trying again");
}

/// The stored formats that this node knows. Every version up to the newest is read.
fn formats() -> Vec<Format> {
    let known = [
        ("breaker", breaker::encoding::VERSION),
        ("budget", budget::encoding::VERSION),
        ("keys", keys::encoding::VERSION),
        ("node", node::encoding::VERSION),
    ];
    let format = |(record, newest): (&str, u8)| Format {
        record: record.into(),
        reads_from: 1,
        reads_to: newest,
        writes: newest,
    };
    known.map(format).into()
}

#[cfg(test)]
mod tests {
    use semel_domain::node::layout::record_key;
    use semel_domain::node::{decode, encode};
    use semel_store::{ManualClock, MemoryStore, Scan, Space};

    use super::*;

    const NOON_US: u64 = 1_800_000_000_000_000;

    /// A node whose clock is `node`, over a store whose clock is `store`.
    fn heart(store: &ManualClock, node: &ManualClock) -> Heart<MemoryStore> {
        Heart {
            store: Arc::new(MemoryStore::new(Arc::new(store.clone()))),
            clock_guard: ClockGuard::new(Arc::new(node.clone()), Duration::from_secs(1)),
            load: Arc::default(),
            node: NodeId([7; 16]),
            interval: Duration::from_secs(2),
            address: "10.0.0.7:7450".into(),
        }
    }

    async fn recorded(heart: &Heart<MemoryStore>) -> Option<node::Record> {
        let (start, end) = node::layout::records();
        let scan = Scan { space: Space::Records, start, end, limit: 10, max_bytes: 10_000 };
        let rows = heart.store.scan(scan).await.expect("answers").rows;
        let row = rows.into_iter().next()?;
        assert_eq!(row.key, record_key(heart.node));
        Some(decode(&row.value).expect("written by this version"))
    }

    #[tokio::test]
    async fn a_heartbeat_tells_how_the_node_is_and_measures_its_clock() {
        let (store, clock) = (ManualClock::new(NOON_US), ManualClock::new(NOON_US + 1_500_000));
        let heart = heart(&store, &clock);
        let lane = heart.load.lane();
        let mut pulse = Pulse::default();
        heart.beat(&mut pulse, 0).await;
        let first = recorded(&heart).await.expect("joined");
        assert_eq!((first.seq, first.clock), (1, None));
        assert!(heart.clock_guard.is_off(), "at once");

        let (open, _) = (lane.call(), (lane.call(), lane.call(), lane.call()));
        clock.advance_us(2_000_000);
        store.advance_us(2_000_000);
        clock.set_us(NOON_US + 2_000_400);
        heart.beat(&mut pulse, 0).await;
        let second = recorded(&heart).await.expect("it goes on");
        let sample = ClockSample { offset_us: 1_500_000, round_trip: Duration::ZERO };
        assert_eq!(second.clock, Some(sample), "as of the heartbeat before");
        assert_eq!((second.load.calls_under_way, second.load.calls_per_second), (1, 2));
        assert_eq!(second.started_at.as_micros(), NOON_US, "by the store's clock");
        assert_eq!(second.touched_at.as_micros(), NOON_US + 2_000_000);
        assert!(!heart.clock_guard.is_off(), "it was set right");
        assert_eq!(pulse.clock.map(|sample| sample.offset_us), Some(400));
        drop(open);
    }

    #[tokio::test]
    async fn a_node_that_ends_takes_its_record_away() {
        let clock = ManualClock::new(NOON_US);
        let (heart, closing) = (heart(&clock, &clock), CancellationToken::new());
        let ending = async {
            while recorded(&heart).await.is_none() {
                tokio::task::yield_now().await;
            }
            closing.cancel();
        };
        let both = async { tokio::join!(heart.run(&closing), ending) };
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("it ends");
        assert_eq!(recorded(&heart).await, None);
    }

    #[test]
    fn what_a_node_says_of_itself_is_read_back() {
        let clock = ManualClock::new(NOON_US);
        let told = heart(&clock, &clock).heartbeat(&mut Pulse::default(), 0, 0);
        let (change, _) = node::decide(None, &Command::Heartbeat(told), Timestamp::default());
        let semel_domain::Change::Put(record) = change else { panic!("the first is written") };
        assert_eq!(decode(&encode(&record)), Ok(record), "formats are in the order of their names");
    }
}
