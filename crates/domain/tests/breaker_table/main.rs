//! One wide table a rule: what is there, what is asked, what is answered and what is written.
//!
//! The rows stand in the order of precedence of the answers, so that wherever two could fit, the
//! earlier one is seen to win. A row says what becomes of the *whole* record: what it does not name
//! has to stay as it was. Every table has to meet every answer of its rule, and every command is run
//! again on what it left.

#![allow(clippy::expect_used, reason = "a row that is written out wrong should stop the test")]

#[path = "../breaker_support/mod.rs"]
mod support;

mod changes;
mod counts;
mod operators;
mod probes;
mod views;

use std::collections::BTreeSet;

use semel_domain::Change;
use semel_domain::breaker::{
    AbsorbOutcome, AdvanceOutcome, Command, Outcome, ProbeOutcome, Record, SetPolicyOutcome,
    SettleOutcome, decide,
};
use semel_domain::time::Timestamp;

/// What a row says will happen, told from what is there before.
type Expected = Box<dyn FnOnce(Option<&Record>) -> (Change<Record>, Outcome)>;

struct Row {
    name: &'static str,
    record: Option<Record>,
    command: Command,
    now: Timestamp,
    expected: Expected,
}

fn row(
    name: &'static str,
    record: impl Into<Option<Record>>,
    command: Command,
    now: Timestamp,
    expected: Expected,
) -> Row {
    Row { name, record: record.into(), command, now, expected }
}

/// Nothing is written.
fn keep(outcome: Outcome) -> Expected {
    Box::new(|_| (Change::Keep, outcome))
}

/// What was there is written anew with `edit`.
fn put(outcome: Outcome, edit: impl FnOnce(Record) -> Record + 'static) -> Expected {
    Box::new(|old| (Change::Put(edit(old.cloned().expect("a record"))), outcome))
}

/// A record is written where there was none.
fn make(outcome: Outcome, record: Record) -> Expected {
    Box::new(|_| (Change::Put(record), outcome))
}

/// Decides every row, and says all that is wrong at once.
fn check(rows: Vec<Row>, answers: &[&'static str]) {
    let (count, mut wrong, mut met) = (rows.len(), String::new(), BTreeSet::new());
    for row in rows {
        let expected = (row.expected)(row.record.as_ref());
        let actual = decide(row.record.as_ref(), &row.command, row.now);
        if actual != expected {
            wrong += &format!("\n{}\n  expected {expected:?}\n  got      {actual:?}\n", row.name);
        }
        if let Change::Put(left) = &actual.0 {
            let (again, _) = decide(Some(left), &row.command, row.now);
            if again != Change::Keep {
                wrong += &format!("\n{}\n  run again, writes {again:?}\n", row.name);
            }
        }
        met.insert(name(&actual.1));
    }
    assert!(wrong.is_empty(), "of {count} rows, these are wrong:\n{wrong}");
    assert_eq!(met, answers.iter().copied().collect(), "the answers that are met");
}

/// An answer that is new to the domain does not compile here until it has a name.
fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Absorb { absorbed, .. } => match absorbed {
            AbsorbOutcome::Repeated => "Repeated",
            AbsorbOutcome::Stale => "Stale",
            AbsorbOutcome::Full => "Full",
            AbsorbOutcome::Absorbed { .. } => "Absorbed",
        },
        Outcome::Advance(outcome) => match outcome {
            AdvanceOutcome::OverrideEnded => "OverrideEnded",
            AdvanceOutcome::Opened => "Opened",
            AdvanceOutcome::Isolated(_) => "Isolated",
            AdvanceOutcome::NothingDue => "NothingDue",
        },
        Outcome::Probe(outcome) => match outcome {
            ProbeOutcome::Forced => "Forced",
            ProbeOutcome::Closed => "Closed",
            ProbeOutcome::CoolingDown(_) => "CoolingDown",
            ProbeOutcome::Repeated(_) => "Repeated",
            ProbeOutcome::Taken(_) => "Taken",
            ProbeOutcome::Granted(_) => "Granted",
        },
        Outcome::Settle(outcome) => match outcome {
            SettleOutcome::Unknown => "Unknown",
            SettleOutcome::Inconclusive => "Inconclusive",
            SettleOutcome::Reopened => "Reopened",
            SettleOutcome::Closed => "Closed",
            SettleOutcome::Counted => "Counted",
        },
        Outcome::Override { already: true } => "Already",
        Outcome::Override { already: false } => "Overridden",
        Outcome::SetPolicy(outcome) => match outcome {
            SetPolicyOutcome::Already { .. } => "Already",
            SetPolicyOutcome::Conflict { .. } => "Conflict",
            SetPolicyOutcome::Set { .. } => "Set",
        },
        Outcome::Get(_) => "Got",
        Outcome::Expire { removed: true } => "Removed",
        Outcome::Expire { removed: false } => "Kept",
    }
}
