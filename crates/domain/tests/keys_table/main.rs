//! One wide table a rule: what is there, what is asked, what is answered and what is written.
//!
//! The rows stand in the order of precedence of the answers, so that wherever two could fit, the
//! earlier one is seen to win. A row says what becomes of the *whole* record: what it does not name
//! has to stay as it was. Every table has to meet every answer of its rule.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a row that is written out wrong should stop the test"
)]

#[path = "../support/mod.rs"]
mod support;

mod claim;
mod complete;
mod expire;
mod forget;
mod reconcile;
mod release;
mod renew;
mod replay;

use semel_domain::Change;
use semel_domain::keys::{Attempt, AttemptEnd, Command, Outcome, Record, State, decide};
use semel_domain::time::Timestamp;

use support::{BEGAN, NOW, variants};

/// What a row says will happen, told from what is there before.
type Expected<O> = Box<dyn FnOnce(Option<&Record>) -> (Change<Record>, O)>;

struct Row<C, O> {
    name: String,
    record: Option<Record>,
    command: C,
    now: Timestamp,
    expected: Expected<O>,
}

fn row<C, O>(
    name: impl Into<String>,
    record: impl Into<Option<Record>>,
    command: C,
    now: Timestamp,
    expected: Expected<O>,
) -> Row<C, O> {
    Row { name: name.into(), record: record.into(), command, now, expected }
}

/// Nothing is written.
fn keep<O: 'static>(outcome: O) -> Expected<O> {
    Box::new(|_| (Change::Keep, outcome))
}

/// What was there is written anew with `edit`.
fn put<O: 'static>(outcome: O, edit: impl FnOnce(Record) -> Record + 'static) -> Expected<O> {
    Box::new(|old| (Change::Put(edit(old.cloned().expect("a record"))), outcome))
}

/// Decides every row, and says all that is wrong at once.
fn check<C, O>(
    rule: &str,
    rows: Vec<Row<C, O>>,
    command: fn(C) -> Command,
    outcome: fn(O) -> Outcome,
) -> Vec<Outcome> {
    let count = rows.len();
    let mut wrong = String::new();
    let mut outcomes = Vec::with_capacity(count);
    for row in rows {
        let (change, answer) = (row.expected)(row.record.as_ref());
        let expected = (change, outcome(answer));
        let actual = decide(row.record.as_ref(), &command(row.command), row.now);
        if actual != expected {
            wrong += &format!("\n{}\n  expected {expected:?}\n  got      {actual:?}\n", row.name);
        }
        outcomes.push(actual.1);
    }
    assert!(wrong.is_empty(), "of {count} rows, these are wrong:\n{wrong}");
    let missed = variants::missed(&format!("{rule}::"), &outcomes);
    assert!(missed.is_empty(), "no row is answered with {missed:?}");
    outcomes
}

// What becomes of a record.

/// The same record in another state, changed now.
fn becomes(state: State, record: Record) -> Record {
    Record { state, touched_at: NOW, ..record }
}

/// The same record, which somebody else has claimed since.
fn since(record: Record) -> Record {
    Record { state: support::claimed_by(support::B).state, ..record }
}

/// The same record with its claim remembered as ended now.
fn ended(end: AttemptEnd, mut record: Record) -> Record {
    let owner = record.owner().expect("an owner");
    let fence = record.fence;
    record.history.push(Attempt { fence, owner, claimed_at: BEGAN, ended_at: NOW, end });
    record
}
