//! Tokens that a node granted one by one, and whose retries were not sent: they go back to that node, along
//! with the budget's other calls.
//!
//! That is a courtesy: what does not fit, or is not answered, stays charged.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// No more of them wait.
const REFUNDS_MAX: usize = 16;

/// A token, and the node that granted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) token: Bytes,
    pub(crate) node: Bytes,
}

/// Those that go back.
#[derive(Debug, Default)]
pub(crate) struct Refunds(Mutex<Vec<Granted>>);

impl Refunds {
    pub(crate) fn add(&self, granted: Granted) {
        let mut refunds = self.lock();
        if refunds.len() < REFUNDS_MAX {
            refunds.push(granted);
        }
    }

    /// Takes all of them out.
    pub(crate) fn take(&self) -> Vec<Granted> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Granted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_wait_and_each_goes_back_once() {
        let refunds = Refunds::default();
        for _ in 0..=REFUNDS_MAX {
            refunds.add(Granted { token: Bytes::new(), node: Bytes::new() });
        }
        assert_eq!(refunds.take().len(), REFUNDS_MAX);
        assert_eq!(refunds.take().len(), 0);
    }
}
