//! The versioned bytes of a budget's record.
//!
//! The first byte is the version. A node writes [`VERSION`] and reads every version up to it; a later
//! one is refused, never guessed at. Golden bytes of every released version lie in `golden/`.

use std::time::Duration;

use bytes::Bytes;

use super::ledger::{Ledger, Slot};
use super::policy::{Backoff, Costs, DepositOn, Enforcement, FailMode, Policy, SetPolicy};
use super::record::{Granted, Incarnation, Member, Record, Slice};
use crate::codec::{CodecError, DecodeError, Reader, Writer, decode_record};
use crate::retry::BackoffStrategy;
use crate::time::{Timestamp, micros};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Writes a record.
#[must_use]
pub fn encode(record: &Record) -> Bytes {
    let slots = record.ledger.slots();
    let mut writer = Writer::with_capacity(64 + 8 * slots.len() + 96 * record.members.len());
    writer.byte(VERSION);
    put_time(&mut writer, record.touched_at);
    writer.option(record.policy.as_ref(), put_set_policy);
    let mut before = 0;
    writer.list(slots, |writer, slot| {
        // Slots lie close together, and a busy record has a hundred of them.
        writer.varint(slot.number.saturating_sub(before));
        writer.varint(slot.deposited_milli);
        writer.varint(slot.spent_milli);
        before = slot.number;
    });
    writer.list(record.members.iter(), put_member);
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
    let touched_at = take_time(reader)?;
    let policy = reader.option(take_set_policy)?;
    let slots = take_slots(reader)?;
    let members = reader.list(take_member)?;
    Ok(Record { policy, ledger: Ledger::of_slots(slots), members, touched_at })
}

fn take_slots(reader: &mut Reader<'_>) -> Result<Vec<Slot>, CodecError> {
    let mut before = None;
    reader.list(|reader| {
        let distance = reader.varint()?;
        let number = match before {
            None => Some(distance),
            Some(_) if distance == 0 => None,
            Some(before) => distance.checked_add(before),
        };
        before = number;
        Ok(Slot {
            number: number.ok_or(CodecError::OutOfRange("slot"))?,
            deposited_milli: reader.varint()?,
            spent_milli: reader.varint()?,
        })
    })
}

fn put_set_policy(writer: &mut Writer, set: &SetPolicy) {
    writer.u64(set.version);
    writer.framed(set.actor.as_bytes());
    put_time(writer, set.set_at);
    put_policy(writer, &set.policy);
}

fn take_set_policy(reader: &mut Reader<'_>) -> Result<SetPolicy, CodecError> {
    Ok(SetPolicy {
        version: reader.u64()?,
        actor: reader.text()?.into(),
        set_at: take_time(reader)?,
        policy: take_policy(reader)?,
    })
}

fn put_policy(writer: &mut Writer, policy: &Policy) {
    writer.u32(policy.ratio_per_mille);
    writer.u32(policy.floor_per_second);
    put_duration(writer, policy.window);
    put_duration(writer, policy.carry_over);
    let Costs { not_sent, throttled, unknown_outcome, server_error, in_progress } = policy.costs;
    for cost in [not_sent, throttled, unknown_outcome, server_error, in_progress] {
        writer.u32(cost);
    }
    writer.u32(policy.attempts_max);
    writer.u32(policy.retries_per_root);
    writer.option(policy.retry_layer.as_ref(), |writer, layer| writer.framed(layer.as_bytes()));
    writer.byte(match policy.backoff.strategy {
        BackoffStrategy::FullJitter => 1,
        BackoffStrategy::EqualJitter => 2,
        BackoffStrategy::DecorrelatedJitter => 3,
        BackoffStrategy::None => 4,
    });
    for step in [policy.backoff.base, policy.backoff.base_throttled, policy.backoff.cap] {
        put_duration(writer, step);
    }
    writer.byte(match policy.deposit_on {
        DepositOn::Request => 1,
        DepositOn::Success => 2,
    });
    writer.byte(match policy.fail_mode {
        FailMode::LocalBounded => 1,
        FailMode::Deny => 2,
        FailMode::Allow => 3,
    });
    writer.u32(policy.reserve_per_mille);
    writer.byte(match policy.enforcement {
        Enforcement::Enforce => 1,
        Enforcement::Observe => 2,
    });
    put_duration(writer, policy.lease);
}

fn take_policy(reader: &mut Reader<'_>) -> Result<Policy, CodecError> {
    Ok(Policy {
        ratio_per_mille: reader.u32()?,
        floor_per_second: reader.u32()?,
        window: take_duration(reader)?,
        carry_over: take_duration(reader)?,
        costs: Costs {
            not_sent: reader.u32()?,
            throttled: reader.u32()?,
            unknown_outcome: reader.u32()?,
            server_error: reader.u32()?,
            in_progress: reader.u32()?,
        },
        attempts_max: reader.u32()?,
        retries_per_root: reader.u32()?,
        retry_layer: reader.option(|reader| reader.text().map(Into::into))?,
        backoff: Backoff {
            strategy: match reader.byte()? {
                1 => BackoffStrategy::FullJitter,
                2 => BackoffStrategy::EqualJitter,
                3 => BackoffStrategy::DecorrelatedJitter,
                4 => BackoffStrategy::None,
                _ => return Err(CodecError::OutOfRange("backoff strategy")),
            },
            base: take_duration(reader)?,
            base_throttled: take_duration(reader)?,
            cap: take_duration(reader)?,
        },
        deposit_on: match reader.byte()? {
            1 => DepositOn::Request,
            2 => DepositOn::Success,
            _ => return Err(CodecError::OutOfRange("deposit on")),
        },
        fail_mode: match reader.byte()? {
            1 => FailMode::LocalBounded,
            2 => FailMode::Deny,
            3 => FailMode::Allow,
            _ => return Err(CodecError::OutOfRange("fail mode")),
        },
        reserve_per_mille: reader.u32()?,
        enforcement: match reader.byte()? {
            1 => Enforcement::Enforce,
            2 => Enforcement::Observe,
            _ => return Err(CodecError::OutOfRange("enforcement")),
        },
        lease: take_duration(reader)?,
    })
}

fn put_member(writer: &mut Writer, member: &Member) {
    writer.raw(&member.node.0);
    writer.u64(member.seq);
    writer.option(member.granted, |writer, granted| {
        writer.u64(granted.milli);
        writer.byte(u8::from(granted.high_only));
        put_time(writer, granted.granted_at);
        put_time(writer, granted.expires_at);
    });
    writer.byte(u8::from(member.wants));
    writer.list(member.slices.iter(), |writer, slice| {
        writer.u64(slice.seq);
        writer.u64(slice.left_milli);
        put_time(writer, slice.expires_at);
    });
    put_time(writer, member.touched_at);
}

fn take_member(reader: &mut Reader<'_>) -> Result<Member, CodecError> {
    Ok(Member {
        node: Incarnation(reader.array()?),
        seq: reader.u64()?,
        granted: reader.option(|reader| {
            Ok(Granted {
                milli: reader.u64()?,
                high_only: take_bool(reader)?,
                granted_at: take_time(reader)?,
                expires_at: take_time(reader)?,
            })
        })?,
        wants: take_bool(reader)?,
        slices: reader.list(|reader| {
            Ok(Slice {
                seq: reader.u64()?,
                left_milli: reader.u64()?,
                expires_at: take_time(reader)?,
            })
        })?,
        touched_at: take_time(reader)?,
    })
}

fn take_bool(reader: &mut Reader<'_>) -> Result<bool, CodecError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(CodecError::OutOfRange("yes or no")),
    }
}

fn put_duration(writer: &mut Writer, duration: Duration) {
    writer.u64(micros(duration));
}

fn take_duration(reader: &mut Reader<'_>) -> Result<Duration, CodecError> {
    reader.u64().map(Duration::from_micros)
}

fn put_time(writer: &mut Writer, at: Timestamp) {
    writer.u64(at.as_micros());
}

fn take_time(reader: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
    reader.u64().map(Timestamp::from_micros)
}
