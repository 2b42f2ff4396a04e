//! The published bound, against shares and a record that meet late, lost and repeated messages, silent
//! nodes and clocks that differ. The model below counts with plain lists and knows no ledger.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_domain::Change;
use semel_domain::budget::{
    Charge, Command, Deposit, Handing, Incarnation, Outcome, Policy, Price, Record, ReplacePolicy,
    Share, Sync, SyncOutcome, decide,
};
use semel_domain::time::Timestamp;

const STEP_US: u64 = 10_000;
const START_US: u64 = 1_700_000_000_000_000;

/// A message on its way.
struct Message {
    due_us: u64,
    node: usize,
    born: u32,
    sync: Sync,
    reply: Option<(SyncOutcome, Timestamp)>,
}

struct Node {
    share: Share,
    born: u32,
    epoch_us: u64,
    /// The sync under way, how often it was sent, and when it is sent again.
    waiting: Option<(Sync, u32, u64)>,
    refundable: Vec<(Charge, usize)>,
}

struct World {
    random: SmallRng,
    policy: Policy,
    now_us: u64,
    record: Option<Record>,
    nodes: Vec<Node>,
    wire: Vec<Message>,
    births: u32,
    deposits: Vec<(u64, u64)>,
    grants: Vec<(u64, u64)>,
    faulty: bool,
    nodes_end: bool,
}

impl World {
    fn new(seed: u64, nodes: usize, policy: Policy, faulty: bool) -> Self {
        let replace =
            ReplacePolicy { policy: policy.clone(), expected_version: None, actor: "test".into() };
        let start = Timestamp::from_micros(START_US);
        let (change, _) = decide(None, &Command::SetPolicy(replace), start);
        let Change::Put(record) = change else { panic!("the policy was not set") };
        let mut world = Self {
            random: SmallRng::seed_from_u64(seed),
            policy,
            now_us: START_US,
            record: Some(record),
            nodes: Vec::new(),
            wire: Vec::new(),
            births: 0,
            deposits: Vec::new(),
            grants: Vec::new(),
            faulty,
            nodes_end: false,
        };
        for _ in 0..nodes {
            let node = world.new_node();
            world.nodes.push(node);
        }
        world
    }

    fn new_node(&mut self) -> Node {
        self.births += 1;
        let epoch_us = self.now_us - self.random.random_range(0..1_000_000_000);
        let mut id = [0; 16];
        id[..4].copy_from_slice(&self.births.to_le_bytes());
        let share = Share::new(Incarnation(id), Timestamp::from_micros(self.now_us - epoch_us));
        Node { share, born: self.births, epoch_us, waiting: None, refundable: Vec::new() }
    }

    fn local(&self, node: usize) -> Timestamp {
        Timestamp::from_micros(self.now_us - self.nodes[node].epoch_us)
    }

    fn deposit(&mut self, node: usize, requests: u64) {
        let milli = self.policy.deposit_milli(requests, requests);
        let now = self.local(node);
        self.nodes[node].share.deposit(
            &Deposit { milli, spent_milli: 0, at: now },
            &self.policy,
            now,
        );
        self.deposits.push((self.now_us, milli));
    }

    fn retry(&mut self, node: usize, delay: Duration) -> bool {
        let (now, policy) = (self.local(node), &self.policy);
        let price = Price { milli: 1_000, high: false, delay, admitted_per_mille: 1_000 };
        let charge = self.nodes[node].share.charge(&price, policy, now);
        if let Some(charge) = charge {
            self.nodes[node].refundable.push((charge, self.grants.len()));
            self.grants.push((self.now_us, 1_000));
        }
        charge.is_some()
    }

    fn refund(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if let Some((charge, grant)) = node.refundable.pop()
            && node.share.refund(&charge)
        {
            self.grants[grant].1 = 0;
        }
    }

    /// A late message may come by seconds late, twice, or never.
    fn send(&mut self, message: &Message) {
        let late = if self.faulty && self.random.random_bool(0.1) { 3_000_000 } else { 30_000 };
        let copies = if self.faulty { self.random.random_range(0..=2) } else { 1 };
        for _ in 0..copies {
            let due_us = self.now_us + self.random.random_range(1..=late);
            let (sync, reply) = (message.sync.clone(), message.reply.clone());
            let (node, born) = (message.node, message.born);
            self.wire.push(Message { due_us, node, born, sync, reply });
        }
    }

    fn sync(&mut self, node: usize) {
        let now = self.local(node);
        let policy = self.policy.clone();
        let state = &mut self.nodes[node];
        let sync = match &mut state.waiting {
            Some((sync, times, again_us)) if *again_us <= self.now_us => {
                if *times == 5 {
                    state.waiting = None;
                    state.share.abandon_sync(now);
                    return;
                }
                (*times, *again_us) = (*times + 1, self.now_us + 100_000);
                sync.clone()
            }
            None if state.share.sync_at(&policy, now).is_some_and(|at| at <= now) => {
                let sync = state.share.begin_sync(&policy, 1_000, Handing::Surplus, now);
                state.waiting = Some((sync.clone(), 1, self.now_us + 100_000));
                sync
            }
            _ => return,
        };
        let born = state.born;
        self.send(&Message { due_us: 0, node, born, sync, reply: None });
    }

    fn deliver(&mut self) {
        let due: Vec<_> =
            self.wire.extract_if(.., |message| message.due_us <= self.now_us).collect();
        for message in due {
            let Some((outcome, store_now)) = message.reply else {
                let now = Timestamp::from_micros(self.now_us);
                let command = Command::Sync(message.sync.clone());
                let (change, outcome) = decide(self.record.as_ref(), &command, now);
                if let Change::Put(record) = change {
                    self.record = Some(record);
                }
                let Outcome::Sync(outcome) = outcome else { panic!("not the outcome of a sync") };
                self.send(&Message { reply: Some((outcome, now)), ..message });
                continue;
            };
            let now = self.local(message.node);
            let node = &mut self.nodes[message.node];
            let awaited = node.waiting.as_ref().is_some_and(|(sync, ..)| *sync == message.sync);
            if node.born == message.born && awaited {
                node.waiting = None;
                node.share.finish_sync(&outcome, store_now, now);
            }
        }
    }

    fn step(&mut self) {
        self.now_us += STEP_US;
        self.deliver();
        for node in 0..self.nodes.len() {
            if self.nodes_end && self.random.random_bool(0.002) {
                self.nodes[node] = self.new_node();
            }
            self.sync(node);
        }
    }

    /// The worst excess over the bound, over every window that ends with a grant.
    fn excess(&self, lengths_s: &[u64]) -> u64 {
        let slack = u64::try_from((self.policy.span() + self.policy.lease).as_micros()).unwrap();
        let (grants, deposits) = (Sums::of(&self.grants), Sums::of(&self.deposits));
        let mut worst = 0;
        for (end, _) in &self.grants {
            for length in lengths_s {
                let from = end - length * 1_000_000;
                let granted = grants.within(from + 1, *end);
                let floor =
                    u64::from(self.policy.floor_per_second) * (length * 1_000_000 + slack) / 1_000;
                let paid = deposits.within(from - slack, *end) + floor;
                worst = worst.max(granted.saturating_sub(paid));
            }
        }
        worst
    }
}

/// A list in order of time, added up from its beginning to each entry.
struct Sums(Vec<(u64, u64)>);

impl Sums {
    fn of(list: &[(u64, u64)]) -> Self {
        assert!(list.is_sorted_by_key(|(at, _)| *at));
        let mut sum = 0;
        Self(
            list.iter()
                .map(|(at, milli)| {
                    (*at, {
                        sum += milli;
                        sum
                    })
                })
                .collect(),
        )
    }

    fn until(&self, to_us: u64) -> u64 {
        let count = self.0.partition_point(|(at, _)| *at <= to_us);
        count.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// What lies in [`from_us`, `to_us`].
    fn within(&self, from_us: u64, to_us: u64) -> u64 {
        self.until(to_us) - self.until(from_us - 1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_window_exceeds_the_bound_whatever_becomes_of_messages_and_nodes(
        seed: u64, nodes in 1_usize..6, floor_per_second in prop_oneof![Just(0), 0_u32..20],
        carry_over_s in 0_u64..3, apart: bool, messages_fail: bool,
        storm_us in prop_oneof![Just(2_500_000_u64), 100_000..2_500_000_u64],
    ) {
        let policy = Policy {
            floor_per_second,
            window: Duration::from_secs(3),
            carry_over: Duration::from_secs(carry_over_s),
            ratio_per_mille: 300,
            ..Policy::default()
        };
        let mut world = World::new(seed, nodes, policy, messages_fail);
        world.nodes_end = true;
        // Apart: who has deposits has no retries to make. They go through the store, all of them.
        let depositing = if apart { nodes.div_ceil(2) } else { nodes };
        for _ in 0..2_000 {
            let node = world.random.random_range(0..depositing);
            if world.random.random_bool(0.3) {
                let requests = world.random.random_range(0..5);
                world.deposit(node, requests);
            }
            // Phases without any demand, in which budgets fill, and phases of nothing but demand.
            let storm = (world.now_us / storm_us).is_multiple_of(2);
            for _ in 0..if storm { world.random.random_range(0..6) } else { 0 } {
                let node = world.random.random_range(if apart { nodes / 2 } else { 0 }..nodes);
                let delay = Duration::from_millis(world.random.random_range(0..200));
                world.retry(node, delay);
                if world.random.random_bool(0.05) {
                    world.refund(node);
                }
            }
            world.step();
        }
        prop_assert_eq!(world.excess(&[1, 2, 3, 7, 20]), 0);
    }
}

#[test]
fn under_steady_demand_nearly_all_that_may_be_granted_is_granted() {
    let policy = Policy::default();
    let mut world = World::new(7, 10, policy, false);
    for _ in 0..6_000 {
        // A thousand first attempts a second on half of the nodes, ten thousand retries on all.
        for node in 0..10 {
            if node < 5 {
                world.deposit(node, 2);
            }
            for _ in 0..10 {
                world.retry(node, Duration::ZERO);
            }
        }
        world.step();
    }
    let (from, to) = (START_US + 20_000_000, START_US + 60_000_000);
    let granted = Sums::of(&world.grants).within(from, to);
    let may = Sums::of(&world.deposits).within(from, to) + 10_000 * 40;
    assert!(granted * 100 >= may * 97, "{granted} of {may}");
    assert!(granted * 100 <= may * 103, "{granted} of {may}");
    assert_eq!(world.excess(&[1, 10]), 0);
}
