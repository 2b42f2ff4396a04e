//! The rule of a sync: a node settles what it spent, hands over what it does not need, and is granted a
//! slice. Debited here before the node may spend it, once for each number that the node gives its syncs.

use super::command::{Settled, Sync};
use super::ledger::{Amount, SLOT, slot_of, start_of};
use super::outcome::{Done, SyncOutcome};
use super::policy::{Policy, TOKEN_MILLI};
use super::record::{Granted, Member, Record, Slice, part};
use crate::limits::BUDGET_MEMBERS_MAX;
use crate::time::Timestamp;

/// Carries `sync` out on `record`, whose time has been let pass. Whether it changed.
pub(super) fn decide(
    record: &mut Record,
    sync: &Sync,
    policy: &Policy,
    now: Timestamp,
) -> (bool, SyncOutcome) {
    let known = record.members.iter().position(|member| member.node == sync.node);
    if let Some(member) = known.and_then(|at| record.members.get(at)) {
        if sync.seq < member.seq {
            return (false, SyncOutcome::Stale);
        }
        if sync.seq == member.seq {
            let granted = member.granted;
            let others_want = others_want(record, sync, policy);
            let done = Done { granted, more_at: None, others_want, repeated: true };
            return (false, SyncOutcome::Done(done));
        }
    }
    let nothing = Done { granted: None, more_at: None, others_want: false, repeated: false };
    if sync.deposits.is_empty() && sync.settled.is_empty() && sync.want_milli == 0 {
        // It only asks how things stand, and would ask again.
        let others_want = others_want(record, sync, policy);
        return (false, SyncOutcome::Done(Done { others_want, ..nothing }));
    }
    let Some(at) = known.or_else(|| join(record, sync, now)) else {
        // So many nodes share this budget that one more can't be followed: it gets nothing, and what it
        // hands over is lost.
        return (false, SyncOutcome::Done(nothing));
    };
    for amount in &sync.deposits {
        record.ledger.deposit(*amount);
    }
    for settled in &sync.settled {
        settle(record, at, settled, now);
    }
    if let Some(member) = record.members.get_mut(at) {
        member.seq = sync.seq;
        member.wants = sync.want_milli > 0;
        member.touched_at = now;
    }
    let granted = grant(record, at, sync, policy, now);
    let short = granted.map_or(0, |granted| granted.milli) < sync.want_milli;
    let more_at = record.ledger.first_spent().filter(|_| short);
    let more_at = more_at.map(|slot| start_of(slot.saturating_add(1)).after(policy.span()));
    let others_want = others_want(record, sync, policy);
    (true, SyncOutcome::Done(Done { granted, more_at, others_want, repeated: false }))
}

/// Whether other nodes want something while there is nothing to lease.
fn others_want(record: &Record, sync: &Sync, policy: &Policy) -> bool {
    let mut others = record.members.iter().filter(|member| member.node != sync.node);
    others.any(|member| member.wants) && record.available_milli(policy, 1_000) < TOKEN_MILLI
}

/// Where the new member stands, if there is room for one.
fn join(record: &mut Record, sync: &Sync, now: Timestamp) -> Option<usize> {
    if record.members.len() >= BUDGET_MEMBERS_MAX {
        return None;
    }
    record.members.push(Member {
        node: sync.node,
        seq: 0,
        granted: None,
        wants: false,
        slices: Vec::new(),
        touched_at: now,
    });
    Some(record.members.len() - 1)
}

/// Takes a slice's account over. A slice that has ended was counted as spent whole, then.
fn settle(record: &mut Record, at: usize, settled: &Settled, now: Timestamp) {
    let Some(slice) = record
        .members
        .get_mut(at)
        .and_then(|member| member.slices.iter_mut().find(|slice| slice.seq == settled.slice))
    else {
        return;
    };
    for spent in &settled.spent {
        let milli = spent.milli.min(slice.left_milli);
        slice.left_milli -= milli;
        let used_at =
            Timestamp::from_micros(now.as_micros().saturating_add_signed(spent.offset_us));
        record.ledger.spend(Amount { slot: slot_of(used_at), milli });
    }
    slice.left_milli = slice.left_milli.saturating_sub(settled.returned_milli);
}

fn grant(
    record: &mut Record,
    at: usize,
    sync: &Sync,
    policy: &Policy,
    now: Timestamp,
) -> Option<Granted> {
    let available = record.available_milli(policy, sync.admitted_per_mille);
    let reserve =
        part(record.limit_milli(policy, sync.admitted_per_mille), policy.reserve_per_mille);
    let unreserved = available.saturating_sub(reserve);
    let wanting = record.members.iter().filter(|member| member.wants).count().max(1);
    // With more members than tokens no share would buy anything: then the first to come gets one whole.
    let fair = |open: u64| {
        open.min((open / u64::try_from(wanting).unwrap_or(u64::MAX)).max(policy.costs.highest()))
    };
    let ordinary = sync.want_milli.min(fair(unreserved));
    // The reserve is opened only for what is of high criticality, and only if nothing else is there.
    let high_only = ordinary < sync.high_milli.min(policy.costs.highest());
    let milli = if high_only { sync.high_milli.min(fair(available)) } else { ordinary };
    let member = record.members.get_mut(at)?;
    member.slices.retain(|slice| slice.left_milli > 0);
    member.granted = (milli > 0).then(|| Granted {
        milli,
        high_only,
        granted_at: now,
        expires_at: now.after(policy.lease),
    });
    if let Some(granted) = member.granted {
        member.slices.push(Slice {
            seq: sync.seq,
            left_milli: granted.milli,
            expires_at: granted.expires_at,
        });
    }
    member.granted
}

/// Lets time pass on a record: what has left the window no longer counts, slices that ended without
/// coming back count as spent at their end, and members that were silent for long are forgotten.
pub(super) fn advance(record: &mut Record, policy: &Policy, now: Timestamp) {
    record.ledger.advance(now, policy.span());
    for member in &mut record.members {
        for slice in member.slices.iter_mut().filter(|slice| slice.expires_at <= now) {
            let milli = std::mem::take(&mut slice.left_milli);
            record.ledger.spend(Amount { slot: slot_of(slice.expires_at), milli });
        }
        member.slices.retain(|slice| slice.left_milli > 0);
        member.wants &=
            now.since(member.touched_at) < policy.lease.saturating_mul(2).max(WANT_KEPT);
    }
    // A late copy of a sync must still be recognised while the deposits that it brings would count.
    let silent = policy.span().saturating_add(policy.lease).saturating_add(SLOT);
    let silent = silent.max(MEMBER_KEPT);
    record
        .members
        .retain(|member| !member.slices.is_empty() || now.since(member.touched_at) < silent);
    record.ledger.advance(now, policy.span());
}

/// A want is remembered for at least this long: a node whose want was not met asks again sooner.
const WANT_KEPT: std::time::Duration = std::time::Duration::from_secs(2);
/// A member is remembered for at least this long after its last sync.
const MEMBER_KEPT: std::time::Duration = std::time::Duration::from_secs(30);
