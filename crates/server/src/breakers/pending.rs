//! Outcomes on their way to the store: those that gather, and those that were sent and not yet
//! answered.
//!
//! What was sent is sent again as it was, under the same number, until its result is known: so it counts
//! once. After a while it is given up, long before the record forgets that number.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_domain::breaker::{Absorb, Command, Counts, Outcomes, ReporterId};
use semel_domain::time::micros;

/// Outcomes of so many reporters may gather in one view; those of more are dropped.
const GATHERED_MAX: usize = 1_024;
/// And so many in all views together.
const GATHERED_ALL_MAX: usize = 500_000;
/// What was not answered for this long is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// What became of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// They are the first since the last were sent: see to it that these are.
    First,
    /// They wait with others.
    More,
    /// There is no room for another reporter: they are dropped.
    NoRoom,
}

/// The outcomes of one breaker.
#[derive(Debug, Default)]
pub(super) struct Pending {
    gathered: BTreeMap<(u64, ReporterId), Counts>,
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Sent {
    command: Arc<Command>,
    since_us: u64,
}

impl Pending {
    /// Adds outcomes. `all` counts what gathered in all views.
    pub(super) fn add(
        &mut self,
        generation: u64,
        reporter: ReporterId,
        counts: Counts,
        all: &AtomicUsize,
    ) -> Gathered {
        let count = self.gathered.len();
        match self.gathered.entry((generation, reporter)) {
            Entry::Occupied(mut entry) => *entry.get_mut() = entry.get().plus(counts),
            Entry::Vacant(_)
                if count >= GATHERED_MAX || all.load(Ordering::Relaxed) >= GATHERED_ALL_MAX =>
            {
                return Gathered::NoRoom;
            }
            Entry::Vacant(entry) => {
                entry.insert(counts);
                all.fetch_add(1, Ordering::Relaxed);
            }
        }
        if count == 0 { Gathered::First } else { Gathered::More }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.sent.is_none()
    }

    /// What is to be sent now: what had no answer yet, or what gathered since, under the number that
    /// `next_seq` gives it.
    pub(super) fn send(
        &mut self,
        node: [u8; 16],
        now_us: u64,
        all: &AtomicUsize,
        next_seq: impl FnOnce() -> u64,
    ) -> Option<Arc<Command>> {
        let given_up = |sent: &Sent| now_us.saturating_sub(sent.since_us) > micros(GIVEN_UP_AFTER);
        if self.sent.as_ref().is_some_and(given_up) {
            tracing::warn!("outcomes of calls were given up: the store gave no answer for long");
            self.sent = None;
        }
        if let Some(sent) = &self.sent {
            return Some(Arc::clone(&sent.command));
        }
        if self.gathered.is_empty() {
            return None;
        }
        all.fetch_sub(self.gathered.len(), Ordering::Relaxed);
        let gathered = std::mem::take(&mut self.gathered).into_iter();
        let outcomes = gathered
            .map(|((generation, reporter), counts)| Outcomes { reporter, generation, counts })
            .collect();
        let command = Arc::new(Command::Absorb(Absorb { node, seq: next_seq(), outcomes }));
        self.sent = Some(Sent { command: Arc::clone(&command), since_us: now_us });
        Some(command)
    }

    /// What was sent has its answer.
    pub(super) fn answered(&mut self) {
        self.sent = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: [u8; 16] = [1; 16];

    fn reporter(number: u64) -> ReporterId {
        ReporterId(u128::from(number).to_le_bytes())
    }

    fn one() -> Counts {
        Counts { failed: 1, ..Counts::default() }
    }

    #[test]
    fn what_was_sent_is_sent_again_as_it_was_until_it_is_answered_or_given_up() {
        let (mut pending, all) = (Pending::default(), AtomicUsize::new(0));
        let mut seqs = 1..;
        let mut send = |pending: &mut Pending, now_us| {
            pending.send(NODE, now_us, &all, || seqs.next().expect("endless"))
        };
        assert_eq!(pending.add(0, reporter(1), one(), &all), Gathered::First);
        let first = send(&mut pending, 0).expect("something");
        assert_eq!(pending.add(0, reporter(1), one(), &all), Gathered::First);
        assert_eq!(pending.add(0, reporter(2), one(), &all), Gathered::More);
        assert_eq!(send(&mut pending, 1), Some(Arc::clone(&first)), "not with what came since");
        pending.answered();
        let second = send(&mut pending, 2).expect("what came since");
        assert_ne!(first, second);
        assert_eq!(all.load(Ordering::Relaxed), 0);
        assert_eq!(send(&mut pending, 61_000_000), None, "given up");
        assert!(pending.is_empty());
    }

    #[test]
    fn what_gathers_is_bounded_here_and_in_all() {
        let (mut pending, all) = (Pending::default(), AtomicUsize::new(0));
        for number in 0..1_024 {
            assert_ne!(pending.add(0, reporter(number), one(), &all), Gathered::NoRoom);
        }
        assert_eq!(pending.add(0, reporter(9_999), one(), &all), Gathered::NoRoom);
        assert_eq!(pending.add(0, reporter(7), one(), &all), Gathered::More);
        all.store(GATHERED_ALL_MAX, Ordering::Relaxed);
        assert_eq!(Pending::default().add(0, reporter(1), one(), &all), Gathered::NoRoom);
    }
}
