//! The versioned bytes of a record.
//!
//! The first byte is the version. A node writes [`VERSION`] and reads every version up to it; a later
//! one is refused, never guessed at. Golden bytes of every released version lie in `golden/`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::outcome::GrantKind;
use super::record::{
    Answer, Attempt, AttemptEnd, Audit, AuditAction, Claimed, Conclusion, OnOwnerLost, OwnerId,
    Record, State,
};
use crate::codec::{CodecError, DecodeError, Reader, Writer, decode_record};
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::response::{Body, Content, Response};
use crate::time::{Timestamp, micros};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Writes a record.
#[must_use]
pub fn encode(record: &Record) -> Bytes {
    let mut writer = Writer::with_capacity(256);
    writer.byte(VERSION);
    put_record(&mut writer, record);
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

fn put_record(writer: &mut Writer, record: &Record) {
    writer.list(record.fingerprints.iter(), |writer, one| {
        writer.framed(one.algorithm().as_bytes());
        writer.framed(one.digest());
    });
    writer.byte(match record.on_owner_lost {
        OnOwnerLost::TakeOver => 1,
        OnOwnerLost::Reconcile => 2,
        OnOwnerLost::Block => 3,
    });
    writer.u64(micros(record.retention));
    writer.u64(micros(record.allowed_skew));
    writer.option(record.first_sent, put_time);
    writer.list(record.labels.iter(), |writer, (name, value)| {
        writer.framed(name.as_bytes());
        writer.framed(value.as_bytes());
    });
    put_time(writer, record.created_at);
    put_time(writer, record.touched_at);
    writer.u64(record.fence);
    writer.u32(record.attempts);
    writer.list(record.history.iter(), put_attempt);
    writer.option(record.checkpoint.as_ref(), |writer, bytes| writer.framed(bytes));
    put_state(writer, &record.state);
    writer.list(record.audit.iter(), put_audit);
}

fn take_record(reader: &mut Reader<'_>) -> Result<Record, CodecError> {
    Ok(Record {
        fingerprints: take_fingerprints(reader)?,
        on_owner_lost: match reader.byte()? {
            1 => OnOwnerLost::TakeOver,
            2 => OnOwnerLost::Reconcile,
            3 => OnOwnerLost::Block,
            _ => return Err(CodecError::OutOfRange("policy for a lost owner")),
        },
        retention: Duration::from_micros(reader.u64()?),
        allowed_skew: Duration::from_micros(reader.u64()?),
        first_sent: reader.option(take_time)?,
        labels: take_labels(reader)?,
        created_at: take_time(reader)?,
        touched_at: take_time(reader)?,
        fence: reader.u64()?,
        attempts: reader.u32()?,
        history: reader.list(take_attempt)?,
        checkpoint: reader.option(take_bytes)?,
        state: take_state(reader)?,
        audit: reader.list(take_audit)?,
    })
}

fn take_fingerprints(reader: &mut Reader<'_>) -> Result<Fingerprints, CodecError> {
    let all = reader.list(|reader| {
        let algorithm = reader.text()?;
        let digest = take_bytes(reader)?;
        Fingerprint::new(algorithm, digest).map_err(|_| CodecError::OutOfRange("fingerprint"))
    })?;
    Fingerprints::new(all).map_err(|_| CodecError::OutOfRange("fingerprints"))
}

fn take_labels(reader: &mut Reader<'_>) -> Result<BTreeMap<Box<str>, Box<str>>, CodecError> {
    let pairs = reader.list(|reader| Ok((reader.text()?.into(), reader.text()?.into())))?;
    // One record has one encoding: another order, or a name twice, was never written.
    if !pairs.is_sorted_by(|(one, _), (next, _): &(Box<str>, _)| one < next) {
        return Err(CodecError::OutOfRange("order of labels"));
    }
    Ok(pairs.into_iter().collect())
}

fn put_state(writer: &mut Writer, state: &State) {
    match state {
        State::Claimed(claimed) => {
            writer.byte(1);
            put_owner(writer, claimed.owner);
            writer.byte(match claimed.kind {
                GrantKind::Claimed => 1,
                GrantKind::TakenOver => 2,
                GrantKind::ReconcileRequired => 3,
            });
            put_time(writer, claimed.claimed_at);
            put_time(writer, claimed.expires_at);
            writer.u64(claimed.renewal);
        }
        State::Released { by, fence, end, expires_at } => {
            writer.byte(2);
            put_owner(writer, *by);
            writer.u64(*fence);
            put_end(writer, *end);
            put_time(writer, *expires_at);
        }
        State::Completed(answer) => {
            writer.byte(3);
            put_answer(writer, answer);
        }
        State::Indeterminate { by, claimed_at, declared_at } => {
            writer.byte(4);
            put_owner(writer, *by);
            put_time(writer, *claimed_at);
            put_time(writer, *declared_at);
        }
        State::Forgotten { expires_at } => {
            writer.byte(5);
            put_time(writer, *expires_at);
        }
    }
}

fn take_state(reader: &mut Reader<'_>) -> Result<State, CodecError> {
    Ok(match reader.byte()? {
        1 => State::Claimed(Claimed {
            owner: take_owner(reader)?,
            kind: match reader.byte()? {
                1 => GrantKind::Claimed,
                2 => GrantKind::TakenOver,
                3 => GrantKind::ReconcileRequired,
                _ => return Err(CodecError::OutOfRange("kind of grant")),
            },
            claimed_at: take_time(reader)?,
            expires_at: take_time(reader)?,
            renewal: reader.u64()?,
        }),
        2 => State::Released {
            by: take_owner(reader)?,
            fence: reader.u64()?,
            end: take_end(reader)?,
            expires_at: take_time(reader)?,
        },
        3 => State::Completed(take_answer(reader)?),
        4 => State::Indeterminate {
            by: take_owner(reader)?,
            claimed_at: take_time(reader)?,
            declared_at: take_time(reader)?,
        },
        5 => State::Forgotten { expires_at: take_time(reader)? },
        _ => return Err(CodecError::OutOfRange("state")),
    })
}

fn put_answer(writer: &mut Writer, answer: &Answer) {
    writer.byte(match answer.conclusion {
        Conclusion::Succeeded => 1,
        Conclusion::FailedFinal => 2,
    });
    writer.option(answer.response.as_ref(), put_response);
    put_time(writer, answer.completed_at);
    writer.u64(answer.fence);
    put_owner(writer, answer.owner);
    put_time(writer, answer.expires_at);
}

fn take_answer(reader: &mut Reader<'_>) -> Result<Answer, CodecError> {
    Ok(Answer {
        conclusion: match reader.byte()? {
            1 => Conclusion::Succeeded,
            2 => Conclusion::FailedFinal,
            _ => return Err(CodecError::OutOfRange("conclusion")),
        },
        response: reader.option(take_response)?,
        completed_at: take_time(reader)?,
        fence: reader.u64()?,
        owner: take_owner(reader)?,
        expires_at: take_time(reader)?,
    })
}

fn put_response(writer: &mut Writer, response: &Response) {
    writer.i32(response.status);
    writer.framed(response.content_type.as_bytes());
    writer.list(response.metadata.iter(), |writer, (name, value)| {
        writer.framed(name.as_bytes());
        writer.framed(value.as_bytes());
    });
    writer.u64(response.body.length);
    writer.raw(&response.body.sha256);
    match &response.body.content {
        Content::Plain(bytes) => {
            writer.byte(1);
            writer.framed(bytes);
        }
        Content::Zstd(bytes) => {
            writer.byte(2);
            writer.framed(bytes);
        }
        Content::OmittedByCaller => writer.byte(3),
        Content::OmittedTooLarge => writer.byte(4),
    }
}

fn take_response(reader: &mut Reader<'_>) -> Result<Response, CodecError> {
    Ok(Response {
        status: reader.i32()?,
        content_type: reader.text()?.into(),
        metadata: reader.list(|reader| Ok((reader.text()?.into(), reader.text()?.into())))?,
        body: Body {
            length: reader.u64()?,
            sha256: reader.array()?,
            content: match reader.byte()? {
                1 => Content::Plain(take_bytes(reader)?),
                2 => Content::Zstd(take_bytes(reader)?),
                3 => Content::OmittedByCaller,
                4 => Content::OmittedTooLarge,
                _ => return Err(CodecError::OutOfRange("content")),
            },
        },
    })
}

fn put_attempt(writer: &mut Writer, attempt: &Attempt) {
    writer.u64(attempt.fence);
    put_owner(writer, attempt.owner);
    put_time(writer, attempt.claimed_at);
    put_time(writer, attempt.ended_at);
    put_end(writer, attempt.end);
}

fn take_attempt(reader: &mut Reader<'_>) -> Result<Attempt, CodecError> {
    Ok(Attempt {
        fence: reader.u64()?,
        owner: take_owner(reader)?,
        claimed_at: take_time(reader)?,
        ended_at: take_time(reader)?,
        end: take_end(reader)?,
    })
}

fn put_audit(writer: &mut Writer, audit: &Audit) {
    put_time(writer, audit.at);
    writer.framed(audit.actor.as_bytes());
    writer.framed(audit.reason.as_bytes());
    writer.byte(match audit.action {
        AuditAction::Reconcile => 1,
        AuditAction::Forget => 2,
    });
}

fn take_audit(reader: &mut Reader<'_>) -> Result<Audit, CodecError> {
    Ok(Audit {
        at: take_time(reader)?,
        actor: reader.text()?.into(),
        reason: reader.text()?.into(),
        action: match reader.byte()? {
            1 => AuditAction::Reconcile,
            2 => AuditAction::Forget,
            _ => return Err(CodecError::OutOfRange("operator's act")),
        },
    })
}

fn put_end(writer: &mut Writer, end: AttemptEnd) {
    writer.byte(match end {
        AttemptEnd::Released => 1,
        AttemptEnd::FailedRetryable => 2,
        AttemptEnd::Lapsed => 3,
        AttemptEnd::Indeterminate => 4,
        AttemptEnd::Reconciled => 5,
    });
}

fn take_end(reader: &mut Reader<'_>) -> Result<AttemptEnd, CodecError> {
    Ok(match reader.byte()? {
        1 => AttemptEnd::Released,
        2 => AttemptEnd::FailedRetryable,
        3 => AttemptEnd::Lapsed,
        4 => AttemptEnd::Indeterminate,
        5 => AttemptEnd::Reconciled,
        _ => return Err(CodecError::OutOfRange("end of an attempt")),
    })
}

fn put_owner(writer: &mut Writer, owner: OwnerId) {
    writer.raw(&owner.0);
}

fn take_owner(reader: &mut Reader<'_>) -> Result<OwnerId, CodecError> {
    reader.array().map(OwnerId)
}

fn put_time(writer: &mut Writer, at: Timestamp) {
    writer.u64(at.as_micros());
}

fn take_time(reader: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
    reader.u64().map(Timestamp::from_micros)
}

fn take_bytes(reader: &mut Reader<'_>) -> Result<Bytes, CodecError> {
    reader.framed().map(Bytes::copy_from_slice)
}
