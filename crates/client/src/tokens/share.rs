//! What a client's own first attempts pay for while no node is in reach. Pure: it is told the time.
//!
//! Attempts are here from when they are counted until a report hands them over; what is handed over is
//! moved, together with what was spent of it. So no attempt pays twice. Attempts pay for as long as the
//! policy's window; older ones are forgotten, and never reported.

use std::collections::VecDeque;

use semel_proto::v1::{DepositOn, FailMode};

use crate::rules::Rules;

/// One retry, in milli-tokens.
const TOKEN_MILLI: u64 = 1_000;
/// Attempts that began this close to each other lie in one slot.
const SLOT_MS: u64 = 250;

/// First attempts that no report has handed over yet.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Oldest first. Bounded by the window, and that by the contract.
    slots: VecDeque<Slot>,
    /// How often all was taken out.
    moves: u64,
}

/// A token that was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The policy lets every retry pass: nothing paid for it.
    Free,
    /// Out of this slot, before the slots were taken out once more.
    Slot { at_ms: u64, moves: u64 },
}

/// What is moved by a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) requests: u64,
    pub(crate) successes: u64,
    pub(crate) spent_milli: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// When the first of it was counted: the last pays no longer than that one.
    at_ms: u64,
    counts: Moved,
}

impl Share {
    /// Counts attempts that began at this moment or later.
    pub(crate) fn count(&mut self, requests: u64, successes: u64, at_ms: u64) {
        self.add(Moved { requests, successes, spent_milli: 0 }, at_ms);
    }

    /// Takes a token. `None`: there is none.
    pub(crate) fn spend(&mut self, rules: &Rules, now_ms: u64) -> Option<Spent> {
        match rules.fail_mode {
            FailMode::Deny => return None,
            FailMode::Allow => return Some(Spent::Free),
            FailMode::LocalBounded | FailMode::Unspecified => {}
        }
        self.forget(now_ms, rules.window_ms);
        let counts = self.sum();
        let deposits = match rules.deposit_on {
            DepositOn::Success => counts.successes,
            DepositOn::Request | DepositOn::Unspecified => counts.requests,
        };
        let paid_milli = deposits.saturating_mul(rules.ratio_per_mille.into());
        if paid_milli < counts.spent_milli.saturating_add(TOKEN_MILLI) {
            return None;
        }
        self.add(Moved { spent_milli: TOKEN_MILLI, ..Moved::default() }, now_ms);
        let moves = self.moves;
        self.slots.back().map(|slot| Spent::Slot { at_ms: slot.at_ms, moves })
    }

    /// Puts a token back whose retry was not made. What was reported as spent meanwhile stays spent.
    pub(crate) fn put_back(&mut self, spent: Spent) {
        let Spent::Slot { at_ms, moves } = spent else { return };
        let slot = self.slots.iter_mut().find(|slot| slot.at_ms == at_ms);
        if let Some(slot) = slot.filter(|_| moves == self.moves) {
            slot.counts.spent_milli = slot.counts.spent_milli.saturating_sub(TOKEN_MILLI);
        }
    }

    /// Takes all out that is not older than a report may carry.
    pub(crate) fn take(&mut self, rules: &Rules, now_ms: u64) -> Moved {
        // In reach, attempts wait for about half a lease. They count where they arrive, as the bound has it.
        self.forget(now_ms, rules.window_ms.saturating_add(rules.lease_ms));
        let all = self.sum();
        self.slots.clear();
        self.moves = self.moves.wrapping_add(1);
        all
    }

    /// Whether there is nothing to report.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn forget(&mut self, now_ms: u64, age_ms: u64) {
        while self.slots.front().is_some_and(|slot| slot.at_ms.saturating_add(age_ms) <= now_ms) {
            self.slots.pop_front();
        }
    }

    fn add(&mut self, counts: Moved, at_ms: u64) {
        match self.slots.back_mut() {
            Some(last) if at_ms < last.at_ms.saturating_add(SLOT_MS) => {
                last.counts = last.counts.plus(counts);
            }
            _ => self.slots.push_back(Slot { at_ms, counts }),
        }
    }

    fn sum(&self) -> Moved {
        self.slots.iter().fold(Moved::default(), |sum, slot| sum.plus(slot.counts))
    }
}

impl Moved {
    const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            successes: self.successes.saturating_add(other.successes),
            spent_milli: self.spent_milli.saturating_add(other.spent_milli),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use semel_proto::v1::RetryPolicy;

    use super::*;

    fn spend(share: &mut Share, rules: &Rules, now_ms: u64) -> u64 {
        (0..1_000).take_while(|_| share.spend(rules, now_ms).is_some()).count() as u64
    }

    #[test]
    fn a_tenth_of_the_attempts_is_paid_for_while_they_are_in_the_window() {
        let (mut share, rules) = (Share::default(), Rules::default());
        share.count(29, 0, 0);
        assert_eq!(spend(&mut share, &rules, 9_999), 2);
        share.count(1, 0, 9_999);
        assert_eq!(spend(&mut share, &rules, 9_999), 1);
        share.count(20, 0, 10_000);
        assert_eq!(spend(&mut share, &rules, 10_000), 0, "what was spent is still in the window");
        assert_eq!(spend(&mut share, &rules, 20_250), 0, "and all is forgotten after it");
    }

    #[test]
    fn what_is_handed_over_can_no_longer_be_spent() {
        let (mut share, rules) = (Share::default(), Rules::default());
        share.count(50, 40, 0);
        assert!(share.spend(&rules, 10).is_some());
        let moved = share.take(&rules, 20);
        assert_eq!(moved, Moved { requests: 50, successes: 40, spent_milli: 1_000 });
        assert_eq!(share.spend(&rules, 30), None);
        assert!(share.is_empty());
        assert_eq!(share.take(&rules, 40), Moved::default());
    }

    #[test]
    fn a_token_whose_retry_was_not_made_is_spent_again_unless_it_was_reported() {
        let (mut share, rules) = (Share::default(), Rules::default());
        share.count(10, 0, 0);
        let spent = share.spend(&rules, 10).unwrap();
        assert_eq!(share.spend(&rules, 20), None);
        share.put_back(spent);
        let again = share.spend(&rules, 30).unwrap();
        assert_eq!(share.take(&rules, 40).spent_milli, 1_000);
        share.count(10, 0, 40);
        assert!(share.spend(&rules, 40).is_some());
        share.put_back(again);
        assert_eq!(share.spend(&rules, 50), None, "that one is the node's matter now");
    }

    #[test]
    fn a_report_carries_nothing_that_is_older_than_the_bound_allows() {
        let (mut share, rules) = (Share::default(), Rules::default());
        share.count(7, 0, 0);
        share.count(5, 0, 5_000);
        assert_eq!(share.take(&rules, 11_000).requests, 5);
    }

    #[test]
    fn the_policy_says_what_happens_without_a_node_and_what_pays() {
        let with = |fail_mode: FailMode, deposit_on: DepositOn| {
            let mut policy = RetryPolicy::default();
            policy.set_fail_mode(fail_mode);
            policy.set_deposit_on(deposit_on);
            let mut share = Share::default();
            share.count(30, 10, 0);
            spend(&mut share, &Rules::of(&policy), 1)
        };
        assert_eq!(with(FailMode::LocalBounded, DepositOn::Request), 3);
        assert_eq!(with(FailMode::LocalBounded, DepositOn::Success), 1);
        assert_eq!(with(FailMode::Deny, DepositOn::Request), 0);
        assert_eq!(with(FailMode::Allow, DepositOn::Request), 1_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn retries_never_exceed_a_tenth_of_the_attempts_of_any_stretch(
            steps in prop::collection::vec((0_u64..1_500, 0_u64..20, 0_u8..8), 1..50),
        ) {
            let (mut share, rules) = (Share::default(), Rules::default());
            let (mut now_ms, mut attempts, mut spent) = (0, Vec::new(), Vec::new());
            for (passed_ms, requests, spends) in steps {
                now_ms += passed_ms;
                share.count(requests, 0, now_ms);
                attempts.push((now_ms, requests));
                for _ in 0..spends {
                    spent.extend(share.spend(&rules, now_ms).map(|_| now_ms));
                }
            }
            for (first, start_ms) in spent.iter().enumerate() {
                for (last, end_ms) in spent.iter().enumerate().skip(first) {
                    let paying = attempts
                        .iter()
                        .filter(|(at_ms, _)| at_ms + 10_000 > *start_ms && at_ms <= end_ms);
                    let deposits: u64 = paying.map(|(_, requests)| requests).sum();
                    let retries = (last - first + 1) as u64;
                    prop_assert!(retries * 10 <= deposits, "from {start_ms} to {end_ms}");
                }
            }
        }
    }
}
