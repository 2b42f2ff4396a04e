//! Waiting for the store's answer: what a call does at most once, and not for long.

use std::pin::pin;
use std::time::Duration;

use semel_domain::time::Timestamp;

use super::account::Account;
use super::budgets::Budgets;
use crate::deadline::Deadline;

/// How long a question may wait for the store's answer.
const STORE_WAIT: Duration = Duration::from_millis(250);

impl Budgets {
    /// Until when a call that came just now may wait for the store: never for most of its own time.
    pub(super) fn patience(&self, deadline: Deadline) -> Timestamp {
        let left = deadline.left(&*self.clock).unwrap_or(Duration::MAX);
        self.now().after(STORE_WAIT.min(left / 2))
    }

    /// Tries until `attempt` answers: at once, after each sync of the account, and `until` then for the last
    /// time, of which it is told.
    pub(super) async fn answered<T>(
        &self,
        account: &Account,
        until: Timestamp,
        attempt: impl Fn(bool) -> Option<T>,
    ) -> T {
        let mut heard = account.syncs();
        if let Some(answer) = attempt(false) {
            return answer;
        }
        loop {
            // Listen first, look second: a sync that ends in between is not missed.
            let mut synced = pin!(account.synced.notified());
            synced.as_mut().enable();
            let left = until.since(self.now());
            // Without news, another try would find the same, and count as more demand.
            if account.syncs() != heard || left.is_zero() {
                heard = account.syncs();
                if let Some(answer) = attempt(left.is_zero()) {
                    return answer;
                }
            }
            let _waiting = Waiting::enter(account);
            tokio::select! {
                biased;
                () = synced => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// One caller that waits for the store's answer.
struct Waiting<'a>(&'a Account);

impl<'a> Waiting<'a> {
    fn enter(account: &'a Account) -> Self {
        account.lock().waiting += 1;
        Self(account)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}
