//! Everything that goes wrong, as hard as the seed has it, and then the calm.

use std::rc::Rc;
use std::time::Duration;

use semel_store::memory::{Fault, Odds};

use crate::cluster::Cluster;
use crate::network::Weather;
use crate::node::Node;
use crate::random::Random;
use crate::world::World;

/// The furthest that a machine's clock is off, in milliseconds.
const SKEW_MAX_MS: u64 = 3_000;

/// How hard each kind of fault comes down: 0 is not at all, 3 is hardest.
#[derive(Clone, Copy, Debug)]
struct Intensity {
    messages: u64,
    cuts: u64,
    clocks: u64,
    store: u64,
    partitions: u64,
    pauses: u64,
    crashes: u64,
    store_crashes: u64,
}

/// The faults of one run.
#[derive(Debug)]
pub(crate) struct Storm {
    world: World,
    cluster: Cluster,
    callers: usize,
    random: Random,
    intensity: Intensity,
}

impl Storm {
    pub(crate) fn new(
        world: &World,
        cluster: &Cluster,
        callers: usize,
        mut random: Random,
    ) -> Self {
        let mut any = || random.between(0, 3);
        let intensity = Intensity {
            messages: any(),
            cuts: any(),
            clocks: any(),
            store: any(),
            partitions: any(),
            pauses: any(),
            crashes: any(),
            store_crashes: any(),
        };
        world.log.note(format_args!("{intensity:?}"));
        Self { world: world.clone(), cluster: cluster.clone(), callers, random, intensity }
    }

    /// Rages until `end` after the beginning of the run.
    pub(crate) async fn rage(mut self, end: Duration) {
        let end_us = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        while self.world.time.now_us() < end_us {
            self.turn();
            tokio::time::sleep(self.random.millis(100, 600)).await;
        }
    }

    /// Whether a fault of this intensity comes in this turn.
    fn comes(&mut self, intensity: u64) -> bool {
        self.random.happens(intensity * 80)
    }

    fn turn(&mut self) {
        let Some(node) = self.random.pick(&self.cluster.nodes).cloned() else { return };
        let intensity = self.intensity;
        if self.comes(3) {
            self.change_weather();
        }
        if self.comes(intensity.cuts) {
            self.cut(&node);
        }
        if self.comes(intensity.clocks) {
            self.step_clock(&node);
        }
        if self.comes(intensity.store) {
            self.trouble_store(&node);
        }
        if self.comes(intensity.partitions) {
            self.partition(&node);
        }
        if self.comes(intensity.pauses) {
            node.stop();
            self.later(400, 3_500, move || node.go_on());
        } else if self.comes(intensity.crashes) {
            self.end(node);
        }
        if self.comes(intensity.store_crashes) {
            self.world.log.note(format_args!("the store crashes"));
            self.cluster.engine.crash();
        }
    }

    fn later(&mut self, least_ms: u64, most_ms: u64, act: impl FnOnce() + 'static) {
        let delay = self.random.millis(least_ms, most_ms);
        self.world.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            act();
        });
    }

    fn change_weather(&mut self) {
        let strength = self.intensity.messages;
        let mut up_to = |most: u64| self.random.between(0, most * strength);
        let weather = Weather {
            lose_request: up_to(40),
            lose_reply: up_to(40),
            repeat: up_to(50),
            late: up_to(15),
            cancel: up_to(150),
            delay_max_ms: 1 + up_to(40),
        };
        self.cluster.network.set_weather(weather);
    }

    fn cut(&mut self, node: &Rc<Node>) {
        let (caller, number) = (self.random.position(self.callers), node.number);
        self.world.log.note(format_args!("caller {caller} is cut off from node {number}"));
        self.cluster.network.cut(caller, number, true);
        let network = self.cluster.network.clone();
        self.later(300, 4_000, move || network.cut(caller, number, false));
    }

    fn step_clock(&mut self, node: &Rc<Node>) {
        let off_ms = i64::try_from(self.random.between(0, 2 * SKEW_MAX_MS)).unwrap_or_default()
            - i64::try_from(SKEW_MAX_MS).unwrap_or_default();
        self.world.log.note(format_args!("the clock of node {} is off {off_ms} ms", node.number));
        node.clock.set_off_us(off_ms * 1_000);
    }

    fn trouble_store(&mut self, node: &Rc<Node>) {
        if self.random.happens(200) {
            self.world.log.note(format_args!("an answer to node {} is held", node.number));
            node.faults.script([Fault::Hold]);
            let node = Rc::clone(node);
            return self.later(200, 3_000, move || node.faults.release());
        }
        let strength = u16::try_from(self.intensity.store).unwrap_or_default();
        let mut up_to = |most: u64| {
            u16::try_from(self.random.between(0, most)).unwrap_or_default().saturating_mul(strength)
        };
        let odds = Odds {
            conflict_per_mille: up_to(60),
            unknown_per_mille: up_to(30),
            unavailable_per_mille: up_to(30),
            crash_per_mille: up_to(3),
            delay_per_mille: up_to(60),
            delay_max: Duration::from_millis(400),
        };
        self.world.log.note(format_args!("node {} meets {odds:?}", node.number));
        node.faults.set_odds(odds);
    }

    fn partition(&mut self, node: &Rc<Node>) {
        self.world.log.note(format_args!("node {} loses the store", node.number));
        node.faults.set_down(true);
        let node = Rc::clone(node);
        let log = self.world.log.clone();
        self.later(300, 4_000, move || {
            log.note(format_args!("node {} finds the store", node.number));
            node.faults.set_down(false);
        });
    }

    /// Ends a node, mostly without a word, and has it come back.
    fn end(&mut self, node: Rc<Node>) {
        let politely = self.random.happens(300);
        let (grace, away) = (self.random.millis(50, 500), self.random.millis(0, 3_000));
        self.world.tasks.spawn(async move {
            if politely {
                node.shut_down(grace).await;
            } else {
                node.crash();
            }
            tokio::time::sleep(away).await;
            if let Err(error) = node.start() {
                node.unsound(&error.to_string());
            }
        });
    }
}
