//! Whether the history of one key keeps the promises of keys.
//!
//! # The model
//!
//! A key goes through *phases*, in an order that its fences name: nothing; then for each fence claimed and,
//! perhaps, given back; at last completed. Each answered call names the phases in which it can have happened.
//! From these follow, for each phase, the latest moment by which it must have begun (somebody saw it, or
//! what comes after it) and the earliest (nobody had asked for it yet, or somebody still saw what comes
//! before it). The calls are linearizable if no phase must begin before it can, and each call finds one of its
//! phases within its own interval. (For calls that name one phase or a row of them this is exact; for one
//! that names scattered phases it is necessary.)
//!
//! A claim whose reply was lost may have been granted with nobody knowing its fence. Such claims are no
//! phases; a call that may have met one is judged only where it can be.
//!
//! Leases are judged apart, since a lapsed claim can be taken over at any time: the owner counts its lease
//! from before it asked, so until then nobody else can have been given a claim.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Broken, Promise};
use crate::support::ask::Owner;

/// What was asked of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Claim { owner: Owner },
    Renew { owner: Owner, fence: u64, lease_us: u64 },
    Release { owner: Owner, fence: u64 },
    Complete { owner: Owner, fence: u64, body: Bytes },
    Replay,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Nothing, or nothing that tells.
    Unknown,
    /// The claim is the caller's.
    Granted {
        fence: u64,
        lease_us: u64,
        resumed: bool,
    },
    /// Somebody holds it; to a replay, lapsed or not.
    Held,
    /// It was given back; to a claim, by this very owner.
    GivenBack,
    /// It is completed so.
    Told {
        fence: u64,
        body: Bytes,
    },
    /// A renewal, release or completion was accepted. `late`: it changed nothing any more.
    Accepted {
        late: bool,
    },
    Fenced,
    Conflict,
    NoSuchKey,
    /// An error that nothing here explains.
    Refused(String),
}

/// One call on the key.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "the node is for whoever reads a history that is wrong")]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) asked: Asked,
    pub(crate) answered: Answered,
}

/// Everything that is wrong with the history of a key.
pub(crate) fn judge(calls: &[Call]) -> Vec<Broken> {
    let mut broken = Vec::new();
    let claims = claims(calls, &mut broken);
    let done = done(calls, &claims, &mut broken);
    leases(calls, &claims, &mut broken);
    Chain::new(calls, &claims, done.as_ref()).judge(&mut broken);
    broken
}

/// A claim that somebody was given.
#[derive(Debug)]
struct Claim {
    owner: Owner,
    /// When it was first answered.
    answered_us: u64,
    /// Until when its owner may rely on it.
    until_us: u64,
    /// When its owner began to complete, and to release.
    completing_us: u64,
    releasing_us: u64,
    /// When it can have been granted at the earliest.
    since_us: u64,
    /// Whether an answer said that it was granted just then.
    fresh: bool,
}

type Claims = BTreeMap<u64, Claim>;

fn claims(calls: &[Call], broken: &mut Vec<Broken>) -> Claims {
    let mut claims = Claims::new();
    for call in calls {
        let Asked::Claim { owner } = call.asked else { continue };
        let Answered::Granted { fence, lease_us, resumed } = call.answered else { continue };
        let claim = claims.entry(fence).or_insert_with(|| Claim {
            owner,
            answered_us: u64::MAX,
            until_us: 0,
            completing_us: u64::MAX,
            releasing_us: u64::MAX,
            since_us: first_asked(calls, owner),
            fresh: false,
        });
        if claim.owner != owner {
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
        claim.until_us = claim.until_us.max(call.began_us + lease_us);
    }
    for call in calls {
        let (fence, renewed_us) = match (&call.asked, &call.answered) {
            (Asked::Renew { fence, lease_us, .. }, Answered::Accepted { late: false }) => {
                (fence, call.began_us + lease_us)
            }
            (Asked::Release { fence, .. } | Asked::Complete { fence, .. }, _) => (fence, 0),
            _ => continue,
        };
        let Some(claim) = claims.get_mut(fence) else { continue };
        claim.until_us = claim.until_us.max(renewed_us);
        match call.asked {
            Asked::Release { .. } => claim.releasing_us = claim.releasing_us.min(call.began_us),
            Asked::Complete { .. } => claim.completing_us = claim.completing_us.min(call.began_us),
            _ => {}
        }
    }
    claims
}

fn first_asked(calls: &[Call], owner: Owner) -> u64 {
    let asked = calls.iter().filter(|call| call.asked == Asked::Claim { owner });
    asked.map(|call| call.began_us).min().unwrap_or(0)
}

/// The answer of the key, as the first who was told knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Done {
    fence: u64,
    body: Bytes,
}

fn done(calls: &[Call], claims: &Claims, broken: &mut Vec<Broken>) -> Option<Done> {
    let mut known: Option<(Done, &Call)> = None;
    for call in calls {
        let done = match (&call.asked, &call.answered) {
            (Asked::Complete { fence, body, .. }, Answered::Accepted { .. })
            | (_, Answered::Told { fence, body }) => Done { fence: *fence, body: body.clone() },
            _ => continue,
        };
        let sent = calls.iter().any(|other| {
            matches!(&other.asked, Asked::Complete { fence, body, .. }
                if (*fence, body) == (done.fence, &done.body))
        });
        if !sent {
            broken.push(Broken::new(Promise::AnswerSent, format!("nobody sent it: {call:?}")));
        }
        match &known {
            None => known = Some((done, call)),
            Some((before, first)) if *before != done => {
                let seen = format!("{call:?}, and before {first:?}");
                broken.push(Broken::new(Promise::CompletionKept, seen));
            }
            Some(_) => {}
        }
    }
    let (done, first) = known?;
    if let Some((fence, claim)) = claims.range(done.fence + 1..).next() {
        let seen = format!("fence {fence} was granted: {claim:?}; completed: {first:?}");
        broken.push(Broken::new(Promise::CompletionKept, seen));
    }
    Some(done)
}

fn leases(calls: &[Call], claims: &Claims, broken: &mut Vec<Broken>) {
    for (fence, claim) in claims {
        let live_until_us = claim.until_us.min(claim.completing_us).min(claim.releasing_us);
        for (later, other) in claims.range(fence + 1..) {
            if other.answered_us < live_until_us {
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
    for call in calls.iter().filter(|call| call.answered == Answered::Fenced) {
        let (fence, completes) = match &call.asked {
            Asked::Renew { fence, .. } | Asked::Release { fence, .. } => (fence, false),
            Asked::Complete { fence, .. } => (fence, true),
            _ => continue,
        };
        let Some(claim) = claims.get(fence) else { continue };
        let ended = claim.releasing_us < call.began_us
            || (!completes && claim.completing_us < call.began_us);
        if !ended && call.ended_us < claim.until_us {
            broken.push(Broken::new(Promise::LiveClaimHolds, format!("{call:?}: {claim:?}")));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Nothing,
    Claimed(u64),
    GivenBack(u64),
    Done,
}

/// The phases of the key, in order, and the calls that name them.
struct Chain<'a> {
    calls: &'a [Call],
    claims: &'a Claims,
    done: Option<&'a Done>,
    phases: Vec<Phase>,
    /// When each phase can begin at the earliest, by what its own calls say.
    asked_us: Vec<u64>,
    /// Whether it surely was: a release that nobody acknowledged may never have been.
    certain: Vec<bool>,
}

/// Where a call can have happened.
struct Places {
    phases: Vec<usize>,
    /// It may also have met a claim that nobody knows of.
    or_unknown: bool,
}

impl<'a> Chain<'a> {
    fn new(calls: &'a [Call], claims: &'a Claims, done: Option<&'a Done>) -> Self {
        let mut chain = Self {
            calls,
            claims,
            done,
            phases: vec![Phase::Nothing],
            asked_us: vec![0],
            certain: vec![true],
        };
        for (fence, claim) in claims {
            chain.push(Phase::Claimed(*fence), claim.since_us, true);
            if claim.releasing_us < u64::MAX {
                let certain = chain.was_given_back(*fence, claim.owner);
                chain.push(Phase::GivenBack(*fence), claim.releasing_us, certain);
            }
        }
        if let Some(done) = done {
            let sent = calls.iter().filter(|call| {
                matches!(&call.asked, Asked::Complete { fence, body, .. }
                    if (*fence, body) == (done.fence, &done.body))
            });
            let sent_us = sent.map(|call| call.began_us).min().unwrap_or(0);
            chain.push(Phase::Done, sent_us, true);
        }
        chain
    }

    fn push(&mut self, phase: Phase, asked_us: u64, certain: bool) {
        self.phases.push(phase);
        self.asked_us.push(asked_us);
        self.certain.push(certain);
    }

    fn was_given_back(&self, fence: u64, owner: Owner) -> bool {
        self.calls.iter().any(|call| match &call.asked {
            Asked::Release { fence: released, .. } => {
                *released == fence && matches!(call.answered, Answered::Accepted { .. })
            }
            Asked::Claim { owner: by } => *by == owner && call.answered == Answered::GivenBack,
            _ => false,
        })
    }

    fn judge(&self, broken: &mut Vec<Broken>) {
        let places: Vec<Option<Places>> =
            self.calls.iter().map(|call| self.places(call, broken)).collect();
        let end = self.phases.len();
        let mut latest_us = vec![u64::MAX; end + 1];
        let mut earliest_us = self.asked_us.clone();
        earliest_us.push(0);
        let mut floor_us = vec![0; end + 1];
        for (call, places) in self.calls.iter().zip(&places) {
            let Some(places) = places.as_ref().filter(|it| !it.or_unknown) else { continue };
            let (Some(low), Some(high)) = (places.phases.first(), places.phases.last()) else {
                let seen = format!("it can never have happened: {call:?}");
                broken.push(Broken::new(Promise::Linearizable, seen));
                continue;
            };
            latest_us[*low] = latest_us[*low].min(call.ended_us);
            floor_us[*high + 1] = floor_us[*high + 1].max(call.began_us);
        }
        for phase in (0..end).rev() {
            latest_us[phase] = latest_us[phase].min(latest_us[phase + 1]);
        }
        let mut since_us = 0;
        for phase in 0..end {
            since_us = since_us.max(floor_us[phase]);
            if self.certain[phase] {
                since_us = since_us.max(self.asked_us[phase]);
            }
            earliest_us[phase] = since_us.max(self.asked_us[phase]);
            if self.certain[phase] && earliest_us[phase] > latest_us[phase] {
                let seen = format!(
                    "{:?} can't begin before {} us and was seen, or what follows it, by {} us",
                    self.phases[phase], earliest_us[phase], latest_us[phase]
                );
                broken.push(Broken::new(Promise::Linearizable, seen));
            }
        }
        for (call, places) in self.calls.iter().zip(&places) {
            let Some(places) = places else { continue };
            let met = places.phases.iter().any(|phase| {
                earliest_us[*phase] <= call.ended_us && latest_us[*phase + 1] >= call.began_us
            });
            let over = self.done.is_some() && latest_us[end - 1] < call.began_us;
            let unexplained = !places.phases.is_empty() && !places.or_unknown
                || over && call.answered == Answered::Held;
            if !met && unexplained {
                let seen = format!("no moment of it fits: {call:?}");
                broken.push(Broken::new(Promise::Linearizable, seen));
            }
        }
    }

    /// Where an answered call can have happened; `None` if its answer says nothing of it.
    fn places(&self, call: &Call, broken: &mut Vec<Broken>) -> Option<Places> {
        let at = |meets: &dyn Fn(Phase) -> bool| -> Vec<usize> {
            (0..self.phases.len()).filter(|phase| meets(self.phases[*phase])).collect()
        };
        let done_with = |fence: u64| self.done.is_some_and(|done| done.fence == fence);
        let mut or_unknown = false;
        let phases = match (&call.asked, &call.answered) {
            (_, Answered::Unknown) => return None,
            (_, Answered::Refused(_)) => {
                broken.push(Broken::new(Promise::Expected, format!("{call:?}")));
                return None;
            }
            (_, Answered::Granted { fence, .. }) => at(&|phase| phase == Phase::Claimed(*fence)),
            (Asked::Claim { owner }, Answered::Held) => {
                or_unknown = self.unknown_claim(Some(*owner), call.ended_us);
                let other = |fence| self.claims.get(&fence).is_some_and(|it| it.owner != *owner);
                at(&|phase| matches!(phase, Phase::Claimed(fence) if other(fence)))
            }
            (_, Answered::Held) => {
                or_unknown = self.unknown_claim(None, call.ended_us);
                at(&|phase| matches!(phase, Phase::Claimed(_)))
            }
            (Asked::Claim { owner }, Answered::GivenBack) => {
                let own = |fence| self.claims.get(&fence).is_some_and(|it| it.owner == *owner);
                at(&|phase| matches!(phase, Phase::GivenBack(fence) if own(fence)))
            }
            (_, Answered::GivenBack) => at(&|phase| matches!(phase, Phase::GivenBack(_))),
            (_, Answered::Told { .. }) | (Asked::Complete { .. }, Answered::Accepted { .. }) => {
                at(&|phase| phase == Phase::Done)
            }
            (Asked::Complete { fence, body, .. }, Answered::Conflict) => {
                let other = |done: &Done| done.fence == *fence && done.body != *body;
                at(&|phase| phase == Phase::Done && self.done.is_some_and(other))
            }
            (Asked::Renew { fence, .. }, Answered::Accepted { .. }) => {
                at(&|phase| phase == Phase::Claimed(*fence))
            }
            (Asked::Release { fence, .. }, Answered::Accepted { .. }) => {
                if done_with(*fence) {
                    let seen = format!("released and completed: {call:?}");
                    broken.push(Broken::new(Promise::Linearizable, seen));
                }
                let given_back = self.position(Phase::GivenBack(*fence));
                (given_back.unwrap_or(self.phases.len())..self.phases.len()).collect()
            }
            (asked, Answered::Fenced) => {
                or_unknown = self.unknown_claim(None, call.ended_us);
                self.after_losing(asked)
            }
            (_, Answered::NoSuchKey) => at(&|phase| phase == Phase::Nothing),
            (_, Answered::Accepted { .. } | Answered::Conflict) => Vec::new(),
        };
        Some(Places { phases, or_unknown })
    }

    /// Where an owner is told that its fence is an old one.
    fn after_losing(&self, asked: &Asked) -> Vec<usize> {
        let (fence, own) = match asked {
            // Of its own ends these would have told otherwise.
            Asked::Complete { fence, .. } => (*fence, Some(Phase::Done)),
            Asked::Release { fence, .. } => (*fence, Some(Phase::GivenBack(*fence))),
            Asked::Renew { fence, .. } => (*fence, None),
            _ => return Vec::new(),
        };
        let Some(held) = self.position(Phase::Claimed(fence)) else { return Vec::new() };
        let own =
            own.filter(|own| *own != Phase::Done || self.done.is_some_and(|it| it.fence == fence));
        let phases = held + 1..self.phases.len();
        phases.filter(|phase| Some(self.phases[*phase]) != own).collect()
    }

    fn position(&self, phase: Phase) -> Option<usize> {
        self.phases.iter().position(|other| *other == phase)
    }

    /// Whether a claim of somebody (else) may have been granted by then without anybody knowing.
    fn unknown_claim(&self, but: Option<Owner>, by_us: u64) -> bool {
        self.calls.iter().any(|call| {
            let Asked::Claim { owner } = call.asked else { return false };
            Some(owner) != but && call.began_us <= by_us && call.answered == Answered::Unknown
        })
    }
}

#[cfg(test)]
#[path = "keys_planted.rs"]
mod planted;
