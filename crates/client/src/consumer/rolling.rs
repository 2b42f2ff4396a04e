//! Completions in batches: while one batch is on its way, the next gathers.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::Placed;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;
use crate::keys::{Claim, Completed, Work};
use crate::once::{Done, Held};

/// With so much of bodies a batch is full: the next one may still take it a good way over.
const BODIES_MAX_BYTES: usize = 1024 * 1024;

type Results = Result<Vec<Result<Completed, Error>>, Error>;

pub(super) struct Completing<'a> {
    client: &'a Client,
    until: Deadline,
    gathered: Vec<Item>,
    /// The items of the batch that is on its way, and its results to come.
    sent: Option<(Vec<Item>, BoxFuture<'a, Results>)>,
}

/// What is done, and where its event stands.
struct Item {
    place: usize,
    held: Held,
    done: Done,
}

impl<'a> Completing<'a> {
    pub(super) const fn new(client: &'a Client, until: Deadline) -> Self {
        Self { client, until, gathered: Vec::new(), sent: None }
    }

    pub(super) fn add(&mut self, place: usize, held: Held, done: Done) {
        self.gathered.push(Item { place, held, done });
    }

    /// The outcomes of the batch that is on its way; `None` if there is nothing to complete. It may be dropped
    /// and called again.
    pub(super) async fn next(&mut self) -> Option<Vec<Placed>> {
        if self.sent.is_none() && !self.gathered.is_empty() {
            self.send();
        }
        let (_, results) = self.sent.as_mut()?;
        let results = results.await;
        let (items, _) = self.sent.take()?;
        let outcomes = items.into_iter().enumerate().map(|(number, item)| {
            let completed = match &results {
                Ok(results) => results.get(number).cloned().unwrap_or_else(|| Err(missing())),
                Err(error) => Err(error.clone()),
            };
            (item.place, Ok(item.done.recorded(completed, item.held.fence())))
        });
        Some(outcomes.collect())
    }

    fn send(&mut self) {
        let room = self.gathered.iter().scan(0_usize, |bytes, item| {
            let before = *bytes;
            *bytes = bytes.saturating_add(item.done.work.body_bytes());
            Some(before)
        });
        // One at least: the first has nothing before it.
        let count = room.take_while(|before| *before < BODIES_MAX_BYTES).count();
        let rest = self.gathered.split_off(count);
        let items = std::mem::replace(&mut self.gathered, rest);
        let completions: Vec<(Claim, Work)> =
            items.iter().map(|item| (item.held.claim().clone(), item.done.work.clone())).collect();
        let (client, until) = (self.client, self.until);
        let results = async move { client.complete_batch(&completions, until).await };
        self.sent = Some((items, results.boxed()));
    }
}

fn missing() -> Error {
    Error::NotUnderstood("a completion without its result".to_owned())
}
