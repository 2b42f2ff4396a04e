//! What goes wrong, and when: scripted item by item, or drawn from a seed.
//!
//! A plan reads no clock and draws from nothing but its seed, so the same updates in the same order
//! meet the same faults.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// What happens to one item of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: in a script, an item that is passed over.
    #[default]
    Pass,
    /// The transition is run this many times for nothing before the run that counts, and other
    /// updates may come in between.
    Conflict {
        /// How many runs are thrown away.
        times: u32,
    },
    /// The answer is [`StoreError::Unknown`](crate::StoreError::Unknown).
    Unknown {
        /// Whether the change was committed all the same.
        committed: bool,
    },
    /// The batch waits on tokio's clock, which a test can pause, and succeeds.
    Delay {
        /// How long before the commit. Who gives up waiting then has handed nothing over.
        before: Duration,
        /// How long between the commit and the answer.
        after: Duration,
    },
    /// The batch is committed, and its answer is held until [`Faults::release`].
    Hold,
    /// Nothing is written, and the answer is
    /// [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    Unavailable,
    /// The store crashes right after it committed this item: the items after it are not run, and
    /// the answer to every item of the batch, and to every batch still held or delayed
    /// after its commit, is [`StoreError::Unknown`](crate::StoreError::Unknown).
    Crash {
        /// Whether the relaxed changes since the last synced one are lost with it.
        lose_relaxed: bool,
    },
}

/// How often each fault is drawn, per thousand items. Where they come to more than 1,000 together,
/// the last ones give way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odds {
    /// [`Fault::Conflict`], one to three times.
    pub conflict_per_mille: u16,
    /// [`Fault::Unknown`], committed every other time.
    pub unknown_per_mille: u16,
    /// [`Fault::Unavailable`]; scans meet it too.
    pub unavailable_per_mille: u16,
    /// [`Fault::Crash`], losing relaxed changes every other time.
    pub crash_per_mille: u16,
    /// [`Fault::Delay`], before or after the commit.
    pub delay_per_mille: u16,
    /// The longest delay; the shortest is 1 µs.
    pub delay_max: Duration,
}

/// The faults of one or more stores. Clones are handles to the same plan, so it can be changed
/// while the store runs.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
    gate: Gate,
}

#[derive(Debug, Default)]
struct Plan {
    script: VecDeque<Fault>,
    odds: Odds,
    random: SplitMix64,
    down: bool,
    injected: u64,
}

/// Where held answers wait.
#[derive(Debug, Default)]
struct Gate {
    counts: Mutex<Counts>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    held: usize,
    releases: u64,
}

impl Gate {
    /// Changes the counts, and wakes who waits for that, in the order in which they came.
    fn change(&self, change: impl FnOnce(&mut Counts)) -> Counts {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        let changed = *counts;
        drop(counts);
        self.changed.notify_waiters();
        changed
    }

    async fn until(&self, holds: impl Fn(Counts) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Listen first, look second: a change in between is not missed.
            changed.as_mut().enable();
            if holds(*self.counts.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            changed.await;
        }
    }
}

impl Faults {
    /// No faults, until some are asked for.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Faults drawn at these odds, from this seed.
    #[must_use]
    pub fn seeded(seed: u64, odds: Odds) -> Self {
        let plan = Plan { odds, random: SplitMix64(seed), ..Plan::default() };
        Self { shared: Arc::new(Shared { plan: Mutex::new(plan), ..Shared::default() }) }
    }

    /// Appends to the script: each item of an update takes the next fault from it. Once it has run
    /// out, faults are drawn at the odds again.
    pub fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.plan().script.extend(faults);
    }

    /// Changes the odds from now on; the draws go on where they were.
    pub fn set_odds(&self, odds: Odds) {
        self.plan().odds = odds;
    }

    /// Takes the store down, or brings it back. While it is down, updates and scans write and read
    /// nothing and answer [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    pub fn set_down(&self, down: bool) {
        self.plan().down = down;
    }

    /// How many items took a fault from the script or the odds so far: a test that relies on faults
    /// can assert that there were some.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.plan().injected
    }

    /// Waits until the answers of at least `batches` batches are held.
    pub async fn until_held(&self, batches: usize) {
        self.shared.gate.until(|counts| counts.held >= batches).await;
    }

    /// Lets every answer go that is held now.
    pub fn release(&self) {
        self.shared.gate.change(|counts| counts.releases += 1);
    }

    pub(super) fn is_down(&self) -> bool {
        self.plan().down
    }

    /// The faults of the next `items` items. `None`: the store is down, and they meet none.
    pub(super) fn take(&self, items: usize) -> Option<Vec<Fault>> {
        let mut plan = self.plan();
        (!plan.down).then(|| (0..items).map(|_| plan.next()).collect())
    }

    /// Whether a scan finds the store unavailable.
    pub(super) fn fails_scan(&self) -> bool {
        let mut plan = self.plan();
        let odds = plan.odds.unavailable_per_mille;
        plan.down || plan.random.happens(odds)
    }

    /// Waits for the next release.
    pub(super) async fn hold(&self) {
        let releases = self.shared.gate.change(|counts| counts.held += 1).releases;
        let _held = Held(&self.shared.gate);
        self.shared.gate.until(|counts| counts.releases > releases).await;
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a held answer, also when its caller gives up.
struct Held<'a>(&'a Gate);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.change(|counts| counts.held -= 1);
    }
}

impl Plan {
    fn next(&mut self) -> Fault {
        let fault = self.script.pop_front().unwrap_or_else(|| self.odds.draw(&mut self.random));
        self.injected += u64::from(fault != Fault::Pass);
        fault
    }
}

impl Odds {
    fn draw(&self, random: &mut SplitMix64) -> Fault {
        if *self == Self::default() {
            return Fault::Pass;
        }
        let roll = random.below(1_000);
        let mut reached = 0;
        let mut hits = |per_mille: u16| {
            reached += u64::from(per_mille);
            roll < reached
        };
        if hits(self.conflict_per_mille) {
            let times = if random.happens(500) {
                1
            } else if random.happens(500) {
                2
            } else {
                3
            };
            Fault::Conflict { times }
        } else if hits(self.unknown_per_mille) {
            Fault::Unknown { committed: random.happens(500) }
        } else if hits(self.unavailable_per_mille) {
            Fault::Unavailable
        } else if hits(self.crash_per_mille) {
            Fault::Crash { lose_relaxed: random.happens(500) }
        } else if hits(self.delay_per_mille) {
            let longest_us = u64::try_from(self.delay_max.as_micros()).unwrap_or(u64::MAX).max(1);
            let delay = Duration::from_micros(1 + random.below(longest_us));
            if random.happens(500) {
                Fault::Delay { before: delay, after: Duration::ZERO }
            } else {
                Fault::Delay { before: Duration::ZERO, after: delay }
            }
        } else {
            Fault::Pass
        }
    }
}

/// Sebastiano Vigna's SplitMix64. Not from a library, since those may change their streams between
/// versions, and a seed that found a fault must find it again.
#[derive(Clone, Debug, Default)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1. Its bias is far below what a test could notice.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn happens(&mut self, per_mille: u16) -> bool {
        per_mille > 0 && self.below(1_000) < u64::from(per_mille)
    }
}
