//! The retries of one dependency: the rule with a budget, a breaker and a node to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::RetryVerdict;

use super::ask::{Node, to_request};
use super::grant::Grant;
use super::verdict::{Question, judge};
use crate::breakers::Breaker;
use crate::connection::StickyChannel;
use crate::dice::Dice;
use crate::root::Root;
use crate::rules::{Rules, duration};
use crate::tokens::Budget;
use crate::tokens::Granted;

/// What the retries and hedges of one dependency are decided by. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Retries(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    budget: Budget,
    dice: Dice,
    node: Option<Arc<Node>>,
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
            node: None,
            breaker: None,
            layer: String::new(),
            expected_us: Arc::default(),
        }))
    }

    /// Asks the node at the other end for a token when none is in hand.
    #[must_use]
    pub fn asking(self, channel: impl Into<StickyChannel>) -> Self {
        self.with(|inner| inner.node = Some(Arc::new(Node::new(channel.into()))))
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

    pub(crate) fn expected(&self) -> Duration {
        Duration::from_micros(self.0.expected_us.load(Ordering::Relaxed))
    }

    pub(crate) fn is_breaker_open(&self) -> bool {
        self.0.breaker.as_ref().is_some_and(|breaker| !breaker.is_closed())
    }

    pub(crate) fn layer(&self) -> &str {
        &self.0.layer
    }

    /// Decides whether a call is sent again, and pays for it.
    pub(super) async fn decide(
        &self,
        question: &Question<'_>,
        request_id: &Bytes,
        root: &Root,
    ) -> Decision {
        let rules = self.rules();
        let wait = judge(question, &rules, self.0.dice.roll())?;
        if !root.take_one() {
            return Err(RetryVerdict::RootExhausted);
        }
        let paid = self.pay(question, wait, request_id, root).await;
        if paid.is_err() {
            root.put_back(1);
        }
        paid
    }

    /// Pays for a hedge: out of what is in hand, since the slow attempt may end at any moment.
    pub(crate) fn pay_hedge(&self, question: &Question<'_>, root: Option<&Root>) -> bool {
        let is_fine = judge(question, &self.rules(), 0).is_ok();
        if !is_fine || root.is_some_and(|root| !root.take_one()) {
            return false;
        }
        let paid = self.0.budget.try_spend().is_ok();
        if !paid && let Some(root) = root {
            root.put_back(1);
        }
        paid
    }

    /// Pays: from what is leased, by asking the node, or from the own share, in this order. The node may
    /// say how long to wait.
    async fn pay(
        &self,
        question: &Question<'_>,
        wait: Duration,
        request_id: &Bytes,
        root: &Root,
    ) -> Decision {
        let rules = self.rules();
        let is_common = question.failure.is_none_or(|failure| rules.costs_a_token(failure.kind));
        if is_common && self.0.budget.try_spend().is_ok() {
            return Ok(Grant::in_hand(wait));
        }
        let budget = &self.0.budget;
        let now_ms = budget.now_ms();
        let node =
            self.0.node.as_ref().filter(|node| node.may_be_asked(question.criticality, now_ms));
        let Some(node) = node.filter(|_| !budget.is_out_of_reach()) else {
            return Err(RetryVerdict::BudgetExhausted);
        };
        let names = (budget.tenant(), budget.dependency());
        let message = to_request(question, names, request_id, root);
        match node.ask(message, question.criticality, now_ms).await {
            Some(reply) if reply.verdict() == RetryVerdict::Granted => {
                root.cap(reply.root_retries_left);
                let wait = reply.delay.as_ref().map(duration).unwrap_or_default();
                let granted = Granted { token: reply.token, node: reply.node };
                Ok(Grant::of_node(wait, budget.clone(), granted))
            }
            Some(reply) => Err(reply.verdict()),
            None if budget.spend_share() => Ok(Grant::in_hand(wait)),
            None => Err(RetryVerdict::BudgetExhausted),
        }
    }
}
