//! The answer of a key, and its erasure.

use bytes::Bytes;

use super::claims::Claims;
use super::{Answered, Asked, Broken, Call, Promise};

/// How long a node may go on telling an answer that was erased.
const TOLD_MAX_US: u64 = 5_000_000;

/// The answer of the key, as the first who was told knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) fence: u64,
    pub(super) body: Bytes,
}

impl Done {
    /// Whether this call asked for just that.
    pub(super) fn is_sent_by(&self, call: &Call) -> bool {
        match &call.asked {
            Asked::Complete { fence, body, .. } | Asked::Settle { fence, found: Some(body) } => {
                (*fence, body) == (self.fence, &self.body)
            }
            _ => false,
        }
    }
}

pub(super) fn done(calls: &[Call], claims: &Claims, broken: &mut Vec<Broken>) -> Option<Done> {
    let mut known: Option<(Done, &Call)> = None;
    for call in calls {
        let done = match (&call.asked, &call.answered) {
            (
                Asked::Complete { fence, body, .. } | Asked::Settle { fence, found: Some(body) },
                Answered::Accepted { .. },
            )
            | (_, Answered::Told { fence, body }) => Done { fence: *fence, body: body.clone() },
            _ => continue,
        };
        if !calls.iter().any(|other| done.is_sent_by(other)) {
            broken.push(Broken::new(Promise::AnswerSent, format!("nobody sent it: {call:?}")));
        }
        match &known {
            None => known = Some((done, call)),
            Some((before, first)) if *before != done => {
                let seen = format!("{call:?}, and before {first:?}");
                broken.push(Broken::new(Promise::CompletionKept, seen));
            }
            Some(_) => {}
        }
    }
    let (done, first) = known?;
    if let Some((fence, claim)) = claims.range(done.fence + 1..).next() {
        let seen = format!("fence {fence} was granted: {claim:?}; completed: {first:?}");
        broken.push(Broken::new(Promise::CompletionKept, seen));
    }
    Some(done)
}

/// When an erasure was first asked for, and by when it surely was, if it was.
#[derive(Clone, Debug)]
pub(super) struct Erased {
    pub(super) asked_us: u64,
    pub(super) by_us: Option<u64>,
}

pub(super) fn erased(calls: &[Call], broken: &mut Vec<Broken>) -> Option<Erased> {
    let asked = calls.iter().filter(|call| call.asked == Asked::Forget);
    let asked_us = asked.map(|call| call.began_us).min();
    let seen = calls.iter().filter(|call| match (&call.asked, &call.answered) {
        (Asked::Forget, Answered::Accepted { .. }) => true,
        (_, answered) => *answered == Answered::Erased,
    });
    let first = seen.min_by_key(|call| call.ended_us);
    let Some(asked_us) = asked_us else {
        if let Some(call) = first {
            let seen = format!("nobody asked to erase it: {call:?}");
            broken.push(Broken::new(Promise::CompletionKept, seen));
        }
        return None;
    };
    let by_us = first.map(|call| call.ended_us);
    let told = |call: &&Call| matches!(call.answered, Answered::Told { .. });
    for call in calls.iter().filter(told) {
        if by_us.is_some_and(|by_us| call.began_us > by_us + TOLD_MAX_US) {
            let seen = format!("erased by {by_us:?} us, and told: {call:?}");
            broken.push(Broken::new(Promise::Erased, seen));
        }
    }
    Some(Erased { asked_us, by_us })
}
