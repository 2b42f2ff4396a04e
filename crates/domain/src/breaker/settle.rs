//! The rule of what probes bring about. A permit that is not under way any more says nothing.

use super::command::{ProbeResult, Settle};
use super::outcome::SettleOutcome;
use super::record::{Record, State};
use super::window::Window;
use crate::Change;
use crate::time::Timestamp;

/// Decides on a record whose override, if it is over, has ended.
pub(super) fn decide(
    record: Option<&Record>,
    settle: &Settle,
    now: Timestamp,
) -> (Change<Record>, SettleOutcome) {
    let unknown = (Change::Keep, SettleOutcome::Unknown);
    let Some(record) = record else { return unknown };
    let mut settled = record.clone();
    let policy = settled.policy();
    let State::HalfOpen { level, successes, permits, .. } = &mut settled.state else {
        return unknown;
    };
    permits.retain(|permit| permit.expires_at > now);
    let under_way = permits.len();
    permits.retain(|permit| permit.id != settle.permit);
    if permits.len() == under_way {
        return unknown;
    }
    let outcome = match settle.result {
        ProbeResult::Inconclusive => SettleOutcome::Inconclusive,
        ProbeResult::Failed => {
            let level = level.saturating_add(1);
            let until = now.after(policy.cool_down_after(level, settle.random));
            settled.enter(State::Open { since: now, until, level });
            SettleOutcome::Reopened
        }
        ProbeResult::Succeeded if successes.saturating_add(1) >= policy.successes_to_close => {
            let recovered = Some(*level);
            settled.enter(State::Closed { since: now, recovered });
            settled.window = Window::default();
            SettleOutcome::Closed
        }
        ProbeResult::Succeeded => {
            *successes = successes.saturating_add(1);
            SettleOutcome::Counted
        }
    };
    settled.touched_at = now;
    (Change::Put(settled), outcome)
}
