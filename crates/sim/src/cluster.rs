//! Some nodes over one store, and the network to them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use semel_server::options::RetryOptions;
use semel_server::{KeyOptions, NodeOptions, OptionsError};
use semel_store::memory::{MemoryStore, Odds};

use crate::network::{Network, Weather};
use crate::node::Node;
use crate::random::Random;
use crate::store::Amnesia;
use crate::time::SimClock;
use crate::world::World;

/// The cluster of one run. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Its nodes.
    pub(crate) nodes: Rc<[Rc<Node>]>,
    /// The way to them.
    pub(crate) network: Network,
    /// Their store.
    pub(crate) engine: MemoryStore,
}

impl Cluster {
    /// Starts `nodes` nodes.
    ///
    /// # Errors
    ///
    /// Their options are out of bounds.
    pub(crate) fn start(
        world: &World,
        nodes: usize,
        mut random: Random,
    ) -> Result<Self, OptionsError> {
        Self::start_with(world, nodes, None, &mut random)
    }

    pub(crate) fn start_with(
        world: &World,
        nodes: usize,
        amnesia: Option<&Amnesia>,
        random: &mut Random,
    ) -> Result<Self, OptionsError> {
        let engine = MemoryStore::new(Arc::new(SimClock::new(world.time)));
        let make = |number| {
            let node =
                Node::new(number, world, &engine, amnesia.cloned(), options(), random.fork());
            node.start()?;
            Ok(Rc::new(node))
        };
        let nodes = (0..nodes).map(make).collect::<Result<Vec<_>, OptionsError>>()?;
        Ok(Self { nodes: nodes.into(), network: Network::new(world, random.fork()), engine })
    }

    /// The node of a number; the numbers go round.
    pub(crate) fn node(&self, number: usize) -> Option<&Rc<Node>> {
        self.nodes.get(number % self.nodes.len().max(1))
    }

    /// Ends every fault: nodes run, the store is there, messages arrive, clocks are right.
    ///
    /// # Errors
    ///
    /// The options of its nodes are out of bounds.
    pub(crate) fn heal(&self) -> Result<(), OptionsError> {
        self.network.join_all();
        self.network.set_weather(Weather { delay_max_ms: 2, ..Weather::default() });
        for node in &*self.nodes {
            node.faults.set_down(false);
            node.faults.set_odds(Odds::default());
            node.faults.release();
            node.clock.set_off_us(0);
            node.go_on();
            node.start()?;
        }
        Ok(())
    }
}

/// What the nodes are told: the defaults, without the memory of a real machine.
fn options() -> NodeOptions {
    let keys = KeyOptions {
        replay_cache_bytes: 256 * 1024,
        sweep_interval: Duration::from_secs(2),
        ..KeyOptions::default()
    };
    let retries = RetryOptions {
        recent_tokens_max: 20_000,
        recent_roots_max: 1_000,
        ..RetryOptions::default()
    };
    let leftovers_interval = Duration::from_secs(7);
    NodeOptions { serving_threads: 1, leftovers_interval, keys, retries, ..NodeOptions::default() }
}
