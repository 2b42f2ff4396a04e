//! Whether the outcomes of a window are reason to open, and not just one reporter's own trouble.

use super::policy::Policy;
use super::window::{Counts, ReporterId, Window};
use crate::time::Timestamp;

/// What the outcomes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is to be done.
    Healthy,
    /// Without this reporter all would be well: it alone holds back.
    Isolate(ReporterId),
    /// The dependency is not worth calling.
    Open,
}

/// One rule: which calls are bad, and how many of a thousand are too many.
type Rule = (fn(Counts) -> u64, u32);

/// Judges a window at `now`.
#[must_use]
pub fn judge(window: &Window, policy: &Policy, now: Timestamp) -> Verdict {
    let failures: Rule = (|counts| counts.failed, policy.failure_per_mille);
    let slow: Rule = (|counts| counts.slow, policy.slow_per_mille);
    let verdict = judge_by(failures, window, policy, now);
    if verdict == Verdict::Open || policy.slow_call.is_none() {
        return verdict;
    }
    match judge_by(slow, window, policy, now) {
        Verdict::Healthy => verdict,
        worse => worse,
    }
}

fn judge_by(rule: Rule, window: &Window, policy: &Policy, now: Timestamp) -> Verdict {
    let totals = window.totals.sum(policy, now);
    if !passes(totals, rule, u64::from(policy.calls_min)) {
        return Verdict::Healthy;
    }
    let (bad, _) = rule;
    let own = window.reporters.iter().map(|tracked| (tracked, tracked.ring.sum(policy, now)));
    let decisive = own.filter(|(_, own)| {
        let others = totals.minus(*own);
        // Who is the only one has nobody to be held against.
        others.calls() > 0 && !passes(others, rule, policy.corroboration_min())
    });
    let worst = decisive.max_by_key(|(tracked, own)| (bad(*own), tracked.reporter));
    match worst {
        None => Verdict::Open,
        Some((tracked, own)) if passes(own, rule, 1) && !tracked.is_isolated(now) => {
            Verdict::Isolate(tracked.reporter)
        }
        Some(_) => Verdict::Healthy,
    }
}

fn passes(counts: Counts, (bad, per_mille): Rule, calls_min: u64) -> bool {
    let calls = counts.calls();
    let share = u128::from(bad(counts)) * 1_000;
    calls >= calls_min && share >= u128::from(per_mille) * u128::from(calls)
}
