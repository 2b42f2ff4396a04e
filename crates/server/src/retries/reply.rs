//! Verdicts and records to wire replies.

use std::time::Duration;

use bytes::Bytes;
use semel_domain::budget::{FailMode, Incarnation, Record};
use semel_domain::downstream::Downstream;
use semel_domain::retry::Denial;
use semel_domain::time::Timestamp;
use semel_proto::v1;

use super::account::{Mode, State};
use super::acquire::Answer;
use super::lease::Lease;
use super::policy;
use crate::breakers::Gate;
use crate::wire::{wire_duration, wire_time};

/// The answer to a question.
pub(super) fn acquired(
    answer: &Answer,
    state: &mut State,
    gate: Gate,
    node: Incarnation,
    now: Timestamp,
) -> v1::AcquireRetryTokenResponse {
    let policy = std::sync::Arc::clone(&state.policy);
    let mut reply = v1::AcquireRetryTokenResponse {
        balance_milli: state.share.balance_milli(&policy, gate.admitted_per_mille, now),
        policy_version: state.policy_version.unwrap_or_default(),
        node: id(node),
        mode: mode(state.mode()).into(),
        repeated: answer.repeated,
        would_deny: answer.would_deny.map_or(0, |denial| verdict(denial).into()),
        deposits_counted: answer.deposits_counted,
        breaker_generation: gate.generation,
        ..Default::default()
    };
    match &answer.verdict {
        Ok(grant) => {
            reply.set_verdict(v1::RetryVerdict::Granted);
            reply.token = Bytes::copy_from_slice(&grant.token.0);
            reply.delay = Some(wire_duration(grant.delay));
            reply.use_within = Some(wire_duration(grant.use_within));
            reply.root_retries_left = grant.root_retries_left;
        }
        Err(denial) => {
            reply.set_verdict(verdict(*denial));
            let retry_after = match denial {
                Denial::BreakerOpen => gate.look_again,
                Denial::BudgetExhausted => more_in(state, now),
                _ => None,
            };
            reply.retry_after = retry_after.map(wire_duration);
        }
    }
    reply
}

/// The answer to a client that leases tokens. `short`: it wanted more.
pub(super) fn leased(
    lease: &Lease,
    short: bool,
    deposits_counted: bool,
    state: &State,
    node: Incarnation,
    now: Timestamp,
) -> v1::LeaseRetryTokensResponse {
    let retry_after = more_in(state, now).filter(|_| short);
    v1::LeaseRetryTokensResponse {
        lease: lease.id,
        granted: lease.tokens,
        expires_in: Some(wire_duration(lease.expires_at.since(now))),
        policy_version: state.policy_version.unwrap_or_default(),
        policy: Some(policy::reply(&state.policy)),
        node: id(node),
        mode: mode(state.mode()).into(),
        deposits_counted,
        retry_after: retry_after.map(wire_duration),
    }
}

const fn mode(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Normal => v1::Mode::Normal,
        Mode::Degraded(FailMode::LocalBounded) => v1::Mode::LocalBounded,
        Mode::Degraded(FailMode::Deny) => v1::Mode::Deny,
        Mode::Degraded(FailMode::Allow) => v1::Mode::Allow,
    }
}

/// When a spent budget may have more, if that is known.
fn more_in(state: &State, now: Timestamp) -> Option<Duration> {
    let left = state.share.dry_until().since(now);
    (!left.is_zero() && !state.store_away).then_some(left)
}

/// A denial on the wire.
pub(super) const fn verdict(denial: Denial) -> v1::RetryVerdict {
    match denial {
        Denial::NotRetryable => v1::RetryVerdict::NotRetryable,
        Denial::Unsafe => v1::RetryVerdict::Unsafe,
        Denial::NotThisLayer => v1::RetryVerdict::NotThisLayer,
        Denial::AttemptsExhausted => v1::RetryVerdict::AttemptsExhausted,
        Denial::RootExhausted => v1::RetryVerdict::RootExhausted,
        Denial::Deadline => v1::RetryVerdict::Deadline,
        Denial::BreakerOpen => v1::RetryVerdict::BreakerOpen,
        Denial::BudgetExhausted => v1::RetryVerdict::BudgetExhausted,
    }
}

/// A budget as the store has it.
pub(super) fn view(of: &Downstream, record: &Record) -> v1::BudgetView {
    let policy = record.policy();
    let members = record.members.iter().filter(|member| !member.slices.is_empty());
    let member = |member: &semel_domain::budget::Member| {
        let outstanding =
            member.slices.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.left_milli));
        let last = member.slices.iter().map(|slice| slice.expires_at).max();
        v1::BudgetMember {
            node: id(member.node),
            outstanding_milli: outstanding,
            expires_at: last.map(wire_time),
        }
    };
    v1::BudgetView {
        tenant: of.tenant.as_str().to_owned(),
        dependency: of.dependency.as_str().to_owned(),
        deposited_milli: record.ledger.deposited_milli(),
        floor_milli: policy.floor_milli(),
        spent_milli: record.ledger.spent_milli(),
        outstanding_milli: record.outstanding_milli(),
        available_milli: record.available_milli(&policy, 1_000),
        policy_version: record.policy_version(),
        members: members.map(member).collect(),
    }
}

/// A budget as this node has it.
pub(super) fn node_view(
    state: &mut State,
    gate: Gate,
    node: Incarnation,
    now: Timestamp,
) -> v1::NodeBudget {
    let policy = std::sync::Arc::clone(&state.policy);
    let denial = |(denial, count): (&Denial, &u64)| v1::DenialCount {
        verdict: verdict(*denial).into(),
        count: *count,
    };
    v1::NodeBudget {
        node: id(node),
        balance_milli: state.share.balance_milli(&policy, gate.admitted_per_mille, now),
        granted: state.tally.granted,
        requests: state.tally.requests,
        denials: state.tally.denied.iter().map(denial).collect(),
        mode: mode(state.mode()).into(),
    }
}

/// A node's name.
pub(super) fn id(node: Incarnation) -> Bytes {
    Bytes::copy_from_slice(&node.0)
}
