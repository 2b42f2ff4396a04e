//! RenewKey.

use bytes::Bytes;
use semel_domain::keys::RenewOutcome::{self, Fenced, Renewed, Unknown};
use semel_domain::keys::{Command, Outcome, Record, Renew, State};
use semel_domain::time::Timestamp;

use crate::support::{
    A, B, BEGAN, FENCE, GONE, HOUR, LEASE, NOW, SECOND, blocking, claimed_by, completed_by,
    every_state, forgotten, indeterminate_by, lapsed_by, leased_until, released_by, renew, touched,
};
use crate::{Expected, Row, check, keep, put, row};

#[test]
fn renewals_are_decided_in_order_of_precedence() {
    let mut rows = nobody_holds_it();
    rows.extend(holds_it());
    check("Renew", rows, Command::Renew, Outcome::Renew);
}

#[rustfmt::skip]
fn nobody_holds_it() -> Vec<Row<Renew, RenewOutcome>> {
    let current = FENCE;
    let mut rows = vec![
        row("no record",               None,                renew(A, FENCE, 6), NOW, keep(Unknown)),
        row("an outlived answer",      completed_by(A),     renew(A, FENCE, 6), GONE, keep(Unknown)),
        row("an outlived release",     released_by(A),      renew(A, FENCE, 6), GONE, keep(Unknown)),
        row("an outlived tombstone",   forgotten(),         renew(A, FENCE, 6), GONE, keep(Unknown)),
        row("declared indeterminate",  indeterminate_by(A), renew(A, FENCE, 6), NOW, keep(Fenced { current })),
        row("completed",               completed_by(A),     renew(A, FENCE, 6), NOW, keep(Fenced { current })),
        row("forgotten",               forgotten(),         renew(A, FENCE, 6), NOW, keep(Fenced { current })),
        row("given back",              released_by(A),      renew(A, FENCE, 6), NOW, keep(Fenced { current: FENCE + 1 })),
        row("given back, next fence",  released_by(A),      renew(A, FENCE + 1, 6), NOW, keep(Fenced { current: FENCE + 1 })),
        row("taken over",              Record { fence: FENCE + 1, ..claimed_by(B) }, renew(A, FENCE, 6), NOW, keep(Fenced { current: FENCE + 1 })),
        row("fenced outranks stale",   claimed_by(A),       renew(B, FENCE, 1), NOW, keep(Fenced { current })),
    ];
    for (state, record) in every_state(A) {
        let current = record.fence;
        let name = |who: &str| format!("{who}: {state}");
        rows.extend([
            row(name("another owner"),   record.clone(), renew(B, FENCE, 6), NOW, keep(Fenced { current })),
            row(name("newest fence, another owner"), record.clone(), renew(B, current, 6), NOW, keep(Fenced { current })),
            row(name("an older fence"),  record.clone(), renew(A, FENCE - 1, 6), NOW, keep(Fenced { current })),
            row(name("a guessed fence"), record,         renew(A, FENCE + 2, 6), NOW, keep(Fenced { current })),
        ]);
    }
    rows
}

/// The records hold renewal 5, with a checkpoint.
#[rustfmt::skip]
fn holds_it() -> Vec<Row<Renew, RenewOutcome>> {
    let lease_end = BEGAN.after(LEASE);
    let renewed = |stale, expires_at| keep(Renewed { stale, expires_at });
    let nine = || Some(Bytes::from_static(b"nine tenths"));
    let saving = |renewal| Renew { checkpoint: nine(), ..renew(A, FENCE, renewal) };
    let short = Renew { lease: SECOND, ..renew(A, FENCE, 6) };
    vec![
        row("an older one is late",          claimed_by(A), renew(A, FENCE, 4), NOW, renewed(true, lease_end)),
        row("an older one saves nothing",    claimed_by(A), saving(4), NOW, renewed(true, lease_end)),
        row("an older one, lapsed",          lapsed_by(A),  saving(4), NOW, renewed(true, NOW)),
        row("the newest one again",          claimed_by(A), renew(A, FENCE, 5), NOW, renewed(false, lease_end)),
        row("the newest again saves nothing", claimed_by(A), saving(5), NOW, renewed(false, lease_end)),
        row("the next",                      claimed_by(A), renew(A, FENCE, 6), NOW, extends(6, NOW.after(LEASE), None)),
        row("one that skips numbers",        claimed_by(A), renew(A, FENCE, 99), NOW, extends(99, NOW.after(LEASE), None)),
        row("saves a checkpoint",            claimed_by(A), saving(6), NOW, extends(6, NOW.after(LEASE), nine())),
        row("saves an empty checkpoint",     claimed_by(A), Renew { checkpoint: Some(Bytes::new()), ..renew(A, FENCE, 6) }, NOW, extends(6, NOW.after(LEASE), Some(Bytes::new()))),
        row("never shortens a lease",        leased_until(NOW.after(HOUR), claimed_by(A)), short, NOW, extends(6, NOW.after(HOUR), None)),
        row("lapsed, but not taken",         lapsed_by(A),  renew(A, FENCE, 6), NOW, extends(6, NOW.after(LEASE), None)),
        row("lapsed, but not taken, BLOCK",  blocking(lapsed_by(A)), saving(6), NOW, extends(6, NOW.after(LEASE), nine())),
        row("the clock went back",           touched(NOW, claimed_by(A)), renew(A, FENCE, 6), BEGAN, extends(6, NOW.after(LEASE), None)),
    ]
}

fn extends(
    renewal: u64,
    expires_at: Timestamp,
    checkpoint: Option<Bytes>,
) -> Expected<RenewOutcome> {
    put(Renewed { stale: false, expires_at }, move |old| {
        let mut record = touched(NOW, leased_until(expires_at, old));
        if let State::Claimed(claimed) = &mut record.state {
            claimed.renewal = renewal;
        }
        if checkpoint.is_some() {
            record.checkpoint = checkpoint;
        }
        record
    })
}
