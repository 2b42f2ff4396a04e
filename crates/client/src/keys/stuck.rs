//! Keys that a lost owner left behind, and how they are settled.

use std::time::{Duration, SystemTime};

use semel_proto::v1;
use semel_proto::v1::keys_client::KeysClient;

use super::calls::{REPLY_MAX_BYTES, at_once, send};
use super::name::KeyName;
use super::response::Response;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;
use crate::wire;

/// Which stuck keys to list.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct StuckFilter {
    operation: String,
    stuck_for: Duration,
    page_size: u32,
    page: String,
}

impl StuckFilter {
    /// The stuck keys of one operation.
    pub fn operation(operation: &str) -> Self {
        Self { operation: operation.to_owned(), ..Self::default() }
    }

    /// Only those that have been stuck for at least so long. Default: any.
    pub const fn stuck_for(mut self, stuck_for: Duration) -> Self {
        self.stuck_for = stuck_for;
        self
    }

    /// How many at the most: 1 to 1,000. Default: 100.
    pub const fn page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// The page that [`StuckPage::next`] names. Default: the first.
    pub fn page(mut self, page: &str) -> Self {
        page.clone_into(&mut self.page);
        self
    }
}

/// A page of stuck keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckPage {
    /// The keys, the one stuck longest first. Perhaps none, though more pages come.
    pub keys: Vec<StuckKey>,
    /// The next page; `None`: this was the last.
    pub next: Option<String>,
}

/// A key that waits for somebody to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckKey {
    /// The key.
    pub name: KeyName,
    /// How it is stuck.
    pub state: StuckState,
    /// Its newest fence. It is settled under this one, or not at all.
    pub fence: u64,
    /// The name under which a provider that takes idempotency keys knows the intent.
    pub derived_key: String,
    /// How many claims were granted.
    pub attempts: u32,
    /// Its labels, by name.
    pub labels: Vec<(String, String)>,
    /// When it last changed, by the store's clock.
    pub touched_at: Option<SystemTime>,
    /// When the intent was made, if the caller said so.
    pub first_sent: Option<SystemTime>,
}

/// How a key is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StuckState {
    /// Its owner's lease ran out, and nobody took over.
    Lapsed,
    /// Its owner does not know whether it is done.
    Indeterminate,
    /// The node can't read its record, and knows the names only.
    Unreadable,
}

/// What really happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It was done: the response is stored and given out.
    Succeeded(Response),
    /// It failed for good: the response is stored and given out.
    FailedFinal(Response),
    /// It was not done: another attempt may run.
    NotDone,
}

impl Client {
    /// Lists stuck keys of the tenant, page by page.
    ///
    /// # Errors
    ///
    /// The filter is malformed, or no node answered before the deadline.
    pub async fn stuck_keys(
        &self,
        filter: &StuckFilter,
        deadline: Deadline,
    ) -> Result<StuckPage, Error> {
        let message = |_| v1::ListStuckKeysRequest {
            tenant: self.tenant.to_string(),
            operation: filter.operation.clone(),
            stuck_for: (!filter.stuck_for.is_zero()).then(|| wire::to_wire(filter.stuck_for)),
            page_size: filter.page_size,
            page_token: filter.page.clone(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(list_stuck_keys)).await?;
        Ok(StuckPage {
            keys: reply.keys.into_iter().map(StuckKey::from_wire).collect(),
            next: Some(reply.next_page_token).filter(|page| !page.is_empty()),
        })
    }

    /// Settles a stuck key after somebody looked at what really happened: `actor` (1 to 128 bytes), for
    /// `reason` (1 to 512 bytes); both are kept with the key. Whether it had been settled just so before.
    ///
    /// # Errors
    ///
    /// Since it was listed another took over or settled it ([`Reason::Fenced`](crate::Reason),
    /// [`Reason::ClaimLive`](crate::Reason), [`Reason::CompletionConflict`](crate::Reason)): nothing was
    /// written. Or the request is malformed, or no node answered before the deadline.
    pub async fn reconcile(
        &self,
        key: &StuckKey,
        resolution: &Resolution,
        (actor, reason): (&str, &str),
        deadline: Deadline,
    ) -> Result<bool, Error> {
        use v1::reconcile_key_request::Resolution as Wire;
        let (wire, response) = match resolution {
            Resolution::Succeeded(response) => (Wire::Succeeded, Some(response)),
            Resolution::FailedFinal(response) => (Wire::FailedFinal, Some(response)),
            Resolution::NotDone => (Wire::NotDone, None),
        };
        let message = |_| v1::ReconcileKeyRequest {
            tenant: key.name.tenant().to_string(),
            operation: key.name.operation().to_string(),
            key: key.name.key().to_string(),
            fence: key.fence,
            resolution: wire.into(),
            response: response.map(Response::to_wire),
            actor: actor.to_owned(),
            reason: reason.to_owned(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(reconcile_key)).await?;
        Ok(reply.already_settled)
    }
}

impl StuckKey {
    fn from_wire(given: v1::KeyView) -> Self {
        let state = match given.state() {
            v1::KeyState::Indeterminate => StuckState::Indeterminate,
            v1::KeyState::Unspecified => StuckState::Unreadable,
            _ => StuckState::Lapsed,
        };
        let mut labels: Vec<(String, String)> = given.labels.into_iter().collect();
        labels.sort_unstable();
        Self {
            name: KeyName::new(&given.tenant, &given.operation, &given.key),
            state,
            fence: given.fence,
            derived_key: given.derived_key,
            attempts: given.attempts,
            labels,
            touched_at: wire::perhaps(given.touched_at),
            first_sent: wire::perhaps(given.first_sent),
        }
    }
}
