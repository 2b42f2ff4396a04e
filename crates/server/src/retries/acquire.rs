//! One question, answered from memory. Only a budget that just ran dry, or that this node does not know
//! yet, asks the store first, and not for long: a denial has to be quick to be of use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_domain::budget::{Charge, Enforcement, FailMode, Price};
use semel_domain::retry::{Breaker, Denial, Plan, Question, Root, Token, Verdict, decide, plan};
use semel_domain::time::Timestamp;
use semel_proto::v1;

use super::account::{Account, State};
use super::budgets::Budgets;
use super::parse::Ask;
use super::reply;
use super::roots::Place;
use super::tokens::Granted;
use crate::breakers::Gate;
use crate::refusal::Refusal;

/// An answer, before it becomes a message.
pub(super) struct Answer {
    pub(super) verdict: Result<Grant, Denial>,
    pub(super) would_deny: Option<Denial>,
    pub(super) deposits_counted: bool,
    pub(super) repeated: bool,
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) token: Token,
    /// How long to wait, and how long it is good for after that.
    pub(super) delay: Duration,
    pub(super) use_within: Duration,
    /// How many retries the caller's part of the call tree is left.
    pub(super) root_retries_left: u32,
}

/// A question, with what is known beside it.
struct Asked<'a> {
    ask: &'a Ask,
    token: Token,
    /// The token had been given before, and came back or went out of time.
    again: bool,
    /// Its caller may wait for the store, if that may have more.
    may_wait: bool,
    gate: Gate,
    roll: u64,
    now: Timestamp,
}

impl Budgets {
    /// Answers a question. `gate` says how the breaker stands, `roll` is uniform, for the jitter. Waits for the store `until` then at most.
    pub(super) async fn acquire(
        &self,
        ask: &Ask,
        gate: impl Fn() -> Gate,
        roll: u64,
        until: Timestamp,
    ) -> Result<v1::AcquireRetryTokenResponse, Refusal> {
        let account = self.account(&ask.downstream)?;
        let attempt = |last| self.attempt(&account, ask, gate(), roll, last);
        Ok(self.answered(&account, until, attempt).await)
    }

    /// Answers from what is here. `None`: the store has to be asked first, unless this is the `last` try.
    fn attempt(
        &self,
        account: &Arc<Account>,
        ask: &Ask,
        gate: Gate,
        roll: u64,
        last: bool,
    ) -> Option<v1::AcquireRetryTokenResponse> {
        let token = Token::of(&ask.downstream, &ask.request_id, ask.attempt);
        let now = self.now();
        let mut state = account.lock();
        let may_wait = !last && state.may_wait();
        if !state.knows_policy(now) && may_wait {
            self.wake(account, &mut state, now);
            return None;
        }
        let counted = ask.deposits.map(|report| state.report(&report, self.node, now));
        let deposits_counted = counted.unwrap_or_default();
        let given = self.tokens.get(&token);
        let again = given.as_ref().filter(|given| !given.is_refunded());
        let answer = if let Some(grant) = again.and_then(|given| given.again(token, now)) {
            Answer { verdict: Ok(grant), would_deny: None, deposits_counted, repeated: true }
        } else {
            let asked = Asked { ask, token, again: given.is_some(), may_wait, gate, roll, now };
            let Some((verdict, would_deny)) = self.judge(&account.key, &mut state, &asked) else {
                self.nudge(account, &mut state, now);
                return None;
            };
            Answer { verdict, would_deny, deposits_counted, repeated: false }
        };
        let denial = answer.verdict.as_ref().err().or(answer.would_deny.as_ref());
        state.tally.count(answer.verdict.is_ok() && !answer.repeated, denial.copied());
        self.nudge(account, &mut state, now);
        Some(reply::acquired(&answer, &mut state, gate, self.node, now))
    }

    /// Decides, charges and remembers. What a policy that only observes would have denied comes second.
    /// `None`: the budget is spent, and the store may have more.
    fn judge(
        &self,
        key: &Bytes,
        state: &mut State,
        asked: &Asked<'_>,
    ) -> Option<(Result<Grant, Denial>, Option<Denial>)> {
        let Asked { ask, token, again, may_wait, gate, roll, now } = *asked;
        let place = ask.root.as_ref().map(|root| {
            let place = self.roots.enter(&ask.downstream.tenant, &root.id);
            let granted = place.before();
            (place, Root { carried: root.carried, granted })
        });
        let policy = Arc::clone(&state.policy);
        let question = Question {
            kind: ask.kind,
            repeatable: ask.repeatable,
            attempt: ask.attempt,
            root: place.as_ref().map(|(_, root)| *root),
            layer: &ask.layer,
            remaining: ask.remaining,
            expected_attempt_time: ask.expected_attempt_time,
        };
        let breaker = Breaker { open: gate.open, look_again: gate.look_again };
        let pay = |plan: Plan| pay(state, ask.high, plan, gate.admitted_per_mille, now);
        let (plan, charge, would_deny) = match decide(&question, &policy, breaker, roll, pay) {
            Verdict::Granted(plan, charge) => (plan, charge, None),
            Verdict::Denied(denial) => {
                let dry = denial == Denial::BudgetExhausted;
                if dry && may_wait && state.may_have_more(now) {
                    return None;
                }
                if policy.enforcement == Enforcement::Enforce {
                    return Some((Err(denial), None));
                }
                (plan(&question, &policy, roll), None, Some(denial))
            }
        };
        let root_retries_left =
            question.root.map_or(0, |root| root.left(&policy).saturating_sub(1));
        if let Some((place, _)) = place {
            Place::keep(place);
        }
        let (delay, use_within) = (plan.delay, policy.lease);
        let grant = Grant { token, delay, use_within, root_retries_left };
        let granted = Granted::new(key.clone(), &grant, charge, now);
        self.tokens.keep(token, if again { granted.for_good() } else { granted });
        Some((Ok(grant), would_deny))
    }
}

/// Pays for a retry: from what this node holds, or, while the store is away, as the policy has it.
fn pay(
    state: &mut State,
    high: bool,
    plan: Plan,
    admitted_per_mille: u32,
    now: Timestamp,
) -> Option<Option<Charge>> {
    let policy = Arc::clone(&state.policy);
    match policy.fail_mode {
        FailMode::Deny if state.store_away => return None,
        FailMode::Allow if state.store_away => return Some(None),
        _ => {}
    }
    let price = Price { milli: plan.cost_milli, high, delay: plan.delay, admitted_per_mille };
    state.share.charge(&price, &policy, now).map(Some)
}
