//! The slots whose markers tell what became of commits: see [`attempt`](crate::attempt).
//!
//! Invariants: a slot is held by one writer at a time, and numbers of attempts grow; there are as many
//! slots as there ever were writers at the same time, which the lanes of the updates bound.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The slots of one node.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<u32>,
    made: u32,
    attempts: u64,
}

/// A slot that is held, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    pub(crate) number: u32,
}

impl Slots {
    /// Holds a slot.
    pub(crate) fn hold(&self) -> Slot<'_> {
        let mut state = self.lock();
        let number = state.free.pop().unwrap_or_else(|| {
            state.made += 1;
            state.made - 1
        });
        drop(state);
        Slot { slots: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole at every point where a thread could have died.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot<'_> {
    /// A number that no attempt of this node had before.
    pub(crate) fn next_attempt(&self) -> u64 {
        let mut state = self.slots.lock();
        state.attempts += 1;
        state.attempts
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.lock().free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_holder_and_is_used_again() {
        let slots = Slots::default();
        let (first, second) = (slots.hold(), slots.hold());
        assert_eq!((first.number, second.number), (0, 1));
        assert!(first.next_attempt() < second.next_attempt());
        drop(first);
        assert_eq!(slots.hold().number, 0);
        assert!(second.next_attempt() < slots.hold().next_attempt());
    }
}
