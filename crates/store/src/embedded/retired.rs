//! Memtables that have become tables. To free one takes tens of milliseconds, and whoever holds it
//! last must do that: the tree would do it while all its readers and writers wait. So they are held
//! here until nobody else does, and freed by a thread of their own.

use std::io;
use std::mem;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use lsm_tree::Memtable;

/// Holds memtables and frees them in the background. Dropping it waits for that.
pub(super) struct Retired {
    held: Mutex<Vec<Arc<Memtable>>>,
    sender: Option<SyncSender<Vec<Arc<Memtable>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Retired {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, receiver) = sync_channel(1);
        let free = move || receiver.into_iter().for_each(drop);
        let thread = Builder::new().name("store-freer".to_owned()).spawn(free)?;
        Ok(Self { held: Mutex::default(), sender: Some(sender), thread: Some(thread) })
    }

    /// Holds memtables that are about to be moved to tables.
    pub(super) fn hold(&self, memtables: impl IntoIterator<Item = Arc<Memtable>>) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).extend(memtables);
    }

    /// Frees those that nobody else holds any more.
    pub(super) fn free(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, still_held): (Vec<_>, Vec<_>) = mem::take(&mut *held)
            .into_iter()
            .partition(|memtable| Arc::strong_count(memtable) == 1);
        *held = still_held;
        let Some(sender) = &self.sender else { return };
        if let Err(error) = sender.try_send(free) {
            // The thread has not freed the last ones yet: these wait for the next time.
            let (TrySendError::Full(free) | TrySendError::Disconnected(free)) = error;
            held.extend(free);
        }
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that frees memory panicked; this is a bug");
        }
    }
}
