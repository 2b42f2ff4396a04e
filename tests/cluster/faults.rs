//! The script of what goes wrong: every fault once in an order that the seed names, then again in another,
//! until the time is over. Everything is whole again at its end, and between two faults, so that no two
//! together take more than a cluster promises to survive: a store that dies has a standby that lacks nothing.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::call::now_us;
use crate::clocks::{FakedClock, faked_clock};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::gate::Mode;

/// What can go wrong.
#[derive(Clone, Copy)]
enum Fault<F> {
    OfNode(NodeFault),
    OfDatabase(F),
}

impl<F: Debug> Debug for Fault<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OfNode(fault) => fault.fmt(formatter),
            Self::OfDatabase(fault) => fault.fmt(formatter),
        }
    }
}

/// What can go wrong whatever the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeFault {
    /// A node dies, and comes back.
    Kill,
    /// A node stands still for longer than any lease, and goes on.
    Pause,
    /// A node is reset from its clients, or they hear nothing from it, or nothing passes.
    ClientsCut,
    ClientsMute,
    ClientsHeld,
    /// All nodes are stopped in order and started, one after the other.
    Roll,
    /// A node's clock is ahead, or behind.
    ClockAhead,
    ClockBehind,
}

const NODE_FAULTS: [NodeFault; 8] = [
    NodeFault::Kill,
    NodeFault::Pause,
    NodeFault::ClientsCut,
    NodeFault::ClientsMute,
    NodeFault::ClientsHeld,
    NodeFault::Roll,
    NodeFault::ClockAhead,
    NodeFault::ClockBehind,
];

/// What was played.
#[derive(Debug, Default)]
pub(crate) struct Played {
    counts: BTreeMap<String, u64>,
    pub(crate) total: u64,
    pub(crate) restarts: u64,
}

impl std::fmt::Display for Played {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} faults, {} starts of nodes: ", self.total, self.restarts)?;
        let counts: Vec<String> =
            self.counts.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        formatter.write_str(&counts.join(", "))
    }
}

/// Plays faults for so long, and longer until the one under way is over.
pub(crate) async fn play<D: Database>(
    cluster: &mut Cluster<D>,
    random: &mut SmallRng,
    lasts: Duration,
) -> Played {
    let until_us = now_us() + crate::call::micros(lasts);
    let clock = faked_clock();
    let mut played = Played::default();
    let mut deck = Vec::new();
    while now_us() < until_us {
        let Some(fault) = deck.pop() else {
            deck.extend(NODE_FAULTS.map(Fault::OfNode));
            deck.extend(D::FAULTS.iter().copied().map(Fault::OfDatabase));
            deck.shuffle(random);
            continue;
        };
        let clocks = [NodeFault::ClockAhead, NodeFault::ClockBehind];
        if clock.is_none() && matches!(&fault, Fault::OfNode(it) if clocks.contains(it)) {
            continue;
        }
        let node = random.random_range(0..NODES);
        println!("{:>7} ms  {fault:?} (node {node})", now_us() / 1_000);
        let mut strike = Strike { cluster, random, node, restarts: 0, clock: clock.as_ref() };
        match fault {
            Fault::OfNode(fault) => strike.play(fault).await,
            Fault::OfDatabase(fault) => D::fail(&mut strike, fault).await,
        }
        played.restarts += strike.restarts;
        *played.counts.entry(format!("{fault:?}")).or_default() += 1;
        played.total += 1;
        let calm = random.random_range(200..1_000);
        tokio::time::sleep(Duration::from_millis(calm)).await;
    }
    played
}

/// One fault.
pub(crate) struct Strike<'a, D> {
    pub(crate) cluster: &'a mut Cluster<D>,
    pub(crate) random: &'a mut SmallRng,
    pub(crate) node: usize,
    restarts: u64,
    clock: Option<&'a FakedClock>,
}

impl<D: Database> Strike<'_, D> {
    async fn play(&mut self, fault: NodeFault) {
        match fault {
            NodeFault::Kill => {
                self.cluster.members[self.node].kill();
                self.a_while(0..1_500).await;
                self.start(self.node);
            }
            NodeFault::Pause => {
                self.cluster.members[self.node].node().signal("STOP");
                self.a_while(1_700..3_500).await;
                self.cluster.members[self.node].node().signal("CONT");
            }
            NodeFault::ClientsCut => self.between_clients(Mode::Cut).await,
            NodeFault::ClientsMute => self.between_clients(Mode::HoldReplies).await,
            NodeFault::ClientsHeld => self.between_clients(Mode::Hold).await,
            NodeFault::Roll => {
                for node in 0..NODES {
                    self.cluster.members[node].terminate();
                    self.start(node);
                }
            }
            NodeFault::ClockAhead => self.clock_off("+5s").await,
            NodeFault::ClockBehind => self.clock_off("-5s").await,
        }
    }

    pub(crate) fn start(&mut self, node: usize) {
        self.cluster.members[node].start();
        self.restarts += 1;
    }

    async fn between_clients(&mut self, mode: Mode) {
        self.cluster.members[self.node].from_clients.set(mode);
        self.a_while(300..2_500).await;
        self.cluster.members[self.node].from_clients.set(Mode::Pass);
    }

    /// The node runs for a while by a clock that is off by five seconds.
    async fn clock_off(&mut self, offset: &str) {
        let Some(clock) = self.clock else { return };
        self.cluster.members[self.node].kill();
        self.cluster.members[self.node].set_variables(&clock.off_by(offset));
        self.start(self.node);
        self.a_while(2_000..3_500).await;
        self.cluster.members[self.node].kill();
        self.cluster.members[self.node].set_variables(&[]);
        self.start(self.node);
    }

    pub(crate) async fn a_while(&mut self, ms: std::ops::Range<u64>) {
        let ms = self.random.random_range(ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
