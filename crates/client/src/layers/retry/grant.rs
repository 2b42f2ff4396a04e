//! A retry that was paid for. What a node granted for it goes back if it is dropped before it is sent.

use std::time::Duration;

use crate::tokens::{Budget, Granted};

/// The right to send a call again, after a wait.
pub(super) struct Grant {
    pub(super) wait: Duration,
    granted: Option<(Budget, Granted)>,
}

impl Grant {
    /// Paid for from what is in hand.
    pub(super) const fn in_hand(wait: Duration) -> Self {
        Self { wait, granted: None }
    }

    /// Paid for by a node.
    pub(super) const fn of_node(wait: Duration, budget: Budget, granted: Granted) -> Self {
        Self { wait, granted: Some((budget, granted)) }
    }

    /// It is being sent.
    pub(super) fn spend(mut self) -> Spent {
        Spent(self.granted.take())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        Spent(self.granted.take()).give_back();
    }
}

/// A token whose retry is being sent.
pub(super) struct Spent(Option<(Budget, Granted)>);

impl Spent {
    /// It was not sent after all.
    pub(super) fn give_back(self) {
        if let Some((budget, granted)) = self.0 {
            budget.give_back(granted);
        }
    }
}
