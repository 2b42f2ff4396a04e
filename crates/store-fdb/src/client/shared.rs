//! What the tasks of one store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foundationdb::options::TransactionOption;
use foundationdb::{Database, Transaction};
use semel_store::optimistic::{Patience, Updates};

use super::failure::Failure;
use super::open::Opened;
use super::read::Answer;
use super::wakes::Wakes;
use crate::layout::Layout;
use crate::options::FdbOptions;
use crate::slots::Slots;
use crate::time::Time;

/// The state of a store.
pub(crate) struct Shared {
    pub(crate) options: FdbOptions,
    pub(crate) database: Database,
    pub(crate) layout: Layout,
    /// This node, until it ends: random.
    pub(crate) node: u64,
    pub(crate) time: Time,
    pub(crate) updates: Updates<Answer>,
    pub(crate) slots: Slots,
    pub(crate) wakes: Wakes,
    is_up: AtomicBool,
}

impl Shared {
    pub(crate) fn new(options: FdbOptions, database: Database, node: u64, opened: Opened) -> Self {
        let time = Time::new(Arc::clone(&options.clock));
        time.raise(opened.newest_us);
        Self {
            database,
            layout: opened.layout,
            node,
            time,
            updates: Updates::new(Arc::clone(&options.clock)),
            slots: Slots::default(),
            wakes: Wakes::default(),
            is_up: AtomicBool::new(true),
            options,
        }
    }

    /// How long an update waits for others.
    pub(crate) fn patience(&self) -> Patience {
        Patience {
            turn: self.options.transaction_timeout() * 2,
            rounds: Duration::from_millis(self.options.conflict_timeout_ms),
        }
    }

    /// A transaction that is given up by the library after a time, with all its tries.
    pub(crate) fn transaction(&self, within: Duration) -> Result<Transaction, Failure> {
        transaction(&self.database, within)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Takes whether the cluster answered.
    pub(crate) fn set_up(&self, is_up: bool) {
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            if is_up {
                tracing::info!("the FoundationDB cluster answers again");
            } else {
                tracing::warn!("the FoundationDB cluster does not answer");
            }
        }
    }
}

/// A transaction that is given up by the library after a time, with all its tries.
pub(crate) fn transaction(database: &Database, within: Duration) -> Result<Transaction, Failure> {
    let transaction = database.create_trx()?;
    let within_ms = i32::try_from(within.as_millis()).unwrap_or(i32::MAX).max(1);
    transaction.set_option(TransactionOption::Timeout(within_ms))?;
    Ok(transaction)
}
