//! The rule of probes: so many permits in the whole fleet, each for one call, each for a while.

use super::command::Probe;
use super::outcome::{Grant, ProbeOutcome};
use super::record::{Permit, Record, State};
use crate::Change;
use crate::time::Timestamp;

/// Decides on a record whose override, if it is over, has ended.
pub(super) fn decide(
    record: Option<&Record>,
    probe: &Probe,
    now: Timestamp,
) -> (Change<Record>, ProbeOutcome) {
    let Some(record) = record else { return (Change::Keep, ProbeOutcome::Closed) };
    if record.force.is_some() {
        return (Change::Keep, ProbeOutcome::Forced);
    }
    let mut probed = record.clone();
    match &record.state {
        State::Closed { .. } => return (Change::Keep, ProbeOutcome::Closed),
        State::Open { until, .. } if *until > now => {
            return (Change::Keep, ProbeOutcome::CoolingDown(until.since(now)));
        }
        State::Open { level, .. } => {
            let (level, permits) = (*level, Vec::new());
            probed.enter(State::HalfOpen { since: now, level, successes: 0, permits });
        }
        State::HalfOpen { .. } => {}
    }
    let outcome = admit(&mut probed, probe, now);
    match outcome {
        ProbeOutcome::Granted(_) => {
            probed.touched_at = now;
            (Change::Put(probed), outcome)
        }
        _ => (Change::Keep, outcome),
    }
}

fn admit(record: &mut Record, probe: &Probe, now: Timestamp) -> ProbeOutcome {
    let (policy, generation) = (record.policy(), record.generation);
    let State::HalfOpen { permits, .. } = &mut record.state else { return ProbeOutcome::Closed };
    let grant = |permit: &Permit| Grant {
        permit: permit.id,
        expires_in: permit.expires_at.since(now),
        generation,
    };
    permits.retain(|permit| permit.expires_at > now);
    if let Some(permit) = permits.iter().find(|permit| permit.probe_id == probe.probe_id) {
        return ProbeOutcome::Repeated(grant(permit));
    }
    let places = usize::try_from(policy.probes_max).unwrap_or(usize::MAX);
    let first_end = permits.iter().map(|permit| permit.expires_at).min();
    if let Some(end) = first_end.filter(|_| permits.len() >= places) {
        return ProbeOutcome::Taken(end.since(now));
    }
    let expires_at = now.after(policy.probe_lease);
    let permit = Permit { id: probe.permit, probe_id: probe.probe_id, expires_at };
    permits.push(permit);
    ProbeOutcome::Granted(grant(&permit))
}
