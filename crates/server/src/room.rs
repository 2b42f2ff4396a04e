//! Places in memory that many owners share: each has a bound of its own, and all of them have one together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many places, for all who hold this.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    most: usize,
}

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), most })
    }

    /// Takes a place, to be given back. False: there is none.
    pub(crate) fn take(&self) -> bool {
        let one_more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Gives back places that were taken.
    pub(crate) fn give_back(&self, places: usize) {
        self.taken.fetch_sub(places, Ordering::Relaxed);
    }
}
