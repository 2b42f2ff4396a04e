//! The rule of CompleteKey: what the work came to, said once.

use super::command::{Complete, Completed};
use super::outcome::CompleteOutcome;
use super::record::{Answer, AttemptEnd, Conclusion, OwnerId, Record, State};
use crate::Change;
use crate::response::Response;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    complete: &Complete,
    now: Timestamp,
) -> (Change<Record>, CompleteOutcome) {
    let Some(record) = record else {
        return (Change::Keep, CompleteOutcome::Unknown);
    };
    let fenced = (Change::Keep, CompleteOutcome::Fenced { current: record.fence });
    let holds = |owner: OwnerId, fence: u64| owner == complete.owner && fence == complete.fence;
    match &record.state {
        State::Forgotten { .. } => (Change::Keep, CompleteOutcome::Expired),
        State::Completed(answer) if holds(answer.owner, answer.fence) => {
            let outcome = match &complete.completed {
                Completed::Concluded { conclusion, response }
                    if answer.is(*conclusion, response.as_ref()) =>
                {
                    accepted(record, true, now)
                }
                _ => CompleteOutcome::Conflict,
            };
            (Change::Keep, outcome)
        }
        State::Released { by, fence, end: AttemptEnd::FailedRetryable, .. }
            if holds(*by, *fence) =>
        {
            let outcome = match complete.completed {
                Completed::FailedRetryable => accepted(record, true, now),
                _ => CompleteOutcome::Conflict,
            };
            (Change::Keep, outcome)
        }
        // The lease may have run out: as long as nobody took over, the fence still holds.
        State::Claimed(claimed) if holds(claimed.owner, record.fence) => {
            settle(record, claimed.owner, claimed.claimed_at, &complete.completed, now)
        }
        State::Indeterminate { by, .. }
            if holds(*by, record.fence) && complete.completed == Completed::Indeterminate =>
        {
            (Change::Keep, accepted(record, true, now))
        }
        State::Indeterminate { by, claimed_at, .. } if holds(*by, record.fence) => {
            settle(record, *by, *claimed_at, &complete.completed, now)
        }
        // It was accepted, and somebody else has claimed since.
        _ if complete.completed == Completed::FailedRetryable
            && record.ended(complete.fence, Some(complete.owner), AttemptEnd::FailedRetryable) =>
        {
            (Change::Keep, accepted(record, true, now))
        }
        _ => fenced,
    }
}

fn settle(
    record: &Record,
    owner: OwnerId,
    claimed_at: Timestamp,
    completed: &Completed,
    now: Timestamp,
) -> (Change<Record>, CompleteOutcome) {
    let mut record = record.clone();
    match completed {
        Completed::Concluded { conclusion, response } => {
            record.conclude(*conclusion, response.clone(), owner, now);
        }
        Completed::FailedRetryable => {
            record.release(owner, claimed_at, AttemptEnd::FailedRetryable, now);
        }
        Completed::Indeterminate => {
            record.state = State::Indeterminate { by: owner, claimed_at, declared_at: now };
            record.touched_at = now;
        }
    }
    let outcome = accepted(&record, false, now);
    (Change::Put(record), outcome)
}

fn accepted(record: &Record, already: bool, now: Timestamp) -> CompleteOutcome {
    CompleteOutcome::Accepted { already, stage: record.stage(now), expires_at: record.expires_at() }
}

impl Record {
    /// Keeps the answer. Retention starts here, and its end is frozen here.
    pub(super) fn conclude(
        &mut self,
        conclusion: Conclusion,
        response: Option<Response>,
        owner: OwnerId,
        now: Timestamp,
    ) {
        self.state = State::Completed(Answer {
            conclusion,
            response,
            completed_at: now,
            fence: self.fence,
            owner,
            expires_at: self.retained_from(now),
        });
        // Nobody will take over any more.
        self.checkpoint = None;
        self.touched_at = now;
    }
}

impl Answer {
    /// Whether completing with these parts says what is kept already.
    pub(super) fn is(&self, conclusion: Conclusion, response: Option<&Response>) -> bool {
        let same_response = match (&self.response, response) {
            (Some(kept), Some(given)) => kept.says_the_same(given),
            (None, None) => true,
            _ => false,
        };
        self.conclusion == conclusion && same_response
    }
}
