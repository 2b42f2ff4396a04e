//! The script of what goes wrong: every fault once in an order that the seed names, then again in another,
//! until the time is over. Everything is whole again at its end, and between two faults, so that no two
//! together take more than a cluster promises to survive: a store that dies has a standby that lacks nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::call::now_us;
use crate::clocks::{FakedClock, faked_clock};
use crate::cluster::{Cluster, NODES};
use crate::gate::Mode;
use crate::postgres::Stop;
use crate::standby::Commits;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// A node dies, and comes back.
    Kill,
    /// A node stands still for longer than any lease, and goes on.
    Pause,
    /// A node is reset from its store, or hears nothing from it, or nothing passes.
    StoreCut,
    StoreMute,
    StoreHeld,
    /// The same between a node and its clients.
    ClientsCut,
    ClientsMute,
    ClientsHeld,
    /// Everything is late, everywhere.
    Slow,
    /// A node hears no wake-ups.
    Deaf,
    /// A node dies while another does not hear its store.
    KillAndStoreMute,
    /// The store is stopped, in order or as in a crash, and started.
    StoreRestart,
    StoreCrash,
    /// The store dies for good, and its standby takes its place.
    FailOver,
    /// The store's standby is away, and all commits wait for it.
    StandbyAway,
    /// All nodes are stopped in order and started, one after the other.
    Roll,
    /// A node's clock is ahead, or behind.
    ClockAhead,
    ClockBehind,
}

const ALL: [Fault; 18] = [
    Fault::Kill,
    Fault::Pause,
    Fault::StoreCut,
    Fault::StoreMute,
    Fault::StoreHeld,
    Fault::ClientsCut,
    Fault::ClientsMute,
    Fault::ClientsHeld,
    Fault::Slow,
    Fault::Deaf,
    Fault::KillAndStoreMute,
    Fault::StoreRestart,
    Fault::StoreCrash,
    Fault::FailOver,
    Fault::StandbyAway,
    Fault::Roll,
    Fault::ClockAhead,
    Fault::ClockBehind,
];

/// What was played.
#[derive(Debug, Default)]
pub(crate) struct Played {
    counts: BTreeMap<Fault, u64>,
    pub(crate) total: u64,
    pub(crate) restarts: u64,
}

impl std::fmt::Display for Played {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} faults, {} starts of nodes: ", self.total, self.restarts)?;
        let counts: Vec<String> =
            self.counts.iter().map(|(fault, count)| format!("{fault:?} {count}")).collect();
        formatter.write_str(&counts.join(", "))
    }
}

/// Plays faults for so long, and longer until the one under way is over.
pub(crate) async fn play(cluster: &mut Cluster, random: &mut SmallRng, lasts: Duration) -> Played {
    let until_us = now_us() + crate::call::micros(lasts);
    let clock = faked_clock();
    let mut played = Played::default();
    let mut deck = Vec::new();
    while now_us() < until_us {
        let Some(fault) = deck.pop() else {
            deck = ALL.to_vec();
            deck.shuffle(random);
            continue;
        };
        let clocks = matches!(fault, Fault::ClockAhead | Fault::ClockBehind);
        if clocks && clock.is_none() {
            continue;
        }
        let node = random.random_range(0..NODES);
        println!("{:>7} ms  {fault:?} (node {node})", now_us() / 1_000);
        let mut strike = Strike { cluster, random, node, restarts: 0, clock: clock.as_ref() };
        strike.play(fault).await;
        played.restarts += strike.restarts;
        *played.counts.entry(fault).or_default() += 1;
        played.total += 1;
        let calm = random.random_range(200..1_000);
        tokio::time::sleep(Duration::from_millis(calm)).await;
    }
    played
}

/// One fault.
struct Strike<'a> {
    cluster: &'a mut Cluster,
    random: &'a mut SmallRng,
    node: usize,
    restarts: u64,
    clock: Option<&'a FakedClock>,
}

impl Strike<'_> {
    async fn play(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => {
                self.cluster.members[self.node].kill();
                self.a_while(0..1_500).await;
                self.start(self.node);
            }
            Fault::Pause => {
                self.cluster.members[self.node].node().signal("STOP");
                self.a_while(1_700..3_500).await;
                self.cluster.members[self.node].node().signal("CONT");
            }
            Fault::StoreCut => self.between_store(Mode::Cut).await,
            Fault::StoreMute => self.between_store(Mode::HoldReplies).await,
            Fault::StoreHeld => self.between_store(Mode::Hold).await,
            Fault::Deaf => self.between_store(Mode::Deaf).await,
            Fault::ClientsCut => self.between_clients(Mode::Cut).await,
            Fault::ClientsMute => self.between_clients(Mode::HoldReplies).await,
            Fault::ClientsHeld => self.between_clients(Mode::Hold).await,
            Fault::Slow => self.slow().await,
            Fault::KillAndStoreMute => {
                let muted = (self.node + 1) % NODES;
                self.cluster.members[muted].to_store.set(Mode::HoldReplies);
                self.a_while(100..300).await;
                self.cluster.members[self.node].kill();
                self.start(self.node);
                self.a_while(500..1_500).await;
                self.cluster.members[muted].to_store.set(Mode::Pass);
            }
            Fault::StoreRestart => self.cluster.restart_store(Stop::Fast),
            Fault::StoreCrash => self.cluster.restart_store(Stop::Immediate),
            Fault::FailOver => {
                self.cluster.fail_over();
                self.a_while(500..2_000).await;
                self.cluster.add_standby(Commits::WaitForStandby);
            }
            Fault::StandbyAway => {
                let away = Duration::from_millis(self.random.random_range(300..2_500));
                self.cluster.without_standby(away).await;
            }
            Fault::Roll => {
                for node in 0..NODES {
                    self.cluster.members[node].terminate();
                    self.start(node);
                }
            }
            Fault::ClockAhead => self.clock_off("+5s").await,
            Fault::ClockBehind => self.clock_off("-5s").await,
        }
    }

    fn start(&mut self, node: usize) {
        self.cluster.members[node].start();
        self.restarts += 1;
    }

    async fn between_store(&mut self, mode: Mode) {
        self.cluster.members[self.node].to_store.set(mode);
        self.a_while(300..3_000).await;
        self.cluster.members[self.node].to_store.set(Mode::Pass);
    }

    async fn between_clients(&mut self, mode: Mode) {
        self.cluster.members[self.node].from_clients.set(mode);
        self.a_while(300..2_500).await;
        self.cluster.members[self.node].from_clients.set(Mode::Pass);
    }

    async fn slow(&mut self) {
        for member in &self.cluster.members {
            let late = Mode::Delay(Duration::from_millis(self.random.random_range(5..80)));
            member.to_store.set(late);
            member.from_clients.set(late);
        }
        self.a_while(1_000..3_000).await;
        self.cluster.heal();
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

    async fn a_while(&mut self, ms: std::ops::Range<u64>) {
        let ms = self.random.random_range(ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
