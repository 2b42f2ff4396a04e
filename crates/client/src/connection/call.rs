//! One request, sent until a node answers it or its deadline is there.
//!
//! Repeating is safe by construction: every attempt carries the same request with the same ids, and a node
//! recognises what was carried out before. So a lost answer, a node that is away and one that says nothing
//! are all the same here: the next is asked. A silent node gets only a part of the time that is left, so
//! that another can be asked well before the deadline.

use std::sync::atomic::AtomicUsize;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::{Code, Request, Response, Status};

use super::error::{Error, Refusal};
use super::nodes::{Node, Transport, choose};
use crate::clock::Stopwatch;
use crate::deadline::Deadline;
use crate::dice::Dice;

/// The most attempts of one call. Its deadline ends it before, unless nodes fail at once all the time.
const ATTEMPTS_MAX: u32 = 100;
/// Less is not given to an attempt, if there is that much.
const PATIENCE_MIN: Duration = Duration::from_millis(50);

/// So long before its deadline a call is sent once more, though no node is due.
const LAST_WORD: Duration = Duration::from_millis(100);

/// All nodes, and what is needed to ask them.
pub(crate) struct Pool {
    pub(crate) nodes: Vec<Node>,
    pub(crate) bearer: RwLock<Option<HeaderValue>>,
    pub(crate) dice: Dice,
    /// How long the first attempt of a call may take; it doubles with every silence.
    pub(crate) patience: Duration,
    /// The place of the node that sticky channels are at.
    pub(crate) current: AtomicUsize,
    /// A node that had failed has answered.
    pub(crate) revived: Notify,
}

/// The time of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) deadline: Deadline,
    /// How long the node is asked to wait before it answers.
    pub(crate) wait: Duration,
}

impl Pool {
    /// Sends what `message` makes of the time that has passed, until there is an answer.
    pub(crate) async fn call<M, R, F>(
        &self,
        time: Time,
        message: impl Fn(Duration) -> M,
        send: impl Fn(Transport, Request<M>) -> F,
    ) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let since = Stopwatch::start();
        let mut patience = self.patience;
        let mut last = Error::Unanswered { attempts: 0, last: "no time was left".to_owned() };
        for attempt in 1..=ATTEMPTS_MAX {
            let (node, aside) = choose(&self.nodes, self.dice.roll())
                .ok_or_else(|| Error::Settings("there is no node".to_owned()))?;
            // A first attempt is never held back: that all nodes failed before may be over.
            if attempt > 1 {
                let Some(pause) = pause(aside, time.deadline.left(), &last) else { break };
                self.leave_alone(pause).await;
            }
            let left = time.deadline.left();
            if left.is_zero() {
                break;
            }
            let share = share(left, patience, time.wait.saturating_sub(since.elapsed()));
            let request = self.request(message(since.elapsed()), share);
            let status =
                match self.attempt(node, share, send(node.transport.clone(), request)).await {
                    Ok(reply) => return Ok(reply),
                    Err(status) => status,
                };
            let refusal = Refusal::of(&status);
            if !may_pass(&status, &refusal) {
                self.answered(node);
                return Err(Error::refused(refusal));
            }
            tracing::debug!(attempt, %status, "a node gave no answer");
            node.failed(refusal.retry_after, self.dice.roll());
            if status.code() == Code::DeadlineExceeded {
                patience = patience.saturating_mul(2);
            }
            last = unanswered(attempt, &status, refusal);
        }
        Err(last)
    }

    /// Asks one node, for so long.
    async fn attempt<R>(
        &self,
        node: &Node,
        share: Duration,
        answer: impl Future<Output = Result<Response<R>, Status>>,
    ) -> Result<R, Status> {
        let _in_flight = node.begin(share);
        match timeout(share, answer).await {
            Ok(Ok(reply)) => {
                self.answered(node);
                Ok(reply.into_inner())
            }
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded(format!("it said nothing for {share:?}"))),
        }
    }

    /// Waits until a node is due again, or one is found to be back.
    async fn leave_alone(&self, aside: Duration) {
        if aside.is_zero() {
            return;
        }
        tokio::select! {
            () = sleep(aside) => {}
            () = self.revived.notified() => {}
        }
    }

    pub(super) fn answered(&self, node: &Node) {
        if node.succeeded() {
            self.revived.notify_waiters();
        }
    }

    /// The id of a new execution.
    pub(crate) fn owner_id(&self) -> [u8; 16] {
        self.dice.id()
    }

    fn request<M>(&self, message: M, share: Duration) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(share);
        self.authorize(request.metadata_mut().as_mut());
        request
    }

    /// Adds the bearer token, if there is one.
    pub(super) fn authorize(&self, headers: &mut HeaderMap) {
        if let Some(bearer) = &*self.bearer.read().unwrap_or_else(PoisonError::into_inner) {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
    }
}

/// How long to leave the nodes alone before the next attempt, if there is one. That none is due before the deadline
/// does not mean that none is back by then: there is a last word, unless they have too much to do.
fn pause(aside: Duration, left: Duration, last: &Error) -> Option<Duration> {
    if aside < left {
        return Some(aside);
    }
    let pause = left.saturating_sub(LAST_WORD);
    (!pause.is_zero() && !last.is_of_load()).then_some(pause)
}

/// What of the time that is `left` an attempt gets. One that asks the node to wait gets all that it may
/// need: whether the node lives is seen by its connection.
fn share(left: Duration, patience: Duration, wait: Duration) -> Duration {
    if !wait.is_zero() {
        return left.min(wait.saturating_add(patience));
    }
    let share = patience.min(left / 2);
    if share < PATIENCE_MIN { left.min(PATIENCE_MIN) } else { share }
}

/// Whether asking again, this node or another, may bring an answer.
fn may_pass(status: &Status, refusal: &Refusal) -> bool {
    if Refusal::is_semels(status) {
        return refusal.reason.passes();
    }
    matches!(
        status.code(),
        Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

/// The call's error, if no attempt comes after this one.
fn unanswered(attempts: u32, status: &Status, refusal: Refusal) -> Error {
    if Refusal::is_semels(status) {
        return Error::refused(refusal);
    }
    Error::Unanswered { attempts, last: cause(status) }
}

/// The status and what it came from: "transport error" alone helps nobody.
fn cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Reason;

    #[test]
    fn a_silent_node_leaves_time_for_another() {
        let (ms, second) = (Duration::from_millis, Duration::from_secs(1));
        let none = Duration::ZERO;
        assert_eq!(share(ms(10_000), second, none), second);
        assert_eq!(share(second, second, none), ms(500));
        assert_eq!(share(ms(60), second, none), ms(50));
        assert_eq!(share(ms(20), second, none), ms(20));
        assert_eq!(share(ms(10_000), second, ms(3_000)), ms(4_000), "it was asked to wait");
        assert_eq!(share(ms(2_000), second, ms(3_000)), ms(2_000));
    }

    #[test]
    fn a_call_has_a_last_word_though_no_node_is_due_before_its_deadline() {
        let ms = Duration::from_millis;
        let away = Error::Unanswered { attempts: 3, last: String::new() };
        let of = |reason| {
            let (message, field, retry_after) = (String::new(), None, None);
            Error::refused(Refusal { reason, message, field, retry_after })
        };
        assert_eq!(pause(ms(50), ms(1_000), &away), Some(ms(50)));
        for last in [away, of(Reason::StoreUnavailable)] {
            assert_eq!(pause(ms(3_000), ms(2_000), &last), Some(ms(1_900)));
            assert_eq!(pause(ms(1_200), LAST_WORD, &last), None, "that was it");
        }
        assert_eq!(pause(ms(3_000), ms(2_000), &of(Reason::Overloaded)), None);
    }
}
