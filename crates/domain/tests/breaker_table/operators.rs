//! What operators do.

use std::time::Duration;

use semel_domain::breaker::{
    Command, Force, ForceKind, Outcome, Policy, PolicySet, Record, SetPolicy, SetPolicyOutcome,
    State, Window,
};

use crate::support::*;
use crate::{Expected, check, keep, make, put, row};

fn forces(generation: u64, kind: Option<ForceKind>, left: Option<Duration>, old: Record) -> Record {
    let (actor, reason) = ("ops".into(), "drill".into());
    let expires_at = left.map(|left| NOW.after(left));
    let force = kind.map(|kind| Force { kind, actor, reason, since: NOW, expires_at });
    let mut forces = old.forces.clone();
    forces.push([1; 16]);
    Record {
        state: State::Closed { since: NOW, recovered: None },
        window: Window::default(),
        generation,
        force,
        forces,
        touched_at: NOW,
        ..old
    }
}

fn overridden(kind: Option<ForceKind>, left: Option<Duration>) -> Expected {
    put(Outcome::Override { already: false }, move |old| forces(GENERATION + 1, kind, left, old))
}

#[rustfmt::skip]
#[test]
fn overrides_are_decided_in_order_of_precedence() {
    use ForceKind::{Closed, MetricsOnly, Open};
    let knows = |id: u8, record: Record| Record { forces: vec![[id; 16]], ..record };
    let new = || Outcome::Override { already: false };
    let already = || keep(Outcome::Override { already: true });
    let eight = |from: u8| (from..from + 8).map(|id| [id; 16]).collect::<Vec<_>>();
    let bad = || reported(&[(A, counts(0, 20))], closed());
    check(vec![
        row("run again",              knows(1, forced(Open, None)), force(1, Some(Open), None), NOW, already()),
        row("run again after others", Record { forces: vec![[1; 16], [2; 16]], ..closed() }, force(1, Some(Open), None), NOW, already()),
        row("reset run again",        knows(1, closed()), force(1, None, None), NOW, already()),
        row("no record",              None, force(1, Some(Open), Some(SECOND)), NOW, make(new(), forces(1, Some(Open), Some(SECOND), Record::fresh(NOW)))),
        row("opened",                 bad(), force(1, Some(Open), None), NOW, overridden(Some(Open), None)),
        row("opened for a while",     bad(), force(1, Some(Open), Some(SECOND)), NOW, overridden(Some(Open), Some(SECOND))),
        row("closed while open",      open_until(NOW.after(SECOND), 3), force(1, Some(Closed), None), NOW, overridden(Some(Closed), None)),
        row("metrics, half-open",     half_open(1, vec![permit(1, NOW.after(SECOND))]), force(1, Some(MetricsOnly), None), NOW, overridden(Some(MetricsOnly), None)),
        row("another force",          knows(2, forced(Open, None)), force(1, Some(Closed), None), NOW, overridden(Some(Closed), None)),
        row("after one that is over", forced(Open, Some(BEGAN)), force(1, Some(Closed), None), NOW,
            put(new(), |old| forces(GENERATION + 2, Some(Closed), None, old))),
        row("the oldest is forgotten", Record { forces: eight(2), ..closed() }, force(1, None, None), NOW,
            put(new(), move |old| forces(GENERATION + 1, None, None, Record { forces: eight(2)[1..].to_vec(), ..old }))),
        row("reset, forced",          forced(Open, None), force(1, None, None), NOW, overridden(None, None)),
        row("reset, open",            open_until(NOW.after(SECOND), 3), force(1, None, None), NOW, overridden(None, None)),
        row("reset, closed",          bad(), force(1, None, None), NOW, overridden(None, None)),
    ], &["Already", "Overridden"]);
}

const OTHER: Policy = Policy { calls_min: 99, ..POLICY };

fn set(policy: Policy, expected_version: Option<u64>, actor: &str) -> Command {
    Command::SetPolicy(SetPolicy { policy, expected_version, actor: actor.into() })
}

fn sets(version: u64, old: Record) -> Record {
    let (policy, actor) = (OTHER, "ops".into());
    Record {
        policy: Some(PolicySet { policy, version, actor, set_at: NOW }),
        touched_at: NOW,
        ..old
    }
}

#[rustfmt::skip]
#[test]
fn policies_are_replaced_in_order_of_precedence() {
    let already = |version| keep(Outcome::SetPolicy(SetPolicyOutcome::Already { version }));
    let conflict = |version| keep(Outcome::SetPolicy(SetPolicyOutcome::Conflict { version }));
    let done = |version| Outcome::SetPolicy(SetPolicyOutcome::Set { version });
    let next = || put(done(4), |old| sets(4, old));
    check(vec![
        row("run again",               closed(), set(POLICY, Some(2), "ops"), NOW, already(3)),
        row("run again, any version",  closed(), set(POLICY, None, "ops"), NOW, already(3)),
        row("the same, an old version", closed(), set(POLICY, Some(1), "ops"), NOW, conflict(3)),
        row("another, an old version", closed(), set(OTHER, Some(2), "ops"), NOW, conflict(3)),
        row("a version to come",       closed(), set(OTHER, Some(4), "ops"), NOW, conflict(3)),
        row("no record, a version",    None, set(OTHER, Some(1), "ops"), NOW, conflict(0)),
        row("another's words",         closed(), set(POLICY, Some(2), "eve"), NOW, conflict(3)),
        row("no record",               None, set(OTHER, None, "ops"), NOW, make(done(1), sets(1, Record::fresh(NOW)))),
        row("no record, as expected",  None, set(OTHER, Some(0), "ops"), NOW, make(done(1), sets(1, Record::fresh(NOW)))),
        row("replaced",                closed(), set(OTHER, None, "ops"), NOW, next()),
        row("replaced, as expected",   closed(), set(OTHER, Some(3), "ops"), NOW, next()),
        row("while open",              open_until(NOW, 0), set(OTHER, Some(3), "ops"), NOW, next()),
        row("the clock went back",     Record { touched_at: NOW, ..closed() }, set(OTHER, None, "ops"), BEGAN, next()),
    ], &["Already", "Conflict", "Set"]);
}

#[test]
fn readers_see_an_override_end_whether_or_not_somebody_wrote_it_down() {
    let ended = forced(ForceKind::Open, Some(NOW));
    let seen = Record {
        state: State::Closed { since: NOW, recovered: Some(0) },
        generation: GENERATION + 1,
        force: None,
        ..ended.clone()
    };
    let early = NOW.before(MICROSECOND);
    let got = |record| Outcome::Get(Some(Box::new(record)));
    check(
        vec![
            row("no record", None, Command::Get, NOW, keep(Outcome::Get(None))),
            row("before", ended.clone(), Command::Get, early, keep(got(ended.clone()))),
            row("from then on", ended, Command::Get, NOW, keep(got(seen))),
        ],
        &["Got"],
    );
}
