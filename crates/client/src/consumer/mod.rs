//! Consumes deliveries of a queue so that each event has its effect once, however often it is delivered.
//!
//! A queue delivers again what was not acknowledged, and sometimes what was. The key is the producer's id of
//! the event. A delivery of many events is claimed in one call; the handler runs for those that are ours,
//! side by side, while the leases of all are renewed; completions go out in batches, as they come; and each
//! event comes back with what became of it, which says whether to acknowledge it.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use semel_client::consumer::Event;
//! use semel_client::fingerprint::Intent;
//! use semel_client::keys::{Response, Work};
//! use semel_client::{Client, Deadline};
//!
//! # struct Message { id: String, body: Vec<u8> }
//! # async fn apply(message: &Message, fence: u64) {}
//! # async fn example(semel: Client, delivered: Vec<Message>) -> Result<(), semel_client::Error> {
//! let consumer = semel.consumer("orders.apply").lease(Duration::from_secs(10));
//! let events = delivered.into_iter().map(|message| {
//!     let intent = Intent::new("orders.apply", "").bytes(&message.body);
//!     Event::new(message.id.clone(), intent, message)
//! });
//! let deadline = Deadline::within(Duration::from_secs(60));
//! let settled = consumer
//!     .consume(events.collect(), deadline, async |claim, message: &Message| {
//!         apply(message, claim.fence()).await;
//!         Work::Succeeded(Response::default())
//!     })
//!     .await?;
//! for event in settled {
//!     if event.may_acknowledge() { /* acknowledge event.payload.id */ }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! - It knows no queue: it neither fetches nor acknowledges.
//! - It writes no effect. If the effect lies in your own database, write the event's id along with it: then
//!   whoever has to [look first](crate::keys::Disposition::ReconcileRequired) finds it there.
//! - The answers must outlast the queue's redelivery: choose the [`retention`](Consumer::retention) so.

mod rolling;
mod unhandled;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use self::rolling::Completing;
pub use self::unhandled::Unhandled;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;
use crate::fingerprint::Fingerprint;
use crate::keys::{ClaimAnswer, ClaimRequest, Claiming, OnOwnerLost, Work, claim_options};
use crate::once::{End, GRACE, Held, Keeper, LeaseLoss, Opening, Outcome, Unknown, drive};

const CONCURRENCY: usize = 16;

/// An event as it was delivered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event<T> {
    /// The producer's id of it, the same on every delivery: 1 to 255 bytes.
    pub key: String,
    /// What it says, so that another event under the same id is refused.
    pub fingerprint: Fingerprint,
    /// What the handler needs.
    pub payload: T,
}

impl<T> Event<T> {
    /// An event of this id, which says what the fingerprint is of, with what its handler needs.
    #[must_use]
    pub fn new(key: impl Into<String>, fingerprint: Fingerprint, payload: T) -> Self {
        Self { key: key.into(), fingerprint, payload }
    }
}

/// What became of an event.
#[derive(Debug)]
#[non_exhaustive]
pub struct Consumed<T> {
    /// The event's id.
    pub key: String,
    /// What the handler was given.
    pub payload: T,
    /// What came of it; an error if its claim was refused.
    pub outcome: Result<Outcome, Error>,
}

impl<T> Consumed<T> {
    /// Whether its effect is there, or has failed for good, and that is stored. If not, let it be delivered
    /// again. An event whose claim was refused for good, e.g. for its fingerprint, is never settled: look at
    /// the error, and put it aside.
    #[must_use]
    pub fn may_acknowledge(&self) -> bool {
        self.outcome.as_ref().is_ok_and(Outcome::is_settled)
    }
}

/// Consumes events of one operation. Made by [`Client::consumer`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it consumes"]
pub struct Consumer {
    client: Client,
    operation: String,
    claiming: Claiming,
    lease_loss: LeaseLoss,
    concurrency: usize,
}

impl Client {
    /// A consumer of events; `operation` names what it does with them.
    pub fn consumer(&self, operation: &str) -> Consumer {
        Consumer {
            client: self.clone(),
            operation: operation.to_owned(),
            claiming: Claiming::default(),
            lease_loss: LeaseLoss::default(),
            concurrency: CONCURRENCY,
        }
    }
}

impl Consumer {
    claim_options!(claiming: lease, retention, on_owner_lost);

    /// What to do with a handler whose lease is lost. Default: [`LeaseLoss::Cancel`].
    pub const fn on_lease_lost(mut self, lease_loss: LeaseLoss) -> Self {
        self.lease_loss = lease_loss;
        self
    }

    /// How many handlers run side by side: at least 1. Default: 16. Those that wait hold their leases.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Claims 1 to 1,000 events in one call, handles those that are ours, and completes them. What became of
    /// each is in the order of the events. Work that is not over at the deadline, or at an earlier
    /// [current](Deadline::current) one, is dropped and unknown; the deadline is the current one of the handlers. What
    /// could not begin until then is given back.
    /// The same id twice: the second is in progress, and comes again.
    ///
    /// # Errors
    ///
    /// The claims were refused as a whole, or no node answered them before the deadline: no handler ran, and the
    /// events come back.
    pub async fn consume<T, H>(
        &self,
        events: Vec<Event<T>>,
        deadline: Deadline,
        handler: H,
    ) -> Result<Vec<Consumed<T>>, Unhandled<T>>
    where
        H: AsyncFn(Held, &T) -> Work,
    {
        let deadline = deadline.within_current();
        let requests: Vec<ClaimRequest> = events.iter().map(|event| self.request(event)).collect();
        let answers = match self.client.claim_batch(&requests, deadline).await {
            Ok(answers) => answers,
            Err(error) => return Err(Unhandled { events, error }),
        };
        let (ours, mut outcomes) = opened(answers);
        let permits = Semaphore::new(self.concurrency);
        let handle = async |(place, held): (usize, Held), event: &Event<T>| {
            let has_begun = AtomicBool::new(false);
            let work = async {
                // It is never closed.
                let _permit = permits.acquire().await;
                if held.is_lease_lost() || deadline.is_past() {
                    return Work::NotDone;
                }
                has_begun.store(true, Ordering::Relaxed);
                handler(held.clone(), &event.payload).await
            };
            let mut keeper = Keeper::new(&self.client, &held);
            let end = match keeper.confirm(deadline).await {
                Ok(()) => Ok(drive(work, keeper, deadline, self.lease_loss).await),
                Err(error) => Err(error),
            };
            let has_begun = has_begun.load(Ordering::Relaxed);
            (place, held.clone(), end.map(|end| if has_begun { end } else { End::NotBegun }))
        };
        let mut running: FuturesUnordered<_> = ours
            .into_iter()
            .filter_map(|(place, held)| Some(handle((place, held), events.get(place)?)))
            .collect();
        let until = Deadline::within(deadline.left().saturating_add(GRACE));
        let mut completing = Completing::new(&self.client, until);
        loop {
            tokio::select! {
                // What is done gathers first, and then goes out in one batch.
                biased;
                Some((place, held, end)) = running.next() => {
                    match end.map(|end| end.done(held.disposition())) {
                        Ok(Some(done)) => completing.add(place, held, done),
                        Ok(None) => outcomes.push((place, Ok(Outcome::Unknown(Unknown::LeaseLost)))),
                        Err(error) => outcomes.push((place, unconfirmed(error))),
                    }
                }
                Some(completed) = completing.next() => outcomes.extend(completed),
                else => break,
            }
        }
        drop(running);
        Ok(in_order(events, outcomes))
    }

    fn request<T>(&self, event: &Event<T>) -> ClaimRequest {
        ClaimRequest::new(&self.operation, &event.key)
            .fingerprint(event.fingerprint.clone())
            .claiming(self.claiming.clone())
    }
}

/// The outcome of the event at this place.
type Placed = (usize, Result<Outcome, Error>);

/// The claims that are ours, and what is known of the other events.
fn opened(answers: Vec<Result<ClaimAnswer, Error>>) -> (Vec<(usize, Held)>, Vec<Placed>) {
    let (mut ours, mut known) = (Vec::new(), Vec::with_capacity(answers.len()));
    for (place, answer) in answers.into_iter().enumerate() {
        match answer.map(Opening::of) {
            Ok(Opening::Work(held)) => ours.push((place, held)),
            Ok(Opening::Answer(outcome)) => known.push((place, Ok(outcome))),
            Err(error) => known.push((place, Err(error))),
        }
    }
    (ours, known)
}

/// The outcome of a claim whose lease could not be confirmed: its handler did not run.
fn unconfirmed(error: Error) -> Result<Outcome, Error> {
    let is_lost = error.voids_claim();
    if is_lost { Ok(Outcome::InProgress { retry_after: Duration::ZERO }) } else { Err(error) }
}

fn in_order<T>(events: Vec<Event<T>>, mut outcomes: Vec<Placed>) -> Vec<Consumed<T>> {
    outcomes.sort_unstable_by_key(|(place, _)| *place);
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
    let consumed = events.into_iter().zip(outcomes).map(|(event, outcome)| Consumed {
        key: event.key,
        payload: event.payload,
        outcome,
    });
    consumed.collect()
}
