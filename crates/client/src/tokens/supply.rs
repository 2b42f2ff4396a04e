//! The client's handle: its budgets, and the future that keeps them supplied.

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use papaya::Equivalent;
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{LeaseRetryTokensRequest, RefundRetryTokenRequest};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::budget::{Budget, Ledger, Shared};
use super::lessee::{Lessee, Step};
use super::settings::RetryTokenSettings;
use crate::clock::Stopwatch;
use crate::connection::{Client, StickyChannel};
use crate::followed::{NotFollowed, check_names};
use crate::layers::Retries;

/// At most so many calls when a client closes: one that was not answered, and the rests of the leases
/// that it and two others brought.
const LAST_CALLS_MAX: u32 = 4;

/// Retry tokens of many budgets, leased from a node and spent from memory. Cheap to clone; all clones
/// are the same client. Nothing is leased unless [`run`](Self::run) is driven.
#[derive(Clone)]
pub struct RetryTokens(Arc<Inner>);

struct Inner {
    budgets: papaya::HashMap<Name, Budget, RandomState>,
    /// Those that are not yet supplied. Also the lock under which budgets are added.
    newcomers: Mutex<Vec<Arc<Ledger>>>,
    arrived: Notify,
    channel: StickyChannel,
    incarnation: [u8; 16],
    settings: RetryTokenSettings,
    shared: Arc<Shared>,
}

impl Client {
    /// Retry tokens of all tenants that this client may act for, from one of its nodes at a time: a node that
    /// is lost is left for another, within about a second.
    #[must_use]
    pub fn retry_tokens(&self, settings: RetryTokenSettings) -> RetryTokens {
        RetryTokens::new(self.sticky_channel(), self.pool.dice.id(), settings)
    }

    /// The retries of this client's tenant to a dependency: paid for by `tokens`, and by a node's answer when
    /// none is in hand.
    ///
    /// # Errors
    ///
    /// The budget is new, and there are as many as the settings allow, or a name is malformed.
    pub fn retries(&self, tokens: &RetryTokens, dependency: &str) -> Result<Retries, NotFollowed> {
        let budget = tokens.budget(&self.tenant, dependency)?;
        Ok(Retries::new(budget, self.pool.dice.clone()).asking(self.sticky_channel()))
    }
}

impl RetryTokens {
    /// Tokens of the node at the other end of `channel`, without a [`Client`]: see
    /// [`Client::retry_tokens`]. `incarnation` is 16 random bytes, made anew at each start of the process: two
    /// processes with the same would be taken for one, and each would lose what the other was granted.
    #[must_use]
    pub fn new(
        channel: impl Into<StickyChannel>,
        incarnation: [u8; 16],
        settings: RetryTokenSettings,
    ) -> Self {
        let clock = Arc::new(Stopwatch::start());
        Self(Arc::new(Inner {
            budgets: papaya::HashMap::with_hasher(RandomState::default()),
            newcomers: Mutex::new(Vec::new()),
            arrived: Notify::new(),
            channel: channel.into().patient(settings.call_timeout),
            incarnation,
            settings,
            shared: Arc::new(Shared { clock, closed: AtomicBool::new(false) }),
        }))
    }

    /// The budget of a tenant and a dependency. A look-up; keep the budget if it is in your hand anyway.
    ///
    /// # Errors
    ///
    /// This one is new, and there are as many as the settings allow, or a name is malformed.
    #[inline]
    pub fn budget(&self, tenant: &str, dependency: &str) -> Result<Budget, NotFollowed> {
        let known = self.0.budgets.pin().get(&NameRef { tenant, dependency }).cloned();
        known.map_or_else(|| self.add(tenant, dependency), Ok)
    }

    #[cold]
    fn add(&self, tenant: &str, dependency: &str) -> Result<Budget, NotFollowed> {
        check_names(tenant, dependency)?;
        let mut newcomers = self.0.newcomers.lock().unwrap_or_else(PoisonError::into_inner);
        let budgets = self.0.budgets.pin();
        if let Some(budget) = budgets.get(&NameRef { tenant, dependency }) {
            return Ok(budget.clone());
        }
        let limit = self.0.settings.budgets_max;
        if budgets.len() >= limit {
            return Err(NotFollowed::Limit { what: "budgets", limit });
        }
        let shared = Arc::clone(&self.0.shared);
        let ledger = Arc::new(Ledger::new(tenant.to_owned(), dependency.to_owned(), shared));
        let name = Name { tenant: tenant.to_owned(), dependency: dependency.to_owned() };
        budgets.insert(name, Budget(Arc::clone(&ledger)));
        newcomers.push(Arc::clone(&ledger));
        self.0.arrived.notify_one();
        Ok(Budget(ledger))
    }

    /// Keeps all budgets supplied until `closing` ends, then gives back what was not spent, which takes a
    /// few calls at the most. Drive it from one place: it starts no task of its own. From its end on
    /// every budget denies.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let end = CancellationToken::new();
        let mut supplied = FuturesUnordered::new();
        let mut closing = pin!(closing);
        loop {
            supplied.extend(self.newcomers().into_iter().map(|ledger| self.supply(ledger, &end)));
            tokio::select! {
                biased;
                () = &mut closing => break,
                () = self.0.arrived.notified() => {}
                Some(()) = supplied.next() => {}
            }
        }
        self.0.shared.closed.store(true, Ordering::Relaxed);
        end.cancel();
        while supplied.next().await.is_some() {}
    }

    fn newcomers(&self) -> Vec<Arc<Ledger>> {
        std::mem::take(&mut *self.0.newcomers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps one budget supplied.
    async fn supply(&self, ledger: Arc<Ledger>, end: &CancellationToken) {
        let shared = &self.0.shared;
        let mut lessee =
            Lessee::new(Arc::clone(&ledger), self.0.incarnation, self.0.settings.at_hand);
        while !end.is_cancelled() {
            self.refund(&ledger).await;
            let now_ms = shared.now_ms();
            let wait_ms = match lessee.next(now_ms) {
                Step::Ask(request) => {
                    self.ask(&mut lessee, request).await;
                    continue;
                }
                Step::WaitUntil(at_ms) => Some(at_ms.saturating_sub(now_ms)),
                Step::Wait => None,
            };
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = ledger.wake.notified() => {}
                () = sleep(Duration::from_millis(wait_ms.unwrap_or_default())), if wait_ms.is_some() => {}
            }
        }
        self.refund(&ledger).await;
        for _ in 0..LAST_CALLS_MAX {
            let Some(request) = lessee.last_words(shared.now_ms()) else { break };
            if !self.ask(&mut lessee, request).await {
                break;
            }
        }
        lessee.leave();
    }

    /// Gives back what was granted and not used. Without an answer it stays charged.
    async fn refund(&self, ledger: &Ledger) {
        let refunds = ledger.refunds.take().into_iter().map(|granted| {
            let mut request = Request::new(RefundRetryTokenRequest {
                tenant: ledger.tenant.clone(),
                dependency: ledger.dependency.clone(),
                token: granted.token,
                node: granted.node,
            });
            request.set_timeout(self.0.settings.call_timeout);
            let mut client = RetriesClient::new(self.0.channel.clone());
            async move { client.refund_retry_token(request).await }
        });
        join_all(refunds).await;
    }

    /// Asks the node once, and tells the lessee what came of it. Whether there was an answer.
    async fn ask(&self, lessee: &mut Lessee, request: LeaseRetryTokensRequest) -> bool {
        let answer = self.call(request).await;
        let now_ms = self.0.shared.now_ms();
        match answer {
            Ok(reply) => lessee.answered(reply, now_ms),
            Err(status) => {
                lessee.failed(&status, now_ms);
                // Once for each outage, not for each of its calls.
                if lessee.lost() == 1 {
                    tracing::warn!(%status, "a lease of retry tokens was not answered");
                }
                return false;
            }
        }
        true
    }

    async fn call(
        &self,
        message: LeaseRetryTokensRequest,
    ) -> Result<semel_proto::v1::LeaseRetryTokensResponse, Status> {
        let mut request = Request::new(message);
        request.set_timeout(self.0.settings.call_timeout);
        let reply = RetriesClient::new(self.0.channel.clone()).lease_retry_tokens(request).await?;
        Ok(reply.into_inner())
    }
}

impl std::fmt::Debug for RetryTokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RetryTokens")
            .field("budgets", &self.0.budgets.len())
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

/// What a budget is found by.
#[derive(PartialEq, Eq)]
struct Name {
    tenant: String,
    dependency: String,
}

/// The same, borrowed: a look-up copies nothing.
struct NameRef<'a> {
    tenant: &'a str,
    dependency: &'a str,
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NameRef { tenant: &self.tenant, dependency: &self.dependency }.hash(state);
    }
}

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tenant.hash(state);
        self.dependency.hash(state);
    }
}

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        self.tenant == name.tenant && self.dependency == name.dependency
    }
}
