//! The fleet's breakers, as one process follows them.
//!
//! A breaker belongs to a tenant and a dependency, and to the whole fleet: see the contract. Here its state is
//! kept in memory, so that admitting a call costs an atomic load: a node streams every change, outcomes go back
//! in batches, and a call asks a node only for the permit to probe.
//!
//! ```no_run
//! use semel_client::Client;
//! use semel_client::breakers::{BreakerSettings, Outcome};
//!
//! # async fn call() -> Result<(), std::io::Error> { Ok(()) }
//! # async fn example(semel: Client, stopped: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let breakers = semel.breakers(BreakerSettings::default());
//! let breaker = breakers.breaker("stripe")?;
//!
//! let work = async {
//!     let ticket = breaker.enter().await?;
//!     let result = call().await;
//!     ticket.tell(if result.is_ok() { Outcome::Succeeded } else { Outcome::Failed });
//!     result.map_err(Box::<dyn std::error::Error>::from)
//! };
//! let (result, ()) = tokio::join!(work, breakers.run(stopped));
//! # result
//! # }
//! ```
//!
//! # What it promises
//!
//! - **No node, no guessing.** While no node is in reach, the breaker goes on from where the fleet left it, by
//!   the policy that was last heard of, with this process's own calls: 50 % of at least 20 calls in 30 s,
//!   a cool-down of 30 s, one probe at a time, unless the policy says otherwise.
//! - **No place to watch, no guessing either**: a node that has as many watchers as it takes is asked for the
//!   states instead, as often as it says, until it has a place.
//! - **Who alone fails, alone holds back**: a node says so, and the fleet's breaker stays closed.
//! - **A lost report counts once**, or not at all.
//! - **Quiet when idle**: without calls, nothing is sent but what the watch takes.
//!
//! It notices a dead connection by its reports, or by the channel's own keep-alive: a [`Client`]'s has one. The
//! watch goes where the reports go.
//!
//! # Layout
//!
//! - `gate`: where one breaker stands, and whom it lets through; pure
//! - `window`, `rules`: this process's own outcomes; the policy
//! - `entry`, `breaker`: one breaker as its users and its supplier share it
//! - `reports`: which report is sent next; pure
//! - `run`: the future that watches and reports
//! - `settings`: what is handed in

mod breaker;
mod entry;
mod gate;
mod reports;
mod rules;
mod run;
mod settings;
mod window;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

pub(crate) use self::breaker::{Asking, Entrance};
pub use self::breaker::{Breaker, Ticket};
use self::entry::{Entry, Shared};
pub use self::settings::BreakerSettings;
use self::settings::WATCHED_MAX;
pub use self::window::Outcome;
use crate::clock::Stopwatch;
use crate::connection::{Client, StickyChannel};
use crate::dice::Dice;
use crate::followed::{NotFollowed, check_names};

/// The breakers of one tenant. Cheap to clone; all clones are the same client. Without
/// [`run`](Self::run) they know only of this process's own calls.
#[derive(Clone)]
pub struct Breakers(Arc<Inner>);

struct Inner {
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    /// There is one that is not watched yet.
    arrived: Notify,
    shared: Arc<Shared>,
}

impl Client {
    /// The breakers of this client's tenant, by one of its nodes at a time: one that is lost is left for another,
    /// within about a second.
    #[must_use]
    pub fn breakers(&self, settings: BreakerSettings) -> Breakers {
        Breakers::new(self.sticky_channel(), &self.tenant, settings, self.pool.dice.clone())
    }
}

impl Breakers {
    /// The breakers of `tenant` at the node at the other end of `channel`, without a [`Client`]: see
    /// [`Client::breakers`]. Who it is that reports is drawn from `dice`, and so is jitter.
    #[must_use]
    pub fn new(
        channel: impl Into<StickyChannel>,
        tenant: &str,
        settings: BreakerSettings,
        dice: Dice,
    ) -> Self {
        let shared = Shared {
            channel: channel.into().patient(settings.call_timeout),
            tenant: tenant.to_owned(),
            reporter: Bytes::copy_from_slice(&dice.id()),
            settings,
            clock: Stopwatch::start(),
            dice,
            outcomes: Notify::new(),
            is_urgent: AtomicBool::new(false),
        };
        Self(Arc::new(Inner {
            entries: Mutex::default(),
            arrived: Notify::new(),
            shared: Arc::new(shared),
        }))
    }

    /// The breaker of a dependency. Keep it: looking it up takes a lock.
    ///
    /// # Errors
    ///
    /// This one is new, and there are as many as the settings allow, or its name or the tenant's is malformed.
    pub fn breaker(&self, dependency: &str) -> Result<Breaker, NotFollowed> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get(dependency) {
            return Ok(Breaker(Arc::clone(entry)));
        }
        check_names(&self.0.shared.tenant, dependency)?;
        let limit = self.0.shared.settings.breakers_max.min(WATCHED_MAX);
        if entries.len() >= limit {
            return Err(NotFollowed::Limit { what: "breakers", limit });
        }
        let shared = Arc::clone(&self.0.shared);
        let entry = Arc::new(Entry::new(dependency.to_owned(), shared));
        entries.insert(dependency.to_owned(), Arc::clone(&entry));
        self.0.arrived.notify_one();
        Ok(Breaker(entry))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Entry>> {
        self.entries().values().cloned().collect()
    }
}

impl std::fmt::Debug for Breakers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Breakers")
            .field("breakers", &self.entries().len())
            .field("settings", &self.0.shared.settings)
            .finish_non_exhaustive()
    }
}
