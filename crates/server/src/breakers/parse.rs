//! Wire requests to commands. What is malformed is refused here, field by field, before anything is
//! read or counted; what is absent takes its default here, and only here.

use std::time::Duration;

use prost_types::Duration as WireDuration;
use semel_domain::breaker::{
    Condition, Counts, ForceKind, Override, Policy, ProbeResult, ReporterId, SetPolicy,
};
use semel_domain::downstream::Downstream;
use semel_domain::limits;
use semel_domain::name::Tenant;
use semel_proto::v1;

use crate::refusal::{Reason, Refusal};
use crate::wire::{self, COUNT_MAX, Parsed};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A report, checked.
pub(super) struct Report {
    pub(super) tenant: Tenant,
    pub(super) reporter: ReporterId,
    pub(super) seq: u64,
    /// The node that it was first sent to, if that is said.
    pub(super) node: Option<[u8; 16]>,
    pub(super) outcomes: Vec<Reported>,
}

/// What became of calls to one dependency.
pub(super) struct Reported {
    pub(super) of: Downstream,
    pub(super) generation: u64,
    pub(super) counts: Counts,
    pub(super) probes: Vec<([u8; 16], ProbeResult)>,
}

pub(super) fn report(request: &v1::ReportOutcomesRequest) -> Parsed<Report> {
    let tenant = wire::tenant(&request.tenant)?;
    let reporter = id(Reason::ReporterInvalid, "reporter", &request.reporter)?;
    if request.seq == 0 {
        return Err(Refusal::field(Reason::CountInvalid, "seq", "count from 1"));
    }
    let node = optional_id(Reason::NodeInvalid, "node", &request.node)?;
    wire::check_batch("outcomes", request.outcomes.len(), limits::BATCH_MAX)?;
    let one = |(position, outcome): (usize, &v1::OutcomeReport)| {
        reported(&tenant, outcome).map_err(|refusal| refusal.in_item("outcomes", position))
    };
    let outcomes = request.outcomes.iter().enumerate().map(one).collect::<Parsed<_>>()?;
    Ok(Report { tenant, reporter: ReporterId(reporter), seq: request.seq, node, outcomes })
}

fn reported(tenant: &Tenant, outcome: &v1::OutcomeReport) -> Parsed<Reported> {
    let dependency = wire::dependency(&outcome.dependency)?;
    let count = outcome.probes.len();
    if count > limits::PROBES_REPORTED_MAX {
        let problem = format!("must be at most {}, not {count}", limits::PROBES_REPORTED_MAX);
        return Err(Refusal::field(Reason::BatchInvalid, "probes", problem));
    }
    Ok(Reported {
        of: Downstream { tenant: tenant.clone(), dependency },
        generation: outcome.generation,
        counts: counts(outcome.counts.unwrap_or_default())?,
        probes: outcome.probes.iter().map(probe).collect::<Parsed<_>>()?,
    })
}

fn counts(given: v1::OutcomeCounts) -> Parsed<Counts> {
    let v1::OutcomeCounts { succeeded, failed, slow, ignored } = given;
    let counts = Counts { succeeded, failed, slow, ignored };
    if counts.calls().saturating_add(ignored) > COUNT_MAX {
        let problem = format!("must be at most {COUNT_MAX} calls: report more often");
        return Err(Refusal::field(Reason::CountInvalid, "counts", problem));
    }
    if slow > counts.calls() {
        let problem = "of those that succeeded or failed only so many can have been slow";
        return Err(Refusal::field(Reason::CountInvalid, "counts.slow", problem));
    }
    Ok(counts)
}

fn probe(given: &v1::ProbeResult) -> Parsed<([u8; 16], ProbeResult)> {
    let permit = id(Reason::PermitInvalid, "probes.permit", &given.permit)?;
    let result = match wire::choice("probes.outcome", given.outcome)? {
        v1::ProbeOutcome::Succeeded => ProbeResult::Succeeded,
        v1::ProbeOutcome::Failed => ProbeResult::Failed,
        v1::ProbeOutcome::Inconclusive => ProbeResult::Inconclusive,
        v1::ProbeOutcome::Unspecified => {
            let problem = "say what became of it: SUCCEEDED, FAILED or INCONCLUSIVE";
            return Err(Refusal::field(Reason::OutcomeInvalid, "probes.outcome", problem));
        }
    };
    Ok((permit, result))
}

/// Who asks, if that is said, and the question that a permit would answer, if one is wanted.
pub(super) fn asker(
    request: &v1::BreakerStateRequest,
) -> Parsed<(Option<ReporterId>, Option<[u8; 16]>)> {
    let reporter = optional_id(Reason::ReporterInvalid, "reporter", &request.reporter)?;
    let question = if request.want_probe {
        Some(id(Reason::PermitInvalid, "probe_id", &request.probe_id)?)
    } else {
        None
    };
    Ok((reporter.map(ReporterId), question))
}

/// The breakers that are to be watched.
pub(super) fn watched(request: &v1::WatchBreakersRequest) -> Parsed<Vec<Downstream>> {
    let tenant = wire::tenant(&request.tenant)?;
    wire::check_batch("dependencies", request.dependencies.len(), limits::WATCHED_MAX)?;
    let one = |text: &String| {
        let dependency =
            wire::dependency(text).map_err(|refusal| refusal.renamed("dependencies"))?;
        Ok(Downstream { tenant: tenant.clone(), dependency })
    };
    let mut watched = request.dependencies.iter().map(one).collect::<Parsed<Vec<_>>>()?;
    watched.sort();
    watched.dedup();
    Ok(watched)
}

pub(super) fn force(request: &v1::OverrideBreakerRequest, id: [u8; 16]) -> Parsed<Override> {
    use v1::BreakerOverride as Wire;
    let refuse = |field, problem| Err(Refusal::field(Reason::OverrideInvalid, field, problem));
    let kind = match wire::choice("override", request.r#override)? {
        Wire::ForcedOpen => Some(ForceKind::Open),
        Wire::ForcedClosed => Some(ForceKind::Closed),
        Wire::MetricsOnly => Some(ForceKind::MetricsOnly),
        Wire::Reset => None,
        Wire::Unspecified => {
            let problem = "say what to force: FORCED_OPEN, FORCED_CLOSED, METRICS_ONLY or RESET";
            return refuse("override", problem);
        }
    };
    let expires_in = request.expires_in.map(|given| wire::duration("expires_in", given));
    let expires_in = expires_in.transpose()?;
    if kind.is_none() && expires_in.is_some() {
        return refuse("expires_in", "RESET is done at once: leave it out");
    }
    let allowed = Duration::from_secs(1)..=30 * DAY;
    if expires_in.is_some_and(|left| !allowed.contains(&left)) {
        let problem = "must be 1 s to 30 d; leave it out to force it until it is taken away";
        return Err(Refusal::field(Reason::DurationInvalid, "expires_in", problem));
    }
    let (actor, reason) = wire::audit(&request.actor, &request.reason)?;
    Ok(Override { id, kind, expires_in, actor, reason })
}

pub(super) fn set_policy(request: &v1::SetBreakerPolicyRequest) -> Parsed<SetPolicy> {
    let Some(given) = &request.policy else {
        return Err(Refusal::field(Reason::PolicyInvalid, "policy", "say which is to be in force"));
    };
    let actor = wire::actor(&request.actor)?;
    Ok(SetPolicy { policy: policy(given)?, expected_version: request.expected_version, actor })
}

fn policy(given: &v1::BreakerPolicy) -> Parsed<Policy> {
    let default = Policy::default();
    let (tenth, second) = (Duration::from_millis(100), Duration::from_secs(1));
    let cool_down =
        wire::within("policy.cool_down", given.cool_down, default.cool_down, (tenth, HOUR))?;
    let longest = default.cool_down_max.max(cool_down);
    let slow_call = given.slow_call.filter(|slow| *slow != WireDuration::default()).map(|slow| {
        let bounds = (Duration::from_millis(1), HOUR);
        wire::within("policy.slow_call", Some(slow), Duration::ZERO, bounds)
    });
    let count = |field, given, default, most| {
        let given = wire::at_most(field, given, most)?;
        Ok(if given == 0 { default } else { given })
    };
    Ok(Policy {
        failure_per_mille: count(
            "policy.failure_per_mille",
            given.failure_per_mille,
            default.failure_per_mille,
            1_000,
        )?,
        window: wire::within(
            "policy.window",
            given.window,
            default.window,
            (second, 600 * second),
        )?,
        calls_min: count("policy.calls_min", given.calls_min, default.calls_min, 1_000_000)?,
        cool_down,
        cool_down_max: wire::within(
            "policy.cool_down_max",
            given.cool_down_max,
            longest,
            (cool_down, DAY),
        )?,
        probes_max: count(
            "policy.probes_max",
            given.probes_max,
            default.probes_max,
            limits::BREAKER_PROBES_MAX,
        )?,
        successes_to_close: count(
            "policy.successes_to_close",
            given.successes_to_close,
            default.successes_to_close,
            limits::BREAKER_SUCCESSES_MAX,
        )?,
        probe_lease: wire::within(
            "policy.probe_lease",
            given.probe_lease,
            default.probe_lease,
            (tenth, HOUR),
        )?,
        ramp_step: ramp_step(given, default.ramp_step)?,
        slow_call: slow_call.transpose()?,
        slow_per_mille: count(
            "policy.slow_per_mille",
            given.slow_per_mille,
            default.slow_per_mille,
            1_000,
        )?,
    })
}

/// Absent is not zero here: zero is no ramp.
fn ramp_step(given: &v1::BreakerPolicy, default: Duration) -> Parsed<Duration> {
    let Some(given) = given.ramp_step else { return Ok(default) };
    let step = wire::duration("policy.ramp_step", given)?;
    if step > Duration::from_secs(600) {
        let problem = "must be at most 10 min; 0: no ramp";
        return Err(Refusal::field(Reason::PolicyInvalid, "policy.ramp_step", problem));
    }
    Ok(step)
}

/// A condition as a filter: unspecified means any.
pub(super) fn condition_filter(condition: i32) -> Parsed<Option<Condition>> {
    use v1::BreakerCondition as Wire;
    Ok(match wire::choice("condition", condition)? {
        Wire::Unspecified => None,
        Wire::Closed => Some(Condition::Closed),
        Wire::Open => Some(Condition::Open),
        Wire::HalfOpen => Some(Condition::HalfOpen),
    })
}

fn id(reason: Reason, field: &str, bytes: &[u8]) -> Parsed<[u8; 16]> {
    wire::incarnation(reason, field, bytes).map(|incarnation| incarnation.0)
}

fn optional_id(reason: Reason, field: &str, bytes: &[u8]) -> Parsed<Option<[u8; 16]>> {
    let incarnation = wire::optional_incarnation(reason, field, bytes)?;
    Ok(incarnation.map(|incarnation| incarnation.0))
}
