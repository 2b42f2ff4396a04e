//! Settles what lost owners left behind.
//!
//! Work with a side effect behind somebody else's API can be lost between the effect and its completion. Its
//! key is stuck then: perhaps done. A recovery worker lists such keys, lets you look at what really happened
//! (at a provider, by the [derived key](crate::keys::StuckKey::derived_key)), and stores what you found. It
//! settles under the fence that was listed: if somebody took over meanwhile, nothing is written.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use semel_client::Client;
//! use semel_client::keys::{Resolution, Response};
//! # async fn ask_provider(idempotency_key: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
//!
//! # async fn example(semel: Client, stopped: impl Future<Output = ()>) {
//! let recovery = semel.recovery("payments.charge", "recovery-job").stuck_for(Duration::from_secs(60));
//! let look = async |key: &semel_client::keys::StuckKey| {
//!     match ask_provider(&key.derived_key).await {
//!         Ok(Some(receipt)) => Some(Resolution::Succeeded(Response::new(200, receipt))),
//!         Ok(None) => Some(Resolution::NotDone),
//!         Err(_) => None, // It can't be seen now: look again next time.
//!     }
//! };
//! recovery.run(Duration::from_secs(10), stopped, look).await;
//! # }
//! ```
//!
//! # What it does not do
//!
//! - It does not do the work: what was not done is released, and whoever asks next does it.
//! - It does not know how long a provider remembers its keys: look within that time, and call what is older
//!   unclear.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::{sleep, timeout};

use crate::connection::{Client, Error, Reason};
use crate::deadline::Deadline;
use crate::keys::{Resolution, StuckFilter, StuckKey, StuckState};

/// How many keys are looked at side by side.
const CONCURRENCY: usize = 4;
/// How long a look may take.
const LOOK: Duration = Duration::from_secs(30);
/// How long one round may take. The next begins with those stuck longest again.
const ROUND: Duration = Duration::from_secs(600);
/// How long storing what was found may take.
const SETTLE: Duration = Duration::from_secs(10);

/// Looks at stuck keys of one operation. Made by [`Client::recovery`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it runs"]
pub struct Recovery {
    client: Client,
    operation: String,
    actor: String,
    reason: String,
    stuck_for: Duration,
    concurrency: usize,
    look_timeout: Duration,
}

/// What a round came to, in keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Settled.
    pub settled: u64,
    /// Looked at, and still unclear; or the look took too long.
    pub unclear: u64,
    /// Taken over or settled by others meanwhile.
    pub moved_on: u64,
    /// What was found could not be stored, or the record can't be read. The log says why.
    pub failed: u64,
}

impl Client {
    /// A recovery of an operation's stuck keys. `actor` (1 to 128 bytes) is kept with every key that it
    /// settles.
    pub fn recovery(&self, operation: &str, actor: &str) -> Recovery {
        Recovery {
            client: self.clone(),
            operation: operation.to_owned(),
            actor: actor.to_owned(),
            reason: "a recovery job looked at what had happened".to_owned(),
            stuck_for: Duration::ZERO,
            concurrency: CONCURRENCY,
            look_timeout: LOOK,
        }
    }
}

/// What became of one key.
enum Fate {
    Settled,
    Unclear,
    MovedOn,
    Failed,
}

impl Recovery {
    /// Only keys that have been stuck for at least so long: a caller who comes back settles its own sooner.
    /// Default: any.
    pub const fn stuck_for(mut self, stuck_for: Duration) -> Self {
        self.stuck_for = stuck_for;
        self
    }

    /// Why keys are settled: 1 to 512 bytes, kept with each.
    pub fn reason(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }

    /// How many keys are looked at side by side: at least 1. Default: 4.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How long a look may take before the key counts as unclear; it is the current deadline of what it calls.
    /// Default: 30 s.
    pub const fn look_timeout(mut self, look_timeout: Duration) -> Self {
        self.look_timeout = look_timeout;
        self
    }

    /// Looks at stuck keys until `closing` ends, with a pause after each round. A round that fails is tried
    /// again after the pause. What is dropped at the end has written nothing, or all that it found.
    pub async fn run<H>(&self, pause: Duration, closing: impl Future<Output = ()>, look: H)
    where
        H: AsyncFn(&StuckKey) -> Option<Resolution>,
    {
        let mut closing = pin!(closing);
        loop {
            let round = async {
                match self.sweep(Deadline::within(ROUND), &look).await {
                    Ok(swept) => tracing::debug!(?swept, "looked at stuck keys"),
                    Err(error) => tracing::warn!(%error, "stuck keys could not be listed"),
                }
                sleep(pause).await;
            };
            tokio::select! {
                () = &mut closing => return,
                () = round => {}
            }
        }
    }

    /// Looks once at each key that is stuck, and settles those for which `look` says what happened; `None`
    /// leaves a key for the next time.
    ///
    /// # Errors
    ///
    /// The keys could not be listed: malformed names, or no node answered before the deadline.
    pub async fn sweep<H>(&self, deadline: Deadline, look: H) -> Result<Swept, Error>
    where
        H: AsyncFn(&StuckKey) -> Option<Resolution>,
    {
        let deadline = deadline.within_current();
        let mut swept = Swept::default();
        let mut filter = StuckFilter::operation(&self.operation).stuck_for(self.stuck_for);
        loop {
            let page = self.client.stuck_keys(&filter, deadline).await?;
            let settling = page.keys.iter().map(|key| self.settle(key, deadline, &look));
            let mut settling = stream::iter(settling).buffer_unordered(self.concurrency);
            while let Some(fate) = settling.next().await {
                swept.count(&fate);
            }
            drop(settling);
            let Some(next) = page.next else { return Ok(swept) };
            filter = filter.page(&next);
        }
    }

    async fn settle<H>(&self, key: &StuckKey, deadline: Deadline, look: &H) -> Fate
    where
        H: AsyncFn(&StuckKey) -> Option<Resolution>,
    {
        if key.state == StuckState::Unreadable {
            tracing::warn!(fence = key.fence, "the record of a stuck key can't be read");
            return Fate::Failed;
        }
        let over = deadline.earlier(self.look_timeout);
        let found = timeout(over.left(), over.scope(look(key))).await;
        let Ok(Some(resolution)) = found else { return Fate::Unclear };
        let who = (self.actor.as_str(), self.reason.as_str());
        let until = Deadline::within(SETTLE);
        match self.client.reconcile(key, &resolution, who, until).await {
            Ok(_) => Fate::Settled,
            Err(error) if has_moved_on(&error) => Fate::MovedOn,
            Err(error) => {
                tracing::warn!(%error, fence = key.fence, "a stuck key was not settled");
                Fate::Failed
            }
        }
    }
}

impl Swept {
    const fn count(&mut self, fate: &Fate) {
        match fate {
            Fate::Settled => self.settled += 1,
            Fate::Unclear => self.unclear += 1,
            Fate::MovedOn => self.moved_on += 1,
            Fate::Failed => self.failed += 1,
        }
    }
}

fn has_moved_on(error: &Error) -> bool {
    error.voids_claim() || error.reason() == Some(&Reason::ClaimLive)
}
