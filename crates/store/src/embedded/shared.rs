//! What the threads of one store share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::pipeline::Pipeline;
use super::tree::Tree;
use crate::clock::Clock;
use crate::watch::WatchHub;

pub(super) struct Shared {
    pub(super) pipeline: Pipeline,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) hub: WatchHub,
    /// Absent while the store is being reopened. Readers hold the lock while they read, so whoever
    /// takes the tree out knows that nobody uses it.
    tree: RwLock<Option<Tree>>,
    healthy: AtomicBool,
    commits: AtomicU64,
}

impl Shared {
    pub(super) fn new(pipeline: Pipeline, clock: Arc<dyn Clock>, tree: Tree) -> Self {
        Self {
            pipeline,
            clock,
            hub: WatchHub::new(),
            tree: RwLock::new(Some(tree)),
            healthy: AtomicBool::new(true),
            commits: AtomicU64::new(0),
        }
    }

    /// The tree, for as long as the guard is held; keep it short.
    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Option<Tree>> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn healthy(&self) -> bool {
        self.healthy.load(Ordering::Acquire)
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the tree away from all readers, or gives them a new one.
    pub(super) fn replace_tree(&self, tree: Option<Tree>) -> Option<Tree> {
        self.healthy.store(tree.is_some(), Ordering::Release);
        let mut place = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, tree)
    }
}
