//! Wire requests to questions and reports. What is malformed is refused here, field by field, before
//! anything is counted or charged.

use std::time::Duration;

use bytes::Bytes;
use semel_domain::budget::Incarnation;
use semel_domain::downstream::Downstream;
use semel_domain::limits;
use semel_domain::retry::{AttemptKind, Failure, FailureKind};
use semel_proto::v1;

use super::policy::layer;
use crate::refusal::{Reason, Refusal};
use crate::wire::{
    COUNT_MAX, Parsed, choice, downstream, duration, incarnation, optional_incarnation, request_id,
};

/// The longest delay that a dependency may ask for.
const SERVER_DELAY_MAX: Duration = Duration::from_secs(3_600);

/// A question, checked.
pub(crate) struct Ask {
    pub(crate) downstream: Downstream,
    pub(crate) request_id: Bytes,
    pub(crate) kind: AttemptKind,
    pub(crate) repeatable: bool,
    pub(crate) attempt: u32,
    pub(crate) root: Option<RootAsk>,
    pub(crate) layer: String,
    pub(crate) remaining: Option<Duration>,
    pub(crate) expected_attempt_time: Duration,
    pub(crate) high: bool,
    pub(crate) deposits: Option<Report>,
    pub(crate) breaker_generation: u64,
}

/// What a question says of the call tree above.
pub(crate) struct RootAsk {
    pub(crate) id: Bytes,
    pub(crate) carried: Option<u32>,
}

/// First attempts that are reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) reporter: Incarnation,
    pub(crate) seq: u64,
    pub(crate) requests: u64,
    pub(crate) successes: u64,
    pub(crate) spent_milli: u64,
    /// The node that it was first sent to; `None`: this one.
    pub(crate) node: Option<Incarnation>,
}

pub(crate) fn ask(request: v1::AcquireRetryTokenRequest) -> Parsed<Ask> {
    request_id(Reason::RequestIdInvalid, "request_id", &request.request_id)?;
    if request.attempt == 0 {
        let problem = "count the attempts that the call has had, from 1";
        return Err(Refusal::field(Reason::AttemptInvalid, "attempt", problem));
    }
    layer(&request.layer)?;
    Ok(Ask {
        downstream: downstream(&request.tenant, &request.dependency)?,
        kind: attempt_kind(request.kind, request.failure)?,
        repeatable: request.repeatable,
        attempt: request.attempt,
        root: request.root.map(root).transpose()?,
        remaining: request.remaining.map(|given| duration("remaining", given)).transpose()?,
        expected_attempt_time: request
            .expected_attempt_time
            .map(|given| duration("expected_attempt_time", given))
            .transpose()?
            .unwrap_or_default(),
        high: choice::<v1::Criticality>("criticality", request.criticality)?
            == v1::Criticality::High,
        deposits: request.deposits.map(|given| report(&given)).transpose()?,
        breaker_generation: request.breaker_generation,
        request_id: request.request_id,
        layer: request.layer,
    })
}

fn attempt_kind(kind: i32, failure: Option<v1::Failure>) -> Parsed<AttemptKind> {
    match choice("kind", kind)? {
        v1::AttemptKind::Hedge => Ok(AttemptKind::Hedge),
        v1::AttemptKind::Unspecified | v1::AttemptKind::Retry => {
            let Some(given) = failure else {
                let problem = "say how the last attempt failed; only a hedge has none";
                return Err(Refusal::field(Reason::FailureInvalid, "failure", problem));
            };
            failed(given).map(AttemptKind::Retry)
        }
    }
}

fn failed(given: v1::Failure) -> Parsed<Failure> {
    let kind = match choice("failure.kind", given.kind)? {
        v1::FailureKind::NotSent => FailureKind::NotSent,
        v1::FailureKind::Throttled => FailureKind::Throttled,
        v1::FailureKind::UnknownOutcome => FailureKind::UnknownOutcome,
        v1::FailureKind::ServerError => FailureKind::ServerError,
        v1::FailureKind::Rejected => FailureKind::Rejected,
        v1::FailureKind::InProgress => FailureKind::InProgress,
        v1::FailureKind::Cancelled => FailureKind::Cancelled,
        v1::FailureKind::Unspecified => {
            let problem = "say what the failure looked like";
            return Err(Refusal::field(Reason::FailureInvalid, "failure.kind", problem));
        }
    };
    let field = "failure.server_delay";
    let server_delay = given.server_delay.map(|given| duration(field, given)).transpose()?;
    if server_delay.is_some_and(|delay| delay > SERVER_DELAY_MAX) {
        return Err(Refusal::field(Reason::FailureInvalid, field, "must be at most 1 h"));
    }
    Ok(Failure { kind, server_delay })
}

fn root(given: v1::RootRequest) -> Parsed<RootAsk> {
    request_id(Reason::RootInvalid, "root.id", &given.id)?;
    if given.attempt == 0 {
        let problem = "count the attempts of the root, from 1";
        return Err(Refusal::field(Reason::RootInvalid, "root.attempt", problem));
    }
    Ok(RootAsk { id: given.id, carried: given.retries })
}

/// Reads first attempts that are reported.
pub(crate) fn report(given: &v1::Deposits) -> Parsed<Report> {
    let count = |field: &str, count: u64| {
        if count > COUNT_MAX {
            let problem = format!("must be at most {COUNT_MAX}");
            return Err(Refusal::field(Reason::CountInvalid, field, problem));
        }
        Ok(count)
    };
    if given.seq == 0 {
        return Err(Refusal::field(Reason::CountInvalid, "deposits.seq", "count from 1"));
    }
    if given.successes > given.requests {
        let problem = "must not be more than the requests";
        return Err(Refusal::field(Reason::CountInvalid, "deposits.successes", problem));
    }
    Ok(Report {
        reporter: incarnation(Reason::ReporterInvalid, "deposits.reporter", &given.reporter)?,
        seq: given.seq,
        requests: count("deposits.requests", given.requests)?,
        successes: given.successes,
        spent_milli: count("deposits.spent_milli", given.spent_milli)?,
        node: optional_incarnation(Reason::NodeInvalid, "deposits.node", &given.node)?,
    })
}

/// A request for tokens that the client spends itself, checked.
pub(crate) struct LeaseAsk {
    pub(crate) downstream: Downstream,
    pub(crate) lessee: Incarnation,
    pub(crate) seq: u64,
    pub(crate) want: u32,
    /// The lease that comes back, and how many tokens of it.
    pub(crate) returned: Option<(u64, u32)>,
    pub(crate) deposits: Option<Report>,
}

pub(crate) fn lease(request: v1::LeaseRetryTokensRequest) -> Parsed<LeaseAsk> {
    if request.seq == 0 {
        return Err(Refusal::field(Reason::CountInvalid, "seq", "count from 1"));
    }
    if request.want > limits::LEASED_TOKENS_MAX {
        let problem = format!("must be at most {}", limits::LEASED_TOKENS_MAX);
        return Err(Refusal::field(Reason::CountInvalid, "want", problem));
    }
    Ok(LeaseAsk {
        downstream: downstream(&request.tenant, &request.dependency)?,
        lessee: incarnation(Reason::ReporterInvalid, "lessee", &request.lessee)?,
        seq: request.seq,
        want: request.want,
        returned: request.returned_lease.map(|lease| (lease, request.returned)),
        deposits: request.deposits.map(|given| report(&given)).transpose()?,
    })
}
