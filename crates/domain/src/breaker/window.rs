//! Outcomes over a sliding window: in total, and for each of the reporters that matter.
//!
//! A window is cut into slots of a tenth of its length, and forgets slot by slot. Slots know when they
//! began, so that a policy may change the window's length while outcomes are in it.
//!
//! Reporters are told apart to find out whether one of them alone is sick. Only so many are: whoever
//! has the fewest failures gives way and counts in the totals only. A reporter that fails while the
//! others do not is thus always known.

use crate::limits::BREAKER_REPORTERS_MAX;
use crate::time::{Timestamp, micros};

use super::policy::Policy;

/// 16 random bytes that name a process that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReporterId(pub [u8; 16]);

/// Outcomes of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered well.
    pub succeeded: u64,
    /// Failed.
    pub failed: u64,
    /// How many of these two were slow.
    pub slow: u64,
    /// Not to be counted: cancelled, or refused for what they were.
    pub ignored: u64,
}

impl Counts {
    /// The calls that say something of the dependency.
    #[must_use]
    pub const fn calls(self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
            slow: self.slow.saturating_add(other.slow),
            ignored: self.ignored.saturating_add(other.ignored),
        }
    }

    /// What is left without the other.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded.saturating_sub(other.succeeded),
            failed: self.failed.saturating_sub(other.failed),
            slow: self.slow.saturating_sub(other.slow),
            ignored: self.ignored.saturating_sub(other.ignored),
        }
    }
}

/// A slot of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When it began.
    pub starts_at: Timestamp,
    /// What came in it.
    pub counts: Counts,
}

/// Slots, oldest first; each began later than the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring(pub Vec<Slot>);

impl Ring {
    /// What is in the window at `now`.
    #[must_use]
    pub fn sum(&self, policy: &Policy, now: Timestamp) -> Counts {
        let live = self.0.iter().filter(|slot| is_live(slot, policy, now));
        live.fold(Counts::default(), |sum, slot| sum.plus(slot.counts))
    }

    fn add(&mut self, policy: &Policy, now: Timestamp, counts: Counts) {
        let slot_us = micros(policy.slot()).max(1);
        let starts_at = Timestamp::from_micros(now.as_micros() / slot_us * slot_us);
        match self.0.last_mut() {
            // A longer slot than before may begin earlier than the last one did.
            Some(last) if last.starts_at >= starts_at => last.counts = last.counts.plus(counts),
            _ => self.0.push(Slot { starts_at, counts }),
        }
    }

    fn prune(&mut self, policy: &Policy, now: Timestamp) {
        self.0.retain(|slot| is_live(slot, policy, now));
    }
}

fn is_live(slot: &Slot, policy: &Policy, now: Timestamp) -> bool {
    slot.starts_at.after(policy.window) > now
}

/// A reporter that is told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Who.
    pub reporter: ReporterId,
    /// Its own outcomes.
    pub ring: Ring,
    /// It alone fails, and is to hold back by itself until then.
    pub isolated_until: Option<Timestamp>,
}

impl Tracked {
    /// Whether it is to hold back at `now`.
    #[must_use]
    pub fn is_isolated(&self, now: Timestamp) -> bool {
        self.isolated_until.is_some_and(|until| until > now)
    }
}

/// The window of one breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// All outcomes.
    pub totals: Ring,
    /// Those of each reporter that is told apart, by its id: at most 32.
    pub reporters: Vec<Tracked>,
}

impl Window {
    /// Whether it says nothing at `now`.
    #[must_use]
    pub fn is_empty(&self, policy: &Policy, now: Timestamp) -> bool {
        self.totals.sum(policy, now).is_empty()
            && !self.reporters.iter().any(|tracked| tracked.is_isolated(now))
    }

    /// How many reporters have calls in the window, as far as they are told apart.
    #[must_use]
    pub fn reporters(&self, policy: &Policy, now: Timestamp) -> usize {
        let reports = |tracked: &&Tracked| tracked.ring.sum(policy, now).calls() > 0;
        self.reporters.iter().filter(reports).count()
    }

    /// Takes outcomes in, and lets go what is over or has no place.
    pub(super) fn absorb(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        outcomes: impl Iterator<Item = (ReporterId, Counts)>,
    ) {
        for (reporter, counts) in outcomes {
            self.totals.add(policy, now, counts);
            self.tracked(reporter).ring.add(policy, now, counts);
        }
        self.totals.prune(policy, now);
        for tracked in &mut self.reporters {
            tracked.ring.prune(policy, now);
        }
        self.reporters.retain(|tracked| !tracked.ring.0.is_empty() || tracked.is_isolated(now));
        self.drop_least(policy, now);
    }

    fn tracked(&mut self, reporter: ReporterId) -> &mut Tracked {
        let place = self.reporters.partition_point(|tracked| tracked.reporter < reporter);
        if self.reporters.get(place).is_none_or(|tracked| tracked.reporter != reporter) {
            let tracked = Tracked { reporter, ring: Ring::default(), isolated_until: None };
            self.reporters.insert(place, tracked);
        }
        // In bounds: it was found or put there.
        #[allow(clippy::indexing_slicing, reason = "it was found or put at this place just now")]
        &mut self.reporters[place]
    }

    /// Lets those go that matter least: first whoever fails least, and of these whoever calls least.
    fn drop_least(&mut self, policy: &Policy, now: Timestamp) {
        if self.reporters.len() <= BREAKER_REPORTERS_MAX {
            return;
        }
        self.reporters.sort_by_cached_key(|tracked| {
            let sum = tracked.ring.sum(policy, now);
            let weight = (tracked.is_isolated(now), sum.failed.max(sum.slow), sum.calls());
            (std::cmp::Reverse(weight), tracked.reporter)
        });
        self.reporters.truncate(BREAKER_REPORTERS_MAX);
        self.reporters.sort_by_key(|tracked| tracked.reporter);
    }
}
