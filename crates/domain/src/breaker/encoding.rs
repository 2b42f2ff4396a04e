//! The versioned bytes of a record.
//!
//! The first byte is the version. A node writes [`VERSION`] and reads every version up to it; a later
//! one is refused, never guessed at. Golden bytes of every released version lie in `golden/`.
//!
//! One record has one encoding: lists that are kept in order are refused in another. Counts and the
//! distances between slots are small most of the time and written so.

use std::time::Duration;

use bytes::Bytes;

use super::policy::Policy;
use super::record::{Force, ForceKind, NodeSeen, Permit, PolicySet, Record, State};
use super::window::{Counts, ReporterId, Ring, Slot, Tracked, Window};
use crate::codec::{CodecError, DecodeError, Reader, Writer, decode_record};
use crate::limits::{AUDIT_MAX, BREAKER_NODES_MAX, BREAKER_PROBES_MAX, BREAKER_REPORTERS_MAX};
use crate::time::{Timestamp, micros};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Writes a record.
#[must_use]
pub fn encode(record: &Record) -> Bytes {
    let mut writer = Writer::with_capacity(256);
    writer.byte(VERSION);
    put_time(&mut writer, record.touched_at);
    writer.option(record.policy.as_ref(), put_policy_set);
    writer.u64(record.generation);
    put_state(&mut writer, &record.state);
    put_ring(&mut writer, &record.window.totals);
    writer.list(record.window.reporters.iter(), |writer, tracked| {
        writer.raw(&tracked.reporter.0);
        put_ring(writer, &tracked.ring);
        writer.option(tracked.isolated_until, put_time);
    });
    writer.option(record.force.as_ref(), put_force);
    writer.list(record.forces.iter(), |writer, id| writer.raw(id));
    writer.list(record.nodes.iter(), |writer, seen| {
        writer.raw(&seen.node);
        writer.varint(seen.seq);
        put_time(writer, seen.at);
    });
    writer.finish()
}

/// Reads a record.
///
/// # Errors
///
/// [`DecodeError`]; never a panic, whatever the bytes.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    decode_record(bytes, VERSION, take_record)
}

fn take_record(reader: &mut Reader<'_>) -> Result<Record, CodecError> {
    Ok(Record {
        touched_at: take_time(reader)?,
        policy: reader.option(take_policy_set)?,
        generation: reader.u64()?,
        state: take_state(reader)?,
        window: Window { totals: take_ring(reader)?, reporters: take_reporters(reader)? },
        force: reader.option(take_force)?,
        forces: take_forces(reader)?,
        nodes: take_nodes(reader)?,
    })
}

fn take_forces(reader: &mut Reader<'_>) -> Result<Vec<[u8; 16]>, CodecError> {
    let forces = reader.list(Reader::array)?;
    if forces.len() > AUDIT_MAX {
        return Err(CodecError::OutOfRange("number of overrides"));
    }
    Ok(forces)
}

fn put_policy_set(writer: &mut Writer, set: &PolicySet) {
    put_policy(writer, &set.policy);
    writer.u64(set.version);
    writer.framed(set.actor.as_bytes());
    put_time(writer, set.set_at);
}

fn take_policy_set(reader: &mut Reader<'_>) -> Result<PolicySet, CodecError> {
    Ok(PolicySet {
        policy: take_policy(reader)?,
        version: reader.u64()?,
        actor: reader.text()?.into(),
        set_at: take_time(reader)?,
    })
}

fn put_policy(writer: &mut Writer, policy: &Policy) {
    writer.u32(policy.failure_per_mille);
    put_duration(writer, policy.window);
    writer.u32(policy.calls_min);
    put_duration(writer, policy.cool_down);
    put_duration(writer, policy.cool_down_max);
    writer.u32(policy.probes_max);
    writer.u32(policy.successes_to_close);
    put_duration(writer, policy.probe_lease);
    put_duration(writer, policy.ramp_step);
    writer.option(policy.slow_call, put_duration);
    writer.u32(policy.slow_per_mille);
}

fn take_policy(reader: &mut Reader<'_>) -> Result<Policy, CodecError> {
    Ok(Policy {
        failure_per_mille: reader.u32()?,
        window: take_duration(reader)?,
        calls_min: reader.u32()?,
        cool_down: take_duration(reader)?,
        cool_down_max: take_duration(reader)?,
        probes_max: reader.u32()?,
        successes_to_close: reader.u32()?,
        probe_lease: take_duration(reader)?,
        ramp_step: take_duration(reader)?,
        slow_call: reader.option(take_duration)?,
        slow_per_mille: reader.u32()?,
    })
}

fn put_state(writer: &mut Writer, state: &State) {
    match state {
        State::Closed { since, recovered } => {
            writer.byte(1);
            put_time(writer, *since);
            writer.option(*recovered, Writer::u32);
        }
        State::Open { since, until, level } => {
            writer.byte(2);
            put_time(writer, *since);
            put_time(writer, *until);
            writer.u32(*level);
        }
        State::HalfOpen { since, level, successes, permits } => {
            writer.byte(3);
            put_time(writer, *since);
            writer.u32(*level);
            writer.u32(*successes);
            writer.list(permits.iter(), |writer, permit| {
                writer.raw(&permit.id);
                writer.raw(&permit.probe_id);
                put_time(writer, permit.expires_at);
            });
        }
    }
}

fn take_state(reader: &mut Reader<'_>) -> Result<State, CodecError> {
    Ok(match reader.byte()? {
        1 => State::Closed { since: take_time(reader)?, recovered: reader.option(Reader::u32)? },
        2 => State::Open {
            since: take_time(reader)?,
            until: take_time(reader)?,
            level: reader.u32()?,
        },
        3 => State::HalfOpen {
            since: take_time(reader)?,
            level: reader.u32()?,
            successes: reader.u32()?,
            permits: take_permits(reader)?,
        },
        _ => return Err(CodecError::OutOfRange("state")),
    })
}

fn take_permits(reader: &mut Reader<'_>) -> Result<Vec<Permit>, CodecError> {
    let permits = reader.list(|reader| {
        Ok(Permit {
            id: reader.array()?,
            probe_id: reader.array()?,
            expires_at: take_time(reader)?,
        })
    })?;
    if u32::try_from(permits.len()).is_ok_and(|count| count <= BREAKER_PROBES_MAX) {
        return Ok(permits);
    }
    Err(CodecError::OutOfRange("number of permits"))
}

fn take_reporters(reader: &mut Reader<'_>) -> Result<Vec<Tracked>, CodecError> {
    let reporters = reader.list(|reader| {
        Ok(Tracked {
            reporter: ReporterId(reader.array()?),
            ring: take_ring(reader)?,
            isolated_until: reader.option(take_time)?,
        })
    })?;
    let in_order =
        reporters.is_sorted_by(|one: &Tracked, next: &Tracked| one.reporter < next.reporter);
    if reporters.len() > BREAKER_REPORTERS_MAX || !in_order {
        return Err(CodecError::OutOfRange("reporters"));
    }
    Ok(reporters)
}

fn take_nodes(reader: &mut Reader<'_>) -> Result<Vec<NodeSeen>, CodecError> {
    let nodes = reader.list(|reader| {
        Ok(NodeSeen { node: reader.array()?, seq: reader.varint()?, at: take_time(reader)? })
    })?;
    let in_order = nodes.is_sorted_by(|one: &NodeSeen, next: &NodeSeen| one.node < next.node);
    if nodes.len() > BREAKER_NODES_MAX || !in_order {
        return Err(CodecError::OutOfRange("nodes"));
    }
    Ok(nodes)
}

/// Slots are written with their distance from the one before: never zero, but for the first.
fn put_ring(writer: &mut Writer, ring: &Ring) {
    let mut before_us = 0;
    writer.varint(u64::try_from(ring.0.len()).unwrap_or(u64::MAX));
    for Slot { starts_at, counts } in &ring.0 {
        writer.varint(starts_at.as_micros().saturating_sub(before_us));
        before_us = starts_at.as_micros();
        for count in [counts.succeeded, counts.failed, counts.slow, counts.ignored] {
            writer.varint(count);
        }
    }
}

fn take_ring(reader: &mut Reader<'_>) -> Result<Ring, CodecError> {
    let (mut before_us, mut slots) = (0_u64, Vec::new());
    for position in 0..reader.varint()? {
        let distance_us = reader.varint()?;
        let starts_us = before_us.checked_add(distance_us);
        let Some(starts_us) = starts_us.filter(|_| distance_us > 0 || position == 0) else {
            return Err(CodecError::OutOfRange("slot"));
        };
        before_us = starts_us;
        let counts = Counts {
            succeeded: reader.varint()?,
            failed: reader.varint()?,
            slow: reader.varint()?,
            ignored: reader.varint()?,
        };
        slots.push(Slot { starts_at: Timestamp::from_micros(starts_us), counts });
    }
    Ok(Ring(slots))
}

fn put_force(writer: &mut Writer, force: &Force) {
    writer.byte(match force.kind {
        ForceKind::Open => 1,
        ForceKind::Closed => 2,
        ForceKind::MetricsOnly => 3,
    });
    writer.framed(force.actor.as_bytes());
    writer.framed(force.reason.as_bytes());
    put_time(writer, force.since);
    writer.option(force.expires_at, put_time);
}

fn take_force(reader: &mut Reader<'_>) -> Result<Force, CodecError> {
    Ok(Force {
        kind: match reader.byte()? {
            1 => ForceKind::Open,
            2 => ForceKind::Closed,
            3 => ForceKind::MetricsOnly,
            _ => return Err(CodecError::OutOfRange("override")),
        },
        actor: reader.text()?.into(),
        reason: reader.text()?.into(),
        since: take_time(reader)?,
        expires_at: reader.option(take_time)?,
    })
}

fn put_time(writer: &mut Writer, at: Timestamp) {
    writer.u64(at.as_micros());
}

fn take_time(reader: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
    reader.u64().map(Timestamp::from_micros)
}

fn put_duration(writer: &mut Writer, duration: Duration) {
    writer.u64(micros(duration));
}

fn take_duration(reader: &mut Reader<'_>) -> Result<Duration, CodecError> {
    reader.u64().map(Duration::from_micros)
}
