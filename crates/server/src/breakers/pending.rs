//! Outcomes on their way to the store: those that gather, and those that were sent and not yet
//! answered.
//!
//! What was sent is sent again as it was, under the same number, until its result is known: so it counts
//! once. After a while it is given up, long before the record forgets that number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_domain::breaker::{Absorb, Command, Counts, Outcomes, ReporterId};
use semel_domain::time::micros;

/// Outcomes of so many reporters may gather in one view; those of more are dropped.
const GATHERED_MAX: usize = 1_024;
/// What was not answered for this long is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

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
    /// Adds outcomes. False: there is no room for another reporter.
    pub(super) fn add(&mut self, generation: u64, reporter: ReporterId, counts: Counts) -> bool {
        let is_full = self.gathered.len() >= GATHERED_MAX;
        match self.gathered.entry((generation, reporter)) {
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                *entry.get_mut() = entry.get().plus(counts);
            }
            std::collections::btree_map::Entry::Vacant(_) if is_full => return false,
            std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(counts)),
        }
        true
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
