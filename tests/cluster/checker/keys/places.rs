//! In which phases of its key a call can have happened, by its answer.

use super::chain::{Chain, Phase};
use super::{Answered, Asked, Broken, Call, Promise};

/// Where a call can have happened.
pub(super) struct Places {
    pub(super) phases: Vec<usize>,
    /// It may also have met a claim that nobody knows of.
    pub(super) or_unknown: bool,
}

impl Chain<'_> {
    /// Where an answered call can have happened; `None` if its answer says nothing of it.
    pub(super) fn places(&self, call: &Call, broken: &mut Vec<Broken>) -> Option<Places> {
        let known = |phases: Vec<usize>| Some(Places { phases, or_unknown: false });
        match (&call.asked, &call.answered) {
            (_, Answered::Unknown) => None,
            (_, Answered::Refused(_)) => {
                broken.push(Broken::new(Promise::Expected, format!("{call:?}")));
                None
            }
            (_, Answered::NoSuchKey) => known(self.at(|phase| phase == Phase::Nothing)),
            (_, Answered::Erased) => known(self.at(|phase| phase == Phase::Erased)),
            // For a while a node may go on telling what was erased, which is judged apart.
            (_, Answered::Told { .. }) => {
                known(self.at(|phase| matches!(phase, Phase::Done | Phase::Erased)))
            }
            (_, Answered::Granted { fence, .. }) => {
                known(self.at(|phase| phase == Phase::Claimed(*fence)))
            }
            (Asked::Settle { fence, .. }, Answered::Live) => {
                known(self.at(|phase| phase == Phase::Claimed(*fence)))
            }
            (Asked::Claim { .. } | Asked::Replay, answered) => {
                Some(self.of_question(call, answered))
            }
            (_, Answered::Conflict) => known(self.of_conflict(&call.asked)),
            (asked, Answered::Fenced) => {
                let or_unknown = self.may_meet_unknown(call, None);
                Some(Places { phases: self.after_losing(asked), or_unknown })
            }
            (Asked::Forget, Answered::NotCompleted) => {
                let or_unknown = self.may_meet_unknown(call, None);
                let before = |phase| !matches!(phase, Phase::Nothing | Phase::Done | Phase::Erased);
                Some(Places { phases: self.at(before), or_unknown })
            }
            (asked, Answered::Accepted { .. }) => known(self.of_accepted(call, asked, broken)),
            _ => known(Vec::new()),
        }
    }

    fn at(&self, meets: impl Fn(Phase) -> bool) -> Vec<usize> {
        (0..self.phases.len()).filter(|phase| meets(self.phases[*phase])).collect()
    }

    /// A claim or a replay that was told where the key stands.
    fn of_question(&self, call: &Call, answered: &Answered) -> Places {
        let by = match call.asked {
            Asked::Claim { owner, .. } => Some(owner),
            _ => None,
        };
        let of_other = |fence| by.is_none() || self.claims[&fence].owner != by;
        // Of a key that blocks, a claim is told that the lease is over.
        let told_lapsed = by.is_some() && self.blocks;
        let phases = match answered {
            Answered::Held => self.at(|phase| {
                let Phase::Claimed(fence) = phase else { return false };
                of_other(fence) && !(told_lapsed && self.claims[&fence].had_lapsed(call))
            }),
            Answered::Doubtful => self.at(|phase| match phase {
                Phase::Doubtful(_) => true,
                Phase::Claimed(fence) => told_lapsed && of_other(fence),
                _ => false,
            }),
            Answered::GivenBack => self.at(|phase| {
                let Phase::GivenBack(fence) = phase else { return false };
                let owner = self.claims[&fence].owner;
                by.is_none() || owner.is_none() || owner == by
            }),
            _ => Vec::new(),
        };
        // Nobody can have doubted or given back what nobody knew of.
        let unknown = *answered == Answered::Held || *answered == Answered::Doubtful && told_lapsed;
        Places { phases, or_unknown: unknown && self.may_meet_unknown(call, by) }
    }

    fn of_conflict(&self, asked: &Asked) -> Vec<usize> {
        let Some(done) = self.done else { return Vec::new() };
        let conflicts = match asked {
            Asked::Complete { fence, body, .. } | Asked::Settle { fence, found: Some(body) } => {
                *fence == done.fence && *body != done.body
            }
            Asked::Doubt { fence, .. } | Asked::Settle { fence, found: None } => {
                *fence == done.fence
            }
            _ => false,
        };
        self.at(|phase| conflicts && phase == Phase::Done)
    }

    fn of_accepted(&self, call: &Call, asked: &Asked, broken: &mut Vec<Broken>) -> Vec<usize> {
        match asked {
            Asked::Complete { .. } | Asked::Settle { found: Some(_), .. } => {
                self.at(|phase| phase == Phase::Done)
            }
            Asked::Doubt { fence, .. } => self.at(|phase| phase == Phase::Doubtful(*fence)),
            Asked::Renew { fence, .. } => self.at(|phase| phase == Phase::Claimed(*fence)),
            Asked::Release { fence, .. } | Asked::Settle { fence, found: None } => {
                if self.done.is_some_and(|done| done.fence == *fence) {
                    let seen = format!("given back and completed: {call:?}");
                    broken.push(Broken::new(Promise::Linearizable, seen));
                }
                // It is answered so ever after.
                let given_back = self.position(Phase::GivenBack(*fence));
                (given_back.unwrap_or(self.phases.len())..self.phases.len()).collect()
            }
            Asked::Forget => self.at(|phase| phase == Phase::Erased),
            Asked::Claim { .. } | Asked::Replay => Vec::new(),
        }
    }

    /// Where somebody is told that its fence is an old one.
    fn after_losing(&self, asked: &Asked) -> Vec<usize> {
        let fence = match asked {
            Asked::Renew { fence, .. }
            | Asked::Release { fence, .. }
            | Asked::Complete { fence, .. }
            | Asked::Doubt { fence, .. }
            | Asked::Settle { fence, .. } => *fence,
            _ => return Vec::new(),
        };
        let Some(held) = self.position(Phase::Claimed(fence)) else { return Vec::new() };
        let settled = self.claims[&fence].settling_us < u64::MAX;
        let released = self.claims[&fence].releasing_us < u64::MAX;
        let done_so = self.done.is_some_and(|done| done.fence == fence);
        // Of these, it would have been told otherwise.
        let told = |phase| match (asked, phase) {
            (Asked::Renew { .. } | Asked::Release { .. }, Phase::Doubtful(_)) => false,
            (_, Phase::Doubtful(doubted)) => doubted == fence,
            (Asked::Release { .. }, Phase::GivenBack(ended)) => ended == fence && !settled,
            (Asked::Settle { found: None, .. }, Phase::GivenBack(ended)) => {
                ended == fence && !released
            }
            (Asked::Renew { .. } | Asked::Release { .. }, _) => false,
            (_, Phase::Done) => done_so,
            (_, Phase::Erased) => true,
            _ => false,
        };
        let phases = held + 1..self.phases.len();
        phases.filter(|phase| !told(self.phases[*phase])).collect()
    }
}
