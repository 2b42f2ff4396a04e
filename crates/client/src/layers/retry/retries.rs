//! The retries of one dependency: the rule with a budget, a breaker and a node to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::RetryVerdict;

use super::ask::{Granter, to_request};
use super::grant::{Grant, Payment};
use super::verdict::{Question, judge};
use crate::breakers::Breaker;
use crate::connection::StickyChannel;
use crate::deadline::Deadline;
use crate::dice::Dice;
use crate::failure::Failure;
use crate::layers::Criticality;
use crate::root::Root;
use crate::rules::Rules;
use crate::tokens::{Budget, Granted};
use crate::wire::duration;

/// What the retries and hedges of one dependency are decided by. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Retries(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    budget: Budget,
    dice: Dice,
    granter: Option<Arc<Granter>>,
    breaker: Option<Breaker>,
    layer: String,
    /// How long attempts take that succeed, in microseconds: an average that forgets.
    expected_us: Arc<AtomicU64>,
}

/// Whether a call is sent again.
pub(super) type Decision = Result<Grant, RetryVerdict>;

impl Retries {
    /// Retries that `budget` pays for, with jitter from `dice`.
    #[must_use]
    pub fn new(budget: Budget, dice: Dice) -> Self {
        Self(Arc::new(Inner {
            budget,
            dice,
            granter: None,
            breaker: None,
            layer: String::new(),
            expected_us: Arc::default(),
        }))
    }

    /// Asks the node at the other end for a token when none is in hand.
    #[must_use]
    pub fn asking(self, channel: impl Into<StickyChannel>) -> Self {
        self.with(|inner| inner.granter = Some(Arc::new(Granter::new(channel.into()))))
    }

    /// Sends nothing again while this breaker is open.
    #[must_use]
    pub fn behind(self, breaker: Breaker) -> Self {
        self.with(|inner| inner.breaker = Some(breaker))
    }

    /// The name of this layer of the fleet, e.g. "gateway": if the policy names another one, that one
    /// retries.
    #[must_use]
    pub fn of_layer(self, layer: impl Into<String>) -> Self {
        self.with(|inner| inner.layer = layer.into())
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The dependency's name.
    #[must_use]
    pub fn dependency(&self) -> &str {
        self.0.budget.dependency()
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// A name for a call that nobody named.
    pub(crate) fn request_id(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.dice.id())
    }

    /// The root of a call that has none above it.
    pub(crate) fn new_root(&self, id: Bytes) -> Root {
        Root::new(id, self.rules().retries_per_root)
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.0.budget.rules()
    }

    /// An attempt succeeded, and took so long.
    pub(crate) fn took(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before_us = self.0.expected_us.load(Ordering::Relaxed);
        let average_us = match before_us {
            0 => took_us,
            _ => before_us - before_us / 8 + took_us / 8,
        };
        self.0.expected_us.store(average_us, Ordering::Relaxed);
    }

    fn expected(&self) -> Duration {
        Duration::from_micros(self.0.expected_us.load(Ordering::Relaxed))
    }

    /// Asks about a call that has had so many attempts, of which the last failed so, or is slow.
    pub(crate) fn question(
        &self,
        failure: Option<Failure>,
        attempt: u32,
        is_repeatable: bool,
        criticality: Criticality,
    ) -> Question<'_> {
        Question {
            failure,
            is_repeatable,
            attempt,
            layer: &self.0.layer,
            criticality,
            remaining: Deadline::current().map(Deadline::left),
            expected: self.expected(),
            is_breaker_open: self.0.breaker.as_ref().is_some_and(|breaker| !breaker.is_closed()),
        }
    }

    /// Decides whether a call is sent again, and pays for it.
    pub(super) async fn decide(
        &self,
        question: &Question<'_>,
        request_id: &Bytes,
        root: &Root,
    ) -> Decision {
        let rules = self.rules();
        let root_left = root.left();
        let wait = judge(question, root_left, &rules, self.0.dice.roll())?;
        let grant = Grant::of(Some(root)).ok_or(RetryVerdict::RootExhausted)?;
        let budget = &self.0.budget;
        let is_common = question.failure.is_none_or(|failure| rules.costs_a_token(failure.kind));
        if is_common && let Ok(token) = budget.take() {
            return Ok(grant.paid(budget, Payment::InHand(token), wait));
        }
        let now_ms = budget.now_ms();
        let granter = self.0.granter.as_ref();
        let granter = granter.filter(|node| node.may_be_asked(question.criticality, now_ms));
        let Some(granter) = granter.filter(|_| !budget.is_out_of_reach()) else {
            return Err(RetryVerdict::BudgetExhausted);
        };
        let names = (budget.tenant(), budget.dependency());
        let message = to_request(question, names, request_id, root.to_wire(root_left));
        match granter.ask(message, question.criticality, now_ms).await {
            Some(reply) if reply.verdict() == RetryVerdict::Granted => {
                root.cap(reply.root_retries_left);
                let wait = reply.delay.as_ref().map(duration).unwrap_or_default();
                let granted = Granted { token: reply.token, node: reply.node };
                Ok(grant.paid(budget, Payment::OfNode(granted), wait))
            }
            Some(reply) => Err(reply.verdict()),
            None => {
                let own = budget.take_own().ok_or(RetryVerdict::BudgetExhausted)?;
                Ok(grant.paid(budget, Payment::InHand(own), wait))
            }
        }
    }

    /// Pays for a hedge: out of what is in hand, since the slow attempt may end at any moment.
    pub(crate) fn pay_hedge(&self, question: &Question<'_>, root: Option<&Root>) -> Option<Grant> {
        let root_left = root.map_or(u32::MAX, Root::left);
        judge(question, root_left, &self.rules(), 0).ok()?;
        let grant = Grant::of(root)?;
        let token = self.0.budget.take().ok()?;
        Some(grant.paid(&self.0.budget, Payment::InHand(token), Duration::ZERO))
    }
}
