//! The rule of policies: replaced as a whole, and only the version that was meant.

use super::command::SetPolicy;
use super::outcome::SetPolicyOutcome;
use super::record::{PolicySet, Record};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    command: &SetPolicy,
    now: Timestamp,
) -> (Change<Record>, SetPolicyOutcome) {
    let current = record.and_then(|record| record.policy.as_ref());
    let version = current.map_or(0, |set| set.version);
    // Run again, it finds what it wrote.
    let expected = command.expected_version.map(|expected| expected.saturating_add(1));
    let is_done = current.is_some_and(|set| {
        set.policy == command.policy
            && set.actor == command.actor
            && expected.is_none_or(|expected| expected == version)
    });
    if is_done {
        return (Change::Keep, SetPolicyOutcome::Already { version });
    }
    if command.expected_version.is_some_and(|expected| expected != version) {
        return (Change::Keep, SetPolicyOutcome::Conflict { version });
    }
    let mut changed = record.cloned().unwrap_or_else(|| Record::fresh(now));
    let version = version.saturating_add(1);
    let (policy, actor) = (command.policy, command.actor.clone());
    changed.policy = Some(PolicySet { policy, version, actor, set_at: now });
    changed.touched_at = now;
    (Change::Put(changed), SetPolicyOutcome::Set { version })
}
