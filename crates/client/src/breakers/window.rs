//! What became of this process's own calls, over a sliding window of ten slots.

use semel_proto::v1::OutcomeCounts;

use super::rules::Rules;

const SLOTS: u64 = 10;
const PLACES: usize = 10;

/// What became of a call, as far as a breaker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Answered well.
    Succeeded,
    /// No answer, or a server's error.
    Failed,
    /// Cancelled, or refused for what it was: says nothing of the dependency, except that it lives.
    Ignored,
}

/// Outcomes of the last while.
#[derive(Clone, Debug, Default)]
pub(super) struct Window([Slot; PLACES]);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Which slot of all time it is, from 1.
    number: u64,
    counts: OutcomeCounts,
}

/// Counts one call.
pub(super) fn count(counts: &mut OutcomeCounts, outcome: Outcome, is_slow: bool) {
    match outcome {
        Outcome::Succeeded => counts.succeeded += 1,
        Outcome::Failed => counts.failed += 1,
        Outcome::Ignored => counts.ignored += 1,
    }
    counts.slow += u64::from(is_slow && outcome != Outcome::Ignored);
}

impl Window {
    pub(super) fn add(&mut self, outcome: Outcome, is_slow: bool, rules: &Rules, now_ms: u64) {
        let number = number(rules, now_ms);
        let place = usize::try_from(number % SLOTS).unwrap_or_default();
        let Some(slot) = self.0.get_mut(place) else { return };
        if slot.number != number {
            *slot = Slot { number, counts: OutcomeCounts::default() };
        }
        count(&mut slot.counts, outcome, is_slow);
    }

    /// Whether the outcomes of the window are reason to open.
    pub(super) fn passes(&self, rules: &Rules, now_ms: u64) -> bool {
        let number = number(rules, now_ms);
        let live = self.0.iter().filter(|slot| slot.number > number.saturating_sub(SLOTS));
        let (mut calls, mut failed, mut slow) = (0, 0, 0);
        for slot in live {
            calls += slot.counts.succeeded + slot.counts.failed;
            failed += slot.counts.failed;
            slow += slot.counts.slow;
        }
        let too_many = |bad: u64, per_mille: u32| bad * 1_000 >= u64::from(per_mille) * calls;
        let too_slow = rules.slow_call.is_some() && too_many(slow, rules.slow_per_mille);
        calls >= rules.calls_min && (too_many(failed, rules.failure_per_mille) || too_slow)
    }
}

/// From 1, so that an empty slot is none of them.
fn number(rules: &Rules, now_ms: u64) -> u64 {
    now_ms / (rules.window_ms / SLOTS).max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_twenty_calls_is_reason_enough_until_they_are_forgotten() {
        let (mut window, rules) = (Window::default(), Rules::default());
        let mut add = |outcome, times, now_ms| {
            (0..times).for_each(|_| window.add(outcome, false, &rules, now_ms));
            window.passes(&rules, now_ms)
        };
        assert!(!add(Outcome::Failed, 19, 0), "too few calls");
        assert!(!add(Outcome::Ignored, 50, 0));
        assert!(add(Outcome::Failed, 1, 3_000));
        assert!(add(Outcome::Succeeded, 20, 3_000));
        assert!(!add(Outcome::Succeeded, 1, 3_000), "fewer than half");
        assert!(!add(Outcome::Failed, 3, 30_000), "the first nineteen are forgotten");
    }

    #[test]
    fn slow_calls_count_only_under_a_policy_that_says_so() {
        let mut window = Window::default();
        let off = Rules::default();
        (0..20).for_each(|_| window.add(Outcome::Succeeded, true, &off, 0));
        assert!(!window.passes(&off, 0));
        let on = Rules { slow_call: Some(std::time::Duration::from_secs(1)), ..off };
        assert!(window.passes(&on, 0));
    }
}
