//! The rule of ReleaseKey: the owner gives its claim back undone.

use super::command::Release;
use super::outcome::ReleaseOutcome;
use super::record::{AttemptEnd, Record, State};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    release: &Release,
    now: Timestamp,
) -> (Change<Record>, ReleaseOutcome) {
    let Some(record) = record else {
        return (Change::Keep, ReleaseOutcome::Unknown);
    };
    match &record.state {
        State::Claimed(claimed)
            if claimed.owner == release.owner && record.fence == release.fence =>
        {
            let mut released = record.clone();
            released.release(claimed.owner, claimed.claimed_at, AttemptEnd::Released, now);
            (Change::Put(released), ReleaseOutcome::Released { already: false })
        }
        _ if record.ended(release.fence, Some(release.owner), AttemptEnd::Released) => {
            (Change::Keep, ReleaseOutcome::Released { already: true })
        }
        _ => (Change::Keep, ReleaseOutcome::Fenced { current: record.fence }),
    }
}
