//! What happened in a run, in order: counted, digested, and the last of it kept to be read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;

use serde::Serialize;

use crate::time::SimTime;

/// How many events are kept to be read.
const TAIL_MAX: usize = 60;
/// How many broken promises are kept: the first one tells most.
const VIOLATIONS_MAX: usize = 8;

/// What Semel promises, and an oracle can see broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Promise {
    /// At most one live claim of a key, and a fence belongs to one owner.
    OneLiveFence,
    /// The fences of a key only rise.
    FencesRise,
    /// A claim whose lease runs, and that its owner did not end, can be completed.
    LiveClaimHolds,
    /// What was acknowledged as done stays done.
    CompletionKept,
    /// Every answer of a key is the same, byte for byte, and one that an owner gave.
    ReplayExact,
    /// Retries of the fleet stay within the published bound.
    RetryBound,
    /// A token belongs to one attempt of one request, and asking again gives the same.
    TokenOnce,
    /// A first attempt is counted once.
    DepositOnce,
    /// No more probes are permitted at once than the policy says.
    OneProbe,
    /// Nobody sees a breaker's generation fall, or two states of one generation.
    GenerationsRise,
    /// A breaker changes only for outcomes that were reported under its generation.
    OutcomesOfThisGeneration,
    /// When all faults are healed, the cluster answers again.
    AnswersAgain,
    /// No code of a node panics, and it refuses nothing that is well-formed.
    Sound,
}

/// A promise that was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, in milliseconds of virtual time.
    pub at_ms: u64,
    /// What was seen.
    pub seen: String,
}

/// The log of one run. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    time: SimTime,
    kept: Rc<RefCell<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    events: u64,
    digest: DefaultHasher,
    tail: VecDeque<String>,
    violations: Vec<Violation>,
    line: String,
}

/// What is left of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// How many events there were.
    pub events: u64,
    /// A digest over all of them: two runs are the same if theirs are.
    pub digest: u64,
    /// The first promises that were broken.
    pub violations: Vec<Violation>,
    /// The last events up to the first broken promise, or else to the end.
    pub tail: Vec<String>,
}

impl Log {
    pub(crate) fn new(time: SimTime) -> Self {
        Self { time, kept: Rc::default() }
    }

    /// Notes an event.
    pub(crate) fn note(&self, event: fmt::Arguments<'_>) {
        let mut kept = self.kept.borrow_mut();
        let kept = &mut *kept;
        let now_us = self.time.now_us();
        // The oldest line's memory serves the newest.
        let mut line = match kept.tail.len() {
            TAIL_MAX => kept.tail.pop_front().unwrap_or_default(),
            _ => std::mem::take(&mut kept.line),
        };
        line.clear();
        let _ = fmt::write(&mut line, format_args!("{:>7} ms  {event}", now_us / 1_000));
        kept.digest.write(line.as_bytes());
        kept.events += 1;
        if kept.violations.is_empty() {
            kept.tail.push_back(line);
        } else {
            kept.line = line;
        }
    }

    /// Notes that a promise was broken.
    pub(crate) fn violated(&self, promise: Promise, seen: impl Into<String>) {
        let seen = seen.into();
        self.note(format_args!("VIOLATION {promise:?}: {seen}"));
        let at_ms = self.time.now_us() / 1_000;
        let mut kept = self.kept.borrow_mut();
        if kept.violations.len() < VIOLATIONS_MAX {
            kept.violations.push(Violation { promise, at_ms, seen });
        }
    }

    /// What the log says now.
    pub(crate) fn record(&self) -> Record {
        let kept = self.kept.borrow();
        Record {
            events: kept.events,
            digest: kept.digest.finish(),
            violations: kept.violations.clone(),
            tail: kept.tail.iter().cloned().collect(),
        }
    }
}
