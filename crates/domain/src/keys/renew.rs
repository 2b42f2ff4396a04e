//! The rule of RenewKey: the owner is still at work.

use super::command::Renew;
use super::outcome::RenewOutcome;
use super::record::{Claimed, Record, State};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    renew: &Renew,
    now: Timestamp,
) -> (Change<Record>, RenewOutcome) {
    let Some(record) = record else {
        return (Change::Keep, RenewOutcome::Unknown);
    };
    let State::Claimed(claimed) = &record.state else {
        return (Change::Keep, RenewOutcome::Fenced { current: record.fence });
    };
    if claimed.owner != renew.owner || record.fence != renew.fence {
        return (Change::Keep, RenewOutcome::Fenced { current: record.fence });
    }
    if renew.renewal <= claimed.renewal {
        // The newest renewal repeated is its own lost reply; an older one came late.
        let stale = renew.renewal < claimed.renewal;
        return (Change::Keep, RenewOutcome::Renewed { stale, expires_at: claimed.expires_at });
    }
    let expires_at = claimed.expires_at.max(now.after(renew.lease));
    let mut renewed = record.clone();
    renewed.state =
        State::Claimed(Claimed { expires_at, renewal: renew.renewal, ..claimed.clone() });
    if let Some(checkpoint) = &renew.checkpoint {
        renewed.checkpoint = Some(checkpoint.clone());
    }
    renewed.touched_at = now;
    (Change::Put(renewed), RenewOutcome::Renewed { stale: false, expires_at })
}
