//! The sweeper's command, and the look at a whole record: both see what outlived its retention as
//! gone, and only the sweeper removes it.

use semel_domain::Change;
use semel_domain::keys::{Command, Outcome, Record};
use semel_domain::time::Timestamp;

use crate::support::{
    A, BEGAN, GONE, HOUR, MICROSECOND, NOW, blocking, claimed_by, every_state, forgotten,
    indeterminate_by, lapsed_by, taking_over, touched,
};
use crate::{Expected, Row, check, keep, row};

const CENTURIES: Timestamp = Timestamp::from_micros(u64::MAX);

#[test]
fn only_what_outlived_its_retention_is_removed() {
    let mut rows: Vec<Row<(), bool>> = vec![
        row("no record", None, (), NOW, keep(false)),
        row("live", claimed_by(A), (), NOW, keep(false)),
        row("lapsed for ever", lapsed_by(A), (), CENTURIES, keep(false)),
        row("lapsed for ever, BLOCK", blocking(lapsed_by(A)), (), CENTURIES, keep(false)),
        row("lapsed for ever, TAKE_OVER", taking_over(lapsed_by(A)), (), CENTURIES, keep(false)),
        row("indeterminate for ever", indeterminate_by(A), (), CENTURIES, keep(false)),
        row("the clock went back", forgotten(), (), BEGAN, keep(false)),
        row("outlived by its own time", touched(GONE, forgotten()), (), BEGAN, removed()),
    ];
    for (state, record) in kept_for_a_time() {
        let name = |when: &str| format!("{state}, {when}");
        rows.extend([
            row(name("kept"), record.clone(), (), NOW, keep(false)),
            row(name("its end"), record.clone(), (), GONE.before(MICROSECOND), keep(false)),
            row(name("at its end"), record.clone(), (), GONE, removed()),
            row(name("long after"), record, (), GONE.after(HOUR), removed()),
        ]);
    }
    check("Expire", rows, |()| Command::Expire, |removed| Outcome::Expire { removed });
}

#[test]
fn a_look_shows_what_is_there_until_it_has_outlived_its_retention() {
    let mut rows: Vec<Row<(), Option<Record>>> = vec![row("no record", None, (), NOW, keep(None))];
    for (state, record) in every_state(A) {
        let there = Some(record.clone());
        rows.push(row(state, record, (), NOW, keep(there)));
    }
    for (state, record) in kept_for_a_time() {
        rows.push(row(format!("outlived: {state}"), record, (), GONE, keep(None)));
    }
    check("Get", rows, |()| Command::Get, |record| Outcome::Get(record.map(Box::new)));
}

fn kept_for_a_time() -> Vec<(&'static str, Record)> {
    let mut records = every_state(A);
    records.retain(|(_, record)| record.expires_at().is_some());
    assert_eq!(records.len(), 6, "three ways to give back, two answers and a tombstone");
    records
}

fn removed() -> Expected<bool> {
    Box::new(|_| (Change::Delete, true))
}
