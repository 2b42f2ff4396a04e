//! Values that several services read from messages and write into them. What is malformed is refused
//! with its field's name.

use std::time::Duration;

use bytes::Bytes;
use prost_types::{Duration as WireDuration, Timestamp as WireTimestamp};
use semel_domain::budget::Incarnation;
use semel_domain::downstream::Downstream;
use semel_domain::limits;
use semel_domain::name::{Dependency, Tenant};
use semel_domain::time::Timestamp;

use crate::refusal::{Reason, Refusal};

/// The most calls that one report may tell of: far above what a process makes between two, and so low
/// that no sum comes near its end.
pub(crate) const COUNT_MAX: u64 = 1_000_000_000;

/// What was read, or why it can't be.
pub(crate) type Parsed<T> = Result<T, Refusal>;

pub(crate) fn tenant(text: &str) -> Parsed<Tenant> {
    Tenant::parse(text).map_err(|error| Refusal::field(Reason::TenantInvalid, "tenant", error))
}

pub(crate) fn dependency(text: &str) -> Parsed<Dependency> {
    Dependency::parse(text)
        .map_err(|error| Refusal::field(Reason::DependencyInvalid, "dependency", error))
}

pub(crate) fn downstream(tenant_text: &str, dependency_text: &str) -> Parsed<Downstream> {
    Ok(Downstream { tenant: tenant(tenant_text)?, dependency: dependency(dependency_text)? })
}

/// An incarnation, or another id of its length.
pub(crate) fn incarnation(reason: Reason, field: &str, bytes: &[u8]) -> Parsed<Incarnation> {
    let parsed = <[u8; limits::INCARNATION_BYTES]>::try_from(bytes).map(Incarnation);
    parsed.map_err(|_| {
        let (most, actual) = (limits::INCARNATION_BYTES, bytes.len());
        Refusal::field(reason, field, format!("must be {most} bytes, but has {actual}"))
    })
}

/// An incarnation that may be left out.
pub(crate) fn optional_incarnation(
    reason: Reason,
    field: &str,
    bytes: &[u8],
) -> Parsed<Option<Incarnation>> {
    if bytes.is_empty() { Ok(None) } else { incarnation(reason, field, bytes).map(Some) }
}

/// An id of a request, of which the caller chooses the form.
pub(crate) fn request_id<'a>(reason: Reason, field: &str, bytes: &'a Bytes) -> Parsed<&'a Bytes> {
    let most = limits::REQUEST_ID_MAX_BYTES;
    if bytes.is_empty() || bytes.len() > most {
        let problem = format!("must be 1 to {most} bytes, but has {}", bytes.len());
        return Err(Refusal::field(reason, field, problem));
    }
    Ok(bytes)
}

pub(crate) fn positive(field: &str, given: WireDuration) -> Parsed<Duration> {
    match duration(field, given)? {
        Duration::ZERO => {
            let problem = "must be more than zero; leave it out to take the default";
            Err(Refusal::field(Reason::DurationInvalid, field, problem))
        }
        positive => Ok(positive),
    }
}

pub(crate) fn duration(field: &str, given: WireDuration) -> Parsed<Duration> {
    let well_formed = (0..1_000_000_000).contains(&given.nanos);
    let parts = (u64::try_from(given.seconds), u32::try_from(given.nanos));
    match parts {
        (Ok(seconds), Ok(nanos)) if well_formed => Ok(Duration::new(seconds, nanos)),
        _ => {
            let problem = "must not be negative, nor have nanoseconds outside 0 to 999,999,999";
            Err(Refusal::field(Reason::DurationInvalid, field, problem))
        }
    }
}

/// A duration of a policy; absent or zero: its default.
pub(crate) fn within(
    field: &str,
    given: Option<WireDuration>,
    default: Duration,
    (least, most): (Duration, Duration),
) -> Parsed<Duration> {
    let given = given.map(|given| duration(field, given)).transpose()?.unwrap_or_default();
    let taken = if given.is_zero() { default } else { given };
    if taken < least || taken > most {
        let problem = format!("must be {least:?} to {most:?}, but is {taken:?}");
        return Err(Refusal::field(Reason::PolicyInvalid, field, problem));
    }
    Ok(taken)
}

/// A number of a policy.
pub(crate) fn at_most(field: &str, value: u32, most: u32) -> Parsed<u32> {
    if value > most {
        let problem = format!("must be at most {most}, but is {value}");
        return Err(Refusal::field(Reason::PolicyInvalid, field, problem));
    }
    Ok(value)
}

/// A choice; a number that means none is refused.
pub(crate) fn choice<E: TryFrom<i32>>(field: &str, value: i32) -> Parsed<E> {
    E::try_from(value).map_err(|_| {
        let problem = format!("{value} is none of the choices of this version");
        Refusal::field(Reason::EnumInvalid, field, problem)
    })
}

/// Refuses a list that is empty or has more than `most` items.
pub(crate) fn check_batch(field: &str, count: usize, most: usize) -> Parsed<()> {
    if count == 0 || count > most {
        let problem = format!("must have 1 to {most} items, not {count}");
        return Err(Refusal::field(Reason::BatchInvalid, field, problem));
    }
    Ok(())
}

/// Who did something.
pub(crate) fn actor(text: &str) -> Parsed<Box<str>> {
    audited("actor", text, limits::ACTOR_MAX_BYTES)
}

/// Who did something, and why.
pub(crate) fn audit(actor_text: &str, reason: &str) -> Parsed<(Box<str>, Box<str>)> {
    Ok((actor(actor_text)?, audited("reason", reason, limits::REASON_MAX_BYTES)?))
}

fn audited(field: &str, text: &str, max: usize) -> Parsed<Box<str>> {
    let blank = text.chars().all(char::is_whitespace);
    if blank || text.len() > max || text.chars().any(char::is_control) {
        let problem = format!("must be 1 to {max} bytes, not blank, no control characters");
        return Err(Refusal::field(Reason::AuditInvalid, field, problem));
    }
    Ok(text.into())
}

pub(crate) fn wire_duration(duration: Duration) -> WireDuration {
    WireDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

pub(crate) fn wire_time(at: Timestamp) -> WireTimestamp {
    let (seconds, micros) = (at.as_micros() / 1_000_000, at.as_micros() % 1_000_000);
    WireTimestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(micros * 1_000).unwrap_or(0),
    }
}
