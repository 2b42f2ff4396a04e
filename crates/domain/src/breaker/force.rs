//! The rule of operators' overrides: each is a change of state, and starts with an empty window.

use super::command::Override;
use super::record::{Force, Record, State};
use super::window::Window;
use crate::Change;
use crate::limits::AUDIT_MAX;
use crate::time::Timestamp;

/// Decides on a record whose override, if it is over, has ended. Also says whether the command had
/// been carried out before.
pub(super) fn decide(
    record: Option<&Record>,
    command: &Override,
    now: Timestamp,
) -> (Change<Record>, bool) {
    if record.is_some_and(|record| record.forces.contains(&command.id)) {
        return (Change::Keep, true);
    }
    let mut forced = record.cloned().unwrap_or_else(|| Record::fresh(now));
    forced.force = command.kind.map(|kind| Force {
        kind,
        actor: command.actor.clone(),
        reason: command.reason.clone(),
        since: now,
        expires_at: command.expires_in.map(|left| now.after(left)),
    });
    if forced.forces.len() >= AUDIT_MAX {
        forced.forces.remove(0);
    }
    forced.forces.push(command.id);
    forced.window = Window::default();
    forced.enter(State::Closed { since: now, recovered: None });
    forced.touched_at = now;
    (Change::Put(forced), false)
}
