//! A node without threads and sockets: its services, and the work behind them.
//!
//! [`crate::Node`] puts it on threads behind a listener; a simulation calls it directly, in virtual
//! time. Both run the same code from the request message to the reply message.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use semel_domain::budget::Incarnation;
use semel_domain::node::NodeId;
use semel_proto::v1::admin_server::Admin;
use semel_proto::v1::breakers_server;
use semel_proto::v1::keys_server::Keys;
use semel_proto::v1::retries_server::Retries;
use semel_store::{Clock, Store};
use tokio_util::sync::CancellationToken;

use crate::batcher::Batcher;
use crate::breakers::{Breakers, BreakersService};
use crate::jitter::Jitter;
use crate::keys::{Engine, KeyTransition, KeysService, ReplayCache, Sweeper, WaiterCounts};
use crate::leftovers::Leftovers;
use crate::nodes::{AdminService, ClockGuard, Heart, LaneLoad, Load};
use crate::options::{NodeOptions, OptionsError};
use crate::retries::{Budgets, Keeper, RetriesService};

/// What all lanes of a node share.
pub struct Core<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Arc<NodeOptions>,
    pub(crate) closing: CancellationToken,
    pub(crate) breakers: Arc<Breakers<S>>,
    pub(crate) load: Arc<Load>,
    node: NodeId,
    clock_guard: Arc<ClockGuard>,
    seed: u64,
    cache: Arc<ReplayCache>,
    waiters: Arc<WaiterCounts>,
    budgets: Arc<Budgets>,
}

impl<S> Clone for Core<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            options: Arc::clone(&self.options),
            closing: self.closing.clone(),
            breakers: Arc::clone(&self.breakers),
            load: Arc::clone(&self.load),
            node: self.node,
            clock_guard: Arc::clone(&self.clock_guard),
            seed: self.seed,
            cache: Arc::clone(&self.cache),
            waiters: Arc::clone(&self.waiters),
            budgets: Arc::clone(&self.budgets),
        }
    }
}

impl<S> std::fmt::Debug for Core<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Core").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The services of one serving thread, and the batches of their calls.
pub struct Lane<S> {
    pub(crate) keys: KeysService<S>,
    pub(crate) retries: RetriesService<S>,
    pub(crate) breakers: BreakersService<S>,
    pub(crate) admin: AdminService<S>,
    pub(crate) load: Arc<LaneLoad>,
    pub(crate) batcher: Arc<Batcher<KeyTransition>>,
}

impl<S> std::fmt::Debug for Lane<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lane").finish_non_exhaustive()
    }
}

impl<S: Store> Core<S> {
    /// A node over `store`. `seed` feeds its randomness: jitter, and the ids that it makes. Nothing
    /// runs until its lanes and its background are driven.
    ///
    /// # Errors
    ///
    /// An option that is out of its bounds.
    pub fn new(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        seed: u64,
        options: NodeOptions,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        let closing = CancellationToken::new();
        // Unguessable as long as the seed is: one draw names the node, another feeds its permits.
        let mut random = StdRng::seed_from_u64(seed);
        let node = Incarnation(random.random());
        let clock_guard = ClockGuard::new(Arc::clone(&clock), options.keys.allowed_skew);
        let breakers = Breakers::new(
            Arc::clone(&store),
            Arc::clone(&clock_guard),
            node.0,
            random.random(),
            options.breakers,
            closing.clone(),
        );
        Ok(Self {
            budgets: Arc::new(Budgets::new(node, Arc::clone(&clock_guard), &options.retries)),
            load: Arc::default(),
            node: NodeId(node.0),
            clock_guard,
            breakers: Arc::new(breakers),
            cache: Arc::new(ReplayCache::new(options.keys.replay_cache_bytes)),
            waiters: Arc::new(WaiterCounts::new(&options.keys)),
            closing,
            options: Arc::new(options),
            store,
            clock,
            seed,
        })
    }

    /// Cancelled to end the node: whatever waits is then sent away.
    #[must_use]
    pub const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// The services of one more serving thread.
    #[must_use]
    pub fn lane(&self, index: usize) -> Lane<S> {
        let batcher = Batcher::new(Arc::clone(&self.clock), self.options.queued_calls_max);
        let engine = Engine {
            store: Arc::clone(&self.store),
            batcher: Arc::clone(&batcher),
            clock: Arc::clone(&self.clock),
            clock_guard: Arc::clone(&self.clock_guard),
            waiters: Arc::clone(&self.waiters),
            closing: self.closing.clone(),
        };
        let seed = self.seed.wrapping_add(u64::try_from(index).unwrap_or_default());
        let keys = KeysService::new(
            engine,
            Arc::clone(&self.cache),
            Arc::new(self.options.keys.clone()),
            Jitter::new(seed),
        );
        let retries = RetriesService::new(
            Arc::clone(&self.store),
            Arc::clone(&self.budgets),
            Arc::clone(&self.breakers),
            Jitter::new(seed.rotate_left(32)),
        );
        let breakers = BreakersService(Arc::clone(&self.breakers));
        let admin = AdminService {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            node: self.node,
        };
        Lane { keys, retries, breakers, admin, load: self.load.lane(), batcher }
    }

    /// Sweeps until the node closes. Calls `report` with whether the node is well, that is, the store
    /// answers and the node's clock is right, whenever that is found out.
    pub async fn sweep(&self, report: impl AsyncFnMut(bool)) {
        let sweeper = Sweeper {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            clock_guard: Arc::clone(&self.clock_guard),
            jitter: Jitter::new(self.seed.rotate_left(16)),
            interval: self.options.keys.sweep_interval,
        };
        let leftovers = Leftovers {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            clock_guard: Arc::clone(&self.clock_guard),
            interval: self.options.leftovers_interval,
        };
        let both = async { tokio::join!(sweeper.run(report), leftovers.run()) };
        self.closing.run_until_cancelled(both).await;
    }

    /// Tells the store that this node lives, and keeps its parts of what the fleet shares in step with the
    /// store, until the node closes and has given back what it held.
    pub async fn keep(&self) {
        let keeper = Keeper {
            budgets: Arc::clone(&self.budgets),
            breakers: Arc::clone(&self.breakers),
            store: Arc::clone(&self.store),
        };
        let heart = Heart {
            store: Arc::clone(&self.store),
            clock_guard: Arc::clone(&self.clock_guard),
            load: Arc::clone(&self.load),
            node: self.node,
            interval: self.options.heartbeat_interval,
            address: self.options.advertised_address.as_deref().unwrap_or_default().into(),
        };
        tokio::join!(keeper.run(&self.closing), self.breakers.run(), heart.run(&self.closing));
    }
}

impl<S: Store> Lane<S> {
    /// The Keys service.
    #[must_use]
    pub const fn keys(&self) -> &impl Keys {
        &self.keys
    }

    /// The Retries service.
    #[must_use]
    pub const fn retries(&self) -> &impl Retries {
        &self.retries
    }

    /// The Breakers service.
    #[must_use]
    pub const fn breakers(&self) -> &impl breakers_server::Breakers {
        &self.breakers
    }

    /// The Admin service.
    #[must_use]
    pub const fn admin(&self) -> &impl Admin {
        &self.admin
    }

    /// Carries the calls of this lane to `store` until `drained`, then what is still queued.
    pub async fn drive(&self, store: &S, drained: &CancellationToken) {
        self.batcher.drive(store, drained).await;
    }
}
