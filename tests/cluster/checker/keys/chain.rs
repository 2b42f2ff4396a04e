//! The phases of a key, in order, and whether its calls fit into them.

use std::collections::BTreeMap;

use super::answers::{Done, Erased};
use super::claims::Claims;
use super::places::Places;
use super::{Answered, Asked, Broken, Call, Promise};
use crate::support::ask::Owner;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Nothing,
    Claimed(u64),
    Doubtful(u64),
    GivenBack(u64),
    Done,
    Erased,
}

/// The phases of the key, in order, and the calls that name them.
pub(super) struct Chain<'a> {
    pub(super) calls: &'a [Call],
    pub(super) claims: &'a Claims,
    pub(super) done: Option<&'a Done>,
    pub(super) blocks: bool,
    pub(super) phases: Vec<Phase>,
    /// When each phase can begin at the earliest, by what its own calls say.
    asked_us: Vec<u64>,
    /// Whether it surely was: a release that nobody acknowledged may never have been.
    certain: Vec<bool>,
    /// For each fence, from when until when it surely was the newest.
    current_us: BTreeMap<u64, (u64, u64)>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        calls: &'a [Call],
        claims: &'a Claims,
        done: Option<&'a Done>,
        erased: Option<&Erased>,
    ) -> Self {
        let mut chain = Self {
            calls,
            claims,
            done,
            blocks: super::blocks(calls),
            phases: vec![Phase::Nothing],
            asked_us: vec![0],
            certain: vec![true],
            current_us: current(calls, done),
        };
        for (fence, claim) in claims {
            chain.push(Phase::Claimed(*fence), claim.since_us, true);
            if claim.doubting_us < u64::MAX {
                let certain = chain.was_doubted(*fence);
                chain.push(Phase::Doubtful(*fence), claim.doubting_us, certain);
            }
            let ending_us = claim.releasing_us.min(claim.settling_us);
            if ending_us < u64::MAX {
                let certain = chain.was_given_back(*fence, claim.owner);
                chain.push(Phase::GivenBack(*fence), ending_us, certain);
            }
        }
        if let Some(done) = done {
            let sent = calls.iter().filter(|call| done.is_sent_by(call));
            let sent_us = sent.map(|call| call.began_us).min().unwrap_or(0);
            chain.push(Phase::Done, sent_us, true);
        }
        if let Some(erased) = erased {
            chain.push(Phase::Erased, erased.asked_us, erased.by_us.is_some());
        }
        chain
    }

    fn push(&mut self, phase: Phase, asked_us: u64, certain: bool) {
        self.phases.push(phase);
        self.asked_us.push(asked_us);
        self.certain.push(certain);
    }

    fn was_doubted(&self, fence: u64) -> bool {
        let doubts = |call: &&Call| matches!(call.asked, Asked::Doubt { fence: doubted, .. } if doubted == fence);
        let accepted = |call: &Call| matches!(call.answered, Answered::Accepted { .. });
        self.calls.iter().filter(doubts).any(accepted)
    }

    fn was_given_back(&self, fence: u64, owner: Option<Owner>) -> bool {
        self.calls.iter().any(|call| match &call.asked {
            Asked::Release { fence: ended, .. } | Asked::Settle { fence: ended, found: None } => {
                *ended == fence && matches!(call.answered, Answered::Accepted { .. })
            }
            Asked::Claim { owner: by, .. } => {
                Some(*by) == owner && call.answered == Answered::GivenBack
            }
            _ => false,
        })
    }

    pub(super) fn position(&self, phase: Phase) -> Option<usize> {
        self.phases.iter().position(|other| *other == phase)
    }

    /// Whether a call may have met a claim of somebody (else) that was granted without anybody knowing.
    pub(super) fn may_meet_unknown(&self, call: &Call, but: Option<Owner>) -> bool {
        let lost = self.calls.iter().any(|other| {
            let Asked::Claim { owner, .. } = other.asked else { return false };
            let in_time = other.began_us <= call.ended_us;
            Some(owner) != but && in_time && other.answered == Answered::Unknown
        });
        let mut current = self.current_us.values();
        lost && !current.any(|(from, until)| *from <= call.began_us && call.ended_us <= *until)
    }

    pub(super) fn judge(&self, broken: &mut Vec<Broken>) {
        let places: Vec<Option<Places>> =
            self.calls.iter().map(|call| self.places(call, broken)).collect();
        let end = self.phases.len();
        let mut latest_us = vec![u64::MAX; end + 1];
        let mut floor_us = vec![0; end + 1];
        for (call, places) in self.calls.iter().zip(&places) {
            let Some(places) = places else { continue };
            if places.or_unknown {
                // Whatever it met was not completed.
                let over = self.phases.iter().position(|it| *it == Phase::Done);
                let over = over.or_else(|| self.position(Phase::Erased)).unwrap_or(end);
                if call.answered != Answered::Fenced {
                    floor_us[over] = floor_us[over].max(call.began_us);
                }
                continue;
            }
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
        let earliest_us = self.earliest(&floor_us, &latest_us, broken);
        for (call, places) in self.calls.iter().zip(&places) {
            let Some(places) = places.as_ref().filter(|it| !it.or_unknown) else { continue };
            let met = places.phases.iter().any(|phase| {
                earliest_us[*phase] <= call.ended_us && latest_us[*phase + 1] >= call.began_us
            });
            if !met && !places.phases.is_empty() {
                let seen = format!("no moment of it fits: {call:?}");
                broken.push(Broken::new(Promise::Linearizable, seen));
            }
        }
    }

    /// When each phase can begin at the earliest, which must not be after it surely had begun.
    fn earliest(&self, floor_us: &[u64], latest_us: &[u64], broken: &mut Vec<Broken>) -> Vec<u64> {
        let mut since_us = 0;
        let mut earliest_us = Vec::new();
        for (phase, certain) in self.certain.iter().enumerate() {
            since_us = since_us.max(floor_us[phase]);
            if *certain {
                since_us = since_us.max(self.asked_us[phase]);
            }
            let at_us = since_us.max(self.asked_us[phase]);
            if *certain && at_us > latest_us[phase] {
                let seen = format!(
                    "{:?} can't begin before {at_us} us and was seen, or what follows it, by {} us",
                    self.phases[phase], latest_us[phase]
                );
                broken.push(Broken::new(Promise::Linearizable, seen));
            }
            earliest_us.push(at_us);
        }
        earliest_us
    }
}

/// Between two moments at which a fence was the newest there was no other.
fn current(calls: &[Call], done: Option<&Done>) -> BTreeMap<u64, (u64, u64)> {
    let mut current: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for call in calls {
        let fence = match (&call.asked, &call.answered) {
            (_, Answered::Granted { fence, .. })
            | (Asked::Settle { fence, .. }, Answered::Live)
            | (
                Asked::Renew { fence, .. } | Asked::Doubt { fence, .. },
                Answered::Accepted { .. },
            ) => *fence,
            _ => continue,
        };
        let span = current.entry(fence).or_insert((u64::MAX, 0));
        *span = (span.0.min(call.ended_us), span.1.max(call.began_us));
    }
    if let Some(span) = done.and_then(|done| current.get_mut(&done.fence)) {
        span.1 = u64::MAX;
    }
    current
}
