//! Outcomes to wire replies.

use std::time::Duration;

use bytes::Bytes;
use semel_domain::breaker::{
    Condition, Counts, Force, ForceKind, Grant, Policy, Record, SetPolicyOutcome, Snapshot,
};
use semel_domain::downstream::Downstream;
use semel_proto::v1;

use crate::refusal::{Reason, Refusal};
use crate::wire::{wire_duration, wire_time};

/// A breaker at one moment.
pub(super) fn breaker(of: &Downstream, snapshot: &Snapshot) -> v1::BreakerSnapshot {
    let stands = &snapshot.standing;
    v1::BreakerSnapshot {
        tenant: of.tenant.to_string(),
        dependency: of.dependency.to_string(),
        condition: condition(stands.condition).into(),
        generation: stands.generation,
        admitted_per_mille: stands.admitted_per_mille,
        look_again: stands.look_again.map(wire_duration),
        counts: Some(counts(snapshot.counts)),
        reporters: u32::try_from(snapshot.reporters).unwrap_or(u32::MAX),
        r#override: snapshot.force.as_ref().map(force),
        since: stands.since.map(wire_time),
        policy_version: snapshot.policy_version,
        probe_due: stands.probe_due,
    }
}

/// A breaker whose record this node can't read: its names, so that an operator sees that it is there.
pub(super) fn unreadable(of: &Downstream) -> v1::BreakerSnapshot {
    v1::BreakerSnapshot {
        tenant: of.tenant.to_string(),
        dependency: of.dependency.to_string(),
        ..Default::default()
    }
}

pub(super) fn permit(grant: &Grant) -> v1::ProbePermit {
    v1::ProbePermit {
        id: Bytes::copy_from_slice(&grant.permit),
        expires_in: Some(wire_duration(grant.expires_in)),
        generation: grant.generation,
    }
}

pub(super) fn set_policy(
    outcome: SetPolicyOutcome,
) -> Result<v1::SetBreakerPolicyResponse, Refusal> {
    match outcome {
        SetPolicyOutcome::Already { version } | SetPolicyOutcome::Set { version } => {
            Ok(v1::SetBreakerPolicyResponse { version })
        }
        SetPolicyOutcome::Conflict { version } => Err(Refusal::new(
            Reason::PolicyConflict,
            "another version is in force than the one that was to be replaced: look at it first",
        )
        .with("current_version", version.to_string())),
    }
}

/// The policy of a breaker, complete.
pub(super) fn policy(record: Option<&Record>) -> v1::GetBreakerPolicyResponse {
    let set = record.and_then(|record| record.policy.as_ref());
    let policy = set.map_or_else(Policy::default, |set| set.policy);
    v1::GetBreakerPolicyResponse {
        policy: Some(wire_policy(&policy)),
        version: set.map_or(0, |set| set.version),
        actor: set.map_or_else(String::new, |set| set.actor.to_string()),
        set_at: set.map(|set| wire_time(set.set_at)),
    }
}

fn wire_policy(policy: &Policy) -> v1::BreakerPolicy {
    let duration = |duration: Duration| Some(wire_duration(duration));
    v1::BreakerPolicy {
        failure_per_mille: policy.failure_per_mille,
        window: duration(policy.window),
        calls_min: policy.calls_min,
        cool_down: duration(policy.cool_down),
        cool_down_max: duration(policy.cool_down_max),
        probes_max: policy.probes_max,
        successes_to_close: policy.successes_to_close,
        probe_lease: duration(policy.probe_lease),
        ramp_step: duration(policy.ramp_step),
        slow_call: policy.slow_call.map(wire_duration),
        slow_per_mille: policy.slow_per_mille,
    }
}

fn condition(condition: Condition) -> v1::BreakerCondition {
    match condition {
        Condition::Closed => v1::BreakerCondition::Closed,
        Condition::Open => v1::BreakerCondition::Open,
        Condition::HalfOpen => v1::BreakerCondition::HalfOpen,
    }
}

fn counts(counts: Counts) -> v1::OutcomeCounts {
    let Counts { succeeded, failed, slow, ignored } = counts;
    v1::OutcomeCounts { succeeded, failed, slow, ignored }
}

fn force(force: &Force) -> v1::OverrideView {
    let kind = match force.kind {
        ForceKind::Open => v1::BreakerOverride::ForcedOpen,
        ForceKind::Closed => v1::BreakerOverride::ForcedClosed,
        ForceKind::MetricsOnly => v1::BreakerOverride::MetricsOnly,
    };
    v1::OverrideView {
        kind: kind.into(),
        actor: force.actor.to_string(),
        reason: force.reason.to_string(),
        since: Some(wire_time(force.since)),
        expires_at: force.expires_at.map(wire_time),
    }
}
