//! The rule of outcomes: they count once, under their own generation, and change nothing but counts.

use super::advance;
use super::command::{Absorb, Outcomes};
use super::outcome::AbsorbOutcome;
use super::record::{NodeSeen, Record};
use crate::Change;
use crate::limits::{BREAKER_NODE_FORGOTTEN_AFTER, BREAKER_NODES_MAX};
use crate::time::Timestamp;

/// Decides on the record as it was written, its override not ended: a change that may be lost in a
/// crash must not carry a new generation.
pub(super) fn decide(
    record: Option<&Record>,
    absorb: &Absorb,
    now: Timestamp,
) -> (Change<Record>, AbsorbOutcome, bool) {
    let mut absorbed = record.cloned().unwrap_or_else(|| Record::fresh(now));
    let outcome = take_in(&mut absorbed, absorb, now);
    let due = advance::due(&absorbed, now).is_some();
    match outcome {
        AbsorbOutcome::Absorbed { .. } => (Change::Put(absorbed), outcome, due),
        _ => (Change::Keep, outcome, due),
    }
}

fn take_in(record: &mut Record, absorb: &Absorb, now: Timestamp) -> AbsorbOutcome {
    let place = record.nodes.binary_search_by_key(&absorb.node, |seen| seen.node);
    let known = place.ok().and_then(|place| record.nodes.get(place));
    if known.is_some_and(|seen| seen.seq >= absorb.seq) {
        return AbsorbOutcome::Repeated;
    }
    let current = |outcomes: &&Outcomes| outcomes.generation == record.generation;
    let outcomes: Vec<_> = absorb.outcomes.iter().filter(current).copied().collect();
    let calls = |all: &[Outcomes]| {
        all.iter().fold(0_u64, |sum, outcomes| sum.saturating_add(outcomes.counts.calls()))
    };
    let stale_calls = calls(&absorb.outcomes).saturating_sub(calls(&outcomes));
    if outcomes.is_empty() {
        return AbsorbOutcome::Stale;
    }
    if !remember(record, absorb, now) {
        return AbsorbOutcome::Full;
    }
    let policy = record.policy();
    let outcomes = outcomes.into_iter().map(|outcomes| (outcomes.reporter, outcomes.counts));
    record.window.absorb(&policy, now, outcomes);
    record.touched_at = now;
    AbsorbOutcome::Absorbed { stale_calls }
}

/// Notes what the node brought. False: there is no room for another node.
fn remember(record: &mut Record, absorb: &Absorb, now: Timestamp) -> bool {
    let Absorb { node, seq, .. } = *absorb;
    record.nodes.retain(|seen| seen.node == node || !is_forgotten(seen, now));
    let place = record.nodes.partition_point(|seen| seen.node < node);
    let is_full = record.nodes.len() >= BREAKER_NODES_MAX;
    match record.nodes.get_mut(place) {
        Some(seen) if seen.node == node => *seen = NodeSeen { node, seq, at: now },
        _ if is_full => return false,
        _ => record.nodes.insert(place, NodeSeen { node, seq, at: now }),
    }
    true
}

/// Whether a node has been silent for longer than it would send anything again.
pub(super) fn is_forgotten(seen: &NodeSeen, now: Timestamp) -> bool {
    seen.at.after(BREAKER_NODE_FORGOTTEN_AFTER) <= now
}
