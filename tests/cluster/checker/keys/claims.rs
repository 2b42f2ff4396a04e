//! Claims: their fences, their leases, and keys that block.

use std::collections::BTreeMap;

use super::{Answered, Asked, Broken, Call, Promise};
use crate::support::ask::Owner;

/// How much later than its client knows a lease may end.
const LATE_US: u64 = 100_000;

/// A claim that somebody was given.
#[derive(Debug)]
pub(super) struct Claim {
    /// `None`: nobody knows, since its reply was lost; an operator found it.
    pub(super) owner: Option<Owner>,
    /// When it was first answered, or seen.
    answered_us: u64,
    /// Until when its owner may rely on it, and from when on nobody can.
    until_us: u64,
    lapsed_us: u64,
    /// Its leases, from when its owner knew of them: in between, it may have lapsed for a while.
    leases_us: Vec<(u64, u64)>,
    /// When its owner began to complete, to release, and to doubt it.
    completing_us: u64,
    pub(super) releasing_us: u64,
    pub(super) doubting_us: u64,
    /// When an operator began to say that it was not done.
    pub(super) settling_us: u64,
    /// When it can have been granted at the earliest.
    pub(super) since_us: u64,
    /// Whether an answer said that it was granted just then.
    fresh: bool,
}

pub(super) type Claims = BTreeMap<u64, Claim>;

impl Claim {
    fn new(owner: Option<Owner>, since_us: u64) -> Self {
        Self {
            owner,
            answered_us: u64::MAX,
            until_us: 0,
            lapsed_us: 0,
            leases_us: Vec::new(),
            completing_us: u64::MAX,
            releasing_us: u64::MAX,
            doubting_us: u64::MAX,
            settling_us: u64::MAX,
            since_us,
            fresh: false,
        }
    }

    /// Until when it is surely held.
    fn live_until_us(&self) -> u64 {
        self.until_us.min(self.ending_us())
    }

    /// When its owner began to end it.
    fn ending_us(&self) -> u64 {
        self.completing_us.min(self.releasing_us).min(self.doubting_us)
    }

    /// Whether its lease ran during the whole of a call.
    fn was_live(&self, call: &Call) -> bool {
        let within = |(from_us, until_us): &(u64, u64)| {
            *from_us <= call.began_us && call.ended_us < self.ending_us().min(*until_us)
        };
        self.leases_us.iter().any(within)
    }

    fn extend(&mut self, call: &Call, lease_us: u64) {
        self.leases_us.push((call.ended_us, call.began_us + lease_us));
        self.until_us = self.until_us.max(call.began_us + lease_us);
        self.lapsed_us = self.lapsed_us.max(call.ended_us.saturating_add(lease_us + LATE_US));
    }

    /// Whether its lease was surely over when the call was made.
    pub(super) fn had_lapsed(&self, call: &Call) -> bool {
        self.owner.is_some() && self.lapsed_us < call.began_us
    }
}

pub(super) fn find(calls: &[Call], broken: &mut Vec<Broken>) -> Claims {
    let mut claims = Claims::new();
    for call in calls {
        let Asked::Claim { owner, .. } = call.asked else { continue };
        let Answered::Granted { fence, lease_us, resumed } = call.answered else { continue };
        let own =
            |call: &&Call| matches!(call.asked, Asked::Claim { owner: by, .. } if by == owner);
        let new = || Claim::new(Some(owner), first_begun(calls, own).unwrap_or(0));
        let claim = claims.entry(fence).or_insert_with(new);
        if claim.owner != Some(owner) {
            broken.push(Broken::new(Promise::OneFence, format!("two owners: {call:?}")));
        }
        if claim.fresh && !resumed {
            broken.push(Broken::new(Promise::OneFence, format!("granted twice: {call:?}")));
        }
        if !resumed {
            claim.fresh = true;
            claim.since_us = call.began_us;
        }
        claim.answered_us = claim.answered_us.min(call.ended_us);
        claim.extend(call, lease_us);
    }
    found_by_operators(calls, &mut claims, broken);
    for call in calls {
        follow(call, &mut claims);
    }
    claims
}

fn first_begun(calls: &[Call], meets: impl Fn(&&Call) -> bool) -> Option<u64> {
    calls.iter().filter(meets).map(|call| call.began_us).min()
}

/// An operator settles what a node listed: a claim with this fence was there.
fn found_by_operators(calls: &[Call], claims: &mut Claims, broken: &mut Vec<Broken>) {
    for call in calls {
        let Asked::Settle { fence, .. } = call.asked else { continue };
        if claims.contains_key(&fence) {
            continue;
        }
        let lost = |call: &&Call| {
            matches!(call.asked, Asked::Claim { .. }) && call.answered == Answered::Unknown
        };
        let since_us = first_begun(calls, lost).filter(|since_us| *since_us <= call.began_us);
        if since_us.is_none() {
            broken.push(Broken::new(Promise::OneFence, format!("of nobody: {call:?}")));
        }
        let mut claim = Claim::new(None, since_us.unwrap_or(0));
        claim.answered_us = call.began_us;
        claims.insert(fence, claim);
    }
}

/// Takes what a call did to a claim, or may have done.
fn follow(call: &Call, claims: &mut Claims) {
    let unknown = call.answered == Answered::Unknown;
    let (fence, began_us) = match &call.asked {
        Asked::Claim { owner, .. } if unknown => {
            // It may resume a claim at any time.
            let own = claims.values_mut().filter(|claim| claim.owner == Some(*owner));
            own.for_each(|claim| claim.lapsed_us = u64::MAX);
            return;
        }
        Asked::Renew { fence, .. }
        | Asked::Release { fence, .. }
        | Asked::Complete { fence, .. }
        | Asked::Doubt { fence, .. }
        | Asked::Settle { fence, .. } => (fence, call.began_us),
        Asked::Claim { .. } | Asked::Replay | Asked::Forget => return,
    };
    let Some(claim) = claims.get_mut(fence) else { return };
    match &call.asked {
        Asked::Renew { .. } if unknown => claim.lapsed_us = u64::MAX,
        Asked::Renew { lease_us, .. } if call.answered == (Answered::Accepted { late: false }) => {
            claim.extend(call, *lease_us);
        }
        Asked::Release { .. } => claim.releasing_us = claim.releasing_us.min(began_us),
        Asked::Complete { .. } => claim.completing_us = claim.completing_us.min(began_us),
        Asked::Doubt { .. } => claim.doubting_us = claim.doubting_us.min(began_us),
        Asked::Settle { found: None, .. } => claim.settling_us = claim.settling_us.min(began_us),
        _ => {}
    }
}

pub(super) fn judge(calls: &[Call], claims: &Claims, broken: &mut Vec<Broken>) {
    for (fence, claim) in claims {
        for (later, other) in claims.range(fence + 1..) {
            if other.answered_us < claim.live_until_us() {
                let seen = format!("{later} {other:?} while {fence} {claim:?}");
                broken.push(Broken::new(Promise::OneLiveClaim, seen));
            }
        }
        for (earlier, other) in claims.range(..fence) {
            if claim.answered_us < other.since_us {
                let seen = format!("{earlier} {other:?} after {fence} {claim:?}");
                broken.push(Broken::new(Promise::OneFence, seen));
            }
        }
    }
    for call in calls {
        let unfounded = match (&call.asked, &call.answered) {
            (_, Answered::Fenced) => fenced_alive(call, claims),
            (Asked::Settle { fence, .. }, Answered::Accepted { .. }) => {
                claims.get(fence).is_some_and(|claim| call.ended_us < claim.live_until_us())
            }
            (Asked::Claim { .. }, Answered::Doubtful) => {
                claims.values().any(|claim| claim.was_live(call))
            }
            _ => false,
        };
        if unfounded {
            broken.push(Broken::new(Promise::LiveClaimHolds, format!("{call:?}: {claims:?}")));
        }
        if let (Asked::Settle { fence, .. }, Answered::Live) = (&call.asked, &call.answered)
            && claims.get(fence).is_some_and(|claim| claim.had_lapsed(call))
        {
            broken.push(Broken::new(Promise::Blocked, format!("not to be settled: {call:?}")));
        }
    }
    if super::blocks(calls) {
        blocked(calls, claims, broken);
    }
}

/// Whether an owner was fenced off while its claim was surely held.
fn fenced_alive(call: &Call, claims: &Claims) -> bool {
    let (fence, completes) = match &call.asked {
        Asked::Renew { fence, .. } | Asked::Release { fence, .. } => (fence, false),
        Asked::Complete { fence, .. } | Asked::Doubt { fence, .. } => (fence, true),
        _ => return false,
    };
    let Some(claim) = claims.get(fence) else { return false };
    let ended = claim.releasing_us < call.began_us
        || claim.doubting_us < call.began_us
        || (!completes && claim.completing_us < call.began_us);
    !ended && call.ended_us < claim.until_us
}

/// From one claim to the next somebody gave it back, or an operator said that it was not done.
fn blocked(calls: &[Call], claims: &Claims, broken: &mut Vec<Broken>) {
    for ((fence, _), (next, claim)) in claims.iter().zip(claims.iter().skip(1)) {
        let settled = calls.iter().any(|call| {
            let (Asked::Release { fence: ends, .. } | Asked::Settle { fence: ends, found: None }) =
                &call.asked
            else {
                return false;
            };
            (fence..next).contains(&ends) && call.began_us <= claim.answered_us
        });
        if !settled {
            let seen = format!("{next} was given after {fence}, which nobody settled: {claim:?}");
            broken.push(Broken::new(Promise::Blocked, seen));
        }
    }
}
