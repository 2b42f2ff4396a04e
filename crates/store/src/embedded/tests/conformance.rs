//! The suite that every engine must pass.

use std::path::Path;
use std::sync::Mutex;

use tempfile::TempDir;

use super::super::{EmbeddedOptions, EmbeddedStore};
use super::support::copy_directory;
use crate::clock::ManualClock;
use crate::conformance::{End, Harness, run_theme};

/// Each store lives in a directory of its own, which is kept until the suite has run.
#[derive(Default)]
struct Embedded {
    directories: Mutex<Vec<TempDir>>,
}

impl Embedded {
    fn directory(&self) -> std::path::PathBuf {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        self.directories.lock().unwrap().push(directory);
        path
    }
}

impl Harness for Embedded {
    type Store = EmbeddedStore;

    async fn open(&self, clock: ManualClock) -> EmbeddedStore {
        open(&self.directory(), clock)
    }

    async fn reopen(
        &self,
        store: EmbeddedStore,
        clock: ManualClock,
        end: End,
    ) -> Option<EmbeddedStore> {
        let path = store.path().to_owned();
        match end {
            End::Closed => {
                store.close();
                Some(open(&path, clock))
            }
            // What the files hold at this moment is what a process that dies now leaves behind.
            End::Crashed => {
                let copy = self.directory();
                copy_directory(&path, &copy);
                Some(open(&copy, clock))
            }
        }
    }
}

fn open(path: &Path, clock: ManualClock) -> EmbeddedStore {
    EmbeddedStore::open(EmbeddedOptions::new(path).with_clock(clock)).unwrap()
}

macro_rules! themes {
    ($($theme:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $theme() {
            run_theme(Embedded::default(), stringify!($theme)).await;
        }
    )+};
}

themes![
    updates,
    values,
    limits,
    index,
    scans,
    concurrency,
    linearizability,
    time,
    watches,
    durability,
];
