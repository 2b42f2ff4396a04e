//! What the keeper has to do, and when: errands in the order of their time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_domain::time::micros;

use super::view::View;

/// Something to be done for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Bring the outcomes that gathered to the store.
    Flush,
    /// Read the record.
    Read,
    /// Make the change of state that is due.
    Advance,
    /// Tell watchers of a change that comes with time.
    Announce,
}

/// Errands by their time, on a clock that never goes back.
#[derive(Default)]
pub(super) struct Agenda {
    errands: BTreeMap<(u64, u64), (Arc<View>, Errand)>,
    count: u64,
}

impl Agenda {
    /// Notes an errand for `in_time` after `now_us`; returns its time.
    pub(super) fn note(
        &mut self,
        now_us: u64,
        in_time: Duration,
        view: &Arc<View>,
        errand: Errand,
    ) -> u64 {
        let due_us = now_us.saturating_add(micros(in_time));
        self.count = self.count.wrapping_add(1);
        self.errands.insert((due_us, self.count), (Arc::clone(view), errand));
        due_us
    }

    /// How long it is until the next errand is due.
    pub(super) fn next_in(&self, now_us: u64) -> Option<Duration> {
        let (&(due_us, _), _) = self.errands.first_key_value()?;
        Some(Duration::from_micros(due_us.saturating_sub(now_us)))
    }

    /// The next errand that is due, with its time.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<(u64, Arc<View>, Errand)> {
        let entry = self.errands.first_entry().filter(|entry| entry.key().0 <= now_us)?;
        let ((due_us, _), (view, errand)) = entry.remove_entry();
        Some((due_us, view, errand))
    }
}
