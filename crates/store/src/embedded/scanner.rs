//! The thread that scans: a scan may take milliseconds and read from disk, and no update shall wait
//! behind one.

use tokio::sync::oneshot;

use super::decider::unavailable;
use super::queue::Receiver;
use super::shared::Shared;
use crate::contract::{Page, Scan, StoreError};

/// A scan and who asked for it.
pub(super) struct ScanJob {
    pub(super) scan: Scan,
    pub(super) caller: oneshot::Sender<Result<Page, StoreError>>,
}

/// Runs until the queue is closed and empty.
pub(super) fn run(shared: &Shared, queue: &Receiver<ScanJob>) {
    let mut jobs = Vec::new();
    while queue.take(&mut jobs) {
        for ScanJob { scan, caller } in jobs.drain(..) {
            if !caller.is_closed() {
                // A caller that is gone meanwhile needs no page.
                let _ = caller.send(read(shared, &scan));
            }
        }
    }
}

fn read(shared: &Shared, scan: &Scan) -> Result<Page, StoreError> {
    let tree = shared.tree();
    tree.as_ref().ok_or_else(unavailable)?.scan(scan).map_err(|error| {
        tracing::error!(%error, "a range could not be read");
        StoreError::Unavailable(format!("the range could not be read: {error}"))
    })
}
