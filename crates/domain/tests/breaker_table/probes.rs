//! Probes, and what they bring about.

use semel_domain::breaker::{
    ForceKind, Grant, Outcome, Permit, Policy, ProbeOutcome, ProbeResult, Record, SettleOutcome,
    State, Window,
};
use semel_domain::time::Timestamp;

use crate::support::*;
use crate::{Expected, check, keep, put, row};

fn refused(outcome: ProbeOutcome) -> Expected {
    keep(Outcome::Probe(outcome))
}

fn granted(generation: u64, before: Vec<Permit>) -> Expected {
    let expires_in = POLICY.probe_lease;
    let grant = Grant { permit: PERMIT, expires_in, generation };
    put(Outcome::Probe(ProbeOutcome::Granted(grant)), move |old| {
        let expires_at = NOW.after(expires_in);
        let (mut permits, mut state) = (before, old.state.clone());
        permits.push(Permit { id: PERMIT, probe_id: QUESTION, expires_at });
        state = match state {
            State::HalfOpen { since, level, successes, .. } => {
                State::HalfOpen { since, level, successes, permits }
            }
            State::Open { level, .. } => {
                State::HalfOpen { since: NOW, level, successes: 0, permits }
            }
            State::Closed { .. } => state,
        };
        Record { state, generation, touched_at: NOW, ..old }
    })
}

fn before(id: u8, expires_at: Timestamp) -> Expected {
    let expires_in = expires_at.since(NOW);
    let grant = Grant { permit: [id; 16], expires_in, generation: GENERATION };
    keep(Outcome::Probe(ProbeOutcome::Repeated(grant)))
}

#[rustfmt::skip]
#[test]
fn probes_are_permitted_in_order_of_precedence() {
    use ProbeOutcome::{Closed, CoolingDown, Forced, Taken};
    let two = Policy { probes_max: 2, ..POLICY };
    let soon = NOW.after(SECOND);
    check(vec![
        row("no record",                 None, probe(), NOW, refused(Closed)),
        row("forced open",               forced(ForceKind::Open, None), probe(), NOW, refused(Forced)),
        row("forced closed",             forced(ForceKind::Closed, Some(soon)), probe(), NOW, refused(Forced)),
        row("was forced until now",      forced(ForceKind::Open, Some(NOW)), probe(), NOW, refused(Closed)),
        row("closed",                    closed(), probe(), NOW, refused(Closed)),
        row("in the ramp",               recovered(1), probe(), NOW, refused(Closed)),
        row("cooling down",              open_until(soon, 0), probe(), NOW, refused(CoolingDown(SECOND))),
        row("the clock went back",       Record { touched_at: NOW, ..open_until(soon, 0) }, probe(), BEGAN, refused(CoolingDown(SECOND))),
        row("the same question",         half_open(0, vec![permit(1, soon)]), probe_of(1), NOW, before(1, soon)),
        row("the same, of two",          with_policy(two, half_open(0, vec![permit(1, soon), permit(2, soon)])), probe_of(2), NOW, before(2, soon)),
        row("the same, and a slot free", with_policy(two, half_open(0, vec![permit(1, soon)])), probe_of(1), NOW, before(1, soon)),
        row("taken",                     half_open(0, vec![permit(1, soon)]), probe(), NOW, refused(Taken(SECOND))),
        row("both taken",                with_policy(two, half_open(0, vec![permit(1, soon.after(SECOND)), permit(2, soon)])), probe(), NOW, refused(Taken(SECOND))),
        row("cooled down",               open_until(NOW, 2), probe(), NOW, granted(GENERATION + 1, vec![])),
        row("long cooled down",          open_until(BEGAN, 2), probe(), NOW, granted(GENERATION + 1, vec![])),
        row("nobody probes",             half_open(2, vec![]), probe(), NOW, granted(GENERATION, vec![])),
        row("one has run out",           half_open(2, vec![permit(1, NOW)]), probe(), NOW, granted(GENERATION, vec![])),
        row("one of two is free",        with_policy(two, half_open(2, vec![permit(1, NOW), permit(2, soon)])), probe(), NOW, granted(GENERATION, vec![permit(2, soon)])),
    ], &["Closed", "Forced", "CoolingDown", "Repeated", "Taken", "Granted"]);
}

fn unknown() -> Expected {
    keep(Outcome::Settle(SettleOutcome::Unknown))
}

fn stays(outcome: SettleOutcome, successes: u32, permits: Vec<Permit>) -> Expected {
    put(Outcome::Settle(outcome), move |old| Record {
        state: State::HalfOpen { since: BEGAN, level: 1, successes, permits },
        touched_at: NOW,
        ..old
    })
}

fn becomes(outcome: SettleOutcome, state: State, window: Option<Window>) -> Expected {
    put(Outcome::Settle(outcome), move |old| Record {
        state,
        generation: GENERATION + 1,
        window: window.unwrap_or_else(|| old.window.clone()),
        touched_at: NOW,
        ..old
    })
}

#[rustfmt::skip]
#[test]
fn probes_are_settled_in_order_of_precedence() {
    use ProbeResult::{Failed, Inconclusive, Succeeded};
    let soon = NOW.after(SECOND);
    let at_work = |successes| reported(&[(A, counts(1, 2))], half_open(successes, vec![permit(1, soon)]));
    let two = |successes| half_open(successes, vec![permit(1, soon), permit(2, soon)]);
    let reopened = || becomes(SettleOutcome::Reopened, State::Open { since: NOW, until: NOW.after(40 * SECOND), level: 2 }, None);
    let closes = || becomes(SettleOutcome::Closed, State::Closed { since: NOW, recovered: Some(1) }, Some(Window::default()));
    let impatient = Policy { successes_to_close: 1, ..POLICY };
    check(vec![
        row("no record",              None, settle(1, Succeeded), NOW, unknown()),
        row("closed",                 closed(), settle(1, Failed), NOW, unknown()),
        row("open again since",       open_until(BEGAN, 1), settle(1, Succeeded), NOW, unknown()),
        row("forced since",           forced(ForceKind::Open, None), settle(1, Succeeded), NOW, unknown()),
        row("settled before",         half_open(1, vec![]), settle(1, Succeeded), NOW, unknown()),
        row("another's permit",       at_work(0), settle(2, Succeeded), NOW, unknown()),
        row("run out, succeeded",     half_open(0, vec![permit(1, NOW)]), settle(1, Succeeded), NOW, unknown()),
        row("run out, failed",        half_open(0, vec![permit(1, NOW)]), settle(1, Failed), NOW, unknown()),
        row("inconclusive",           at_work(1), settle(1, Inconclusive), NOW, stays(SettleOutcome::Inconclusive, 1, vec![])),
        row("inconclusive, of two",   two(1), settle(1, Inconclusive), NOW, stays(SettleOutcome::Inconclusive, 1, vec![permit(2, soon)])),
        row("failed",                 at_work(0), settle(1, Failed), NOW, reopened()),
        row("failed, nearly closed",  at_work(2), settle(1, Failed), NOW, reopened()),
        row("failed, of two",         two(2), settle(1, Failed), NOW, reopened()),
        row("the last success",       at_work(2), settle(1, Succeeded), NOW, closes()),
        row("the last success of two", two(2), settle(2, Succeeded), NOW, closes()),
        row("the only success",       with_policy(impatient, at_work(0)), settle(1, Succeeded), NOW, closes()),
        row("the first success",      at_work(0), settle(1, Succeeded), NOW, stays(SettleOutcome::Counted, 1, vec![])),
        row("one more success",       two(1), settle(1, Succeeded), NOW, stays(SettleOutcome::Counted, 2, vec![permit(2, soon)])),
        row("the clock went back",    at_work(0), settle(1, Succeeded), BEGAN, stays(SettleOutcome::Counted, 1, vec![])),
    ], &["Unknown", "Inconclusive", "Reopened", "Closed", "Counted"]);
}
