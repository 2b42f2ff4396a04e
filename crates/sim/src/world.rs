//! One run: a runtime of its own whose time is virtual, and the tasks in it.
//!
//! Everything happens on one thread, in an order that depends on nothing but the seed: tasks are woken
//! in the order of their wakes, and time moves on only when nobody has anything left to do.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use tokio::task::{JoinSet, LocalSet};

use crate::log::{Log, Promise};
use crate::time::SimTime;

/// What everybody in a run shares.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Its time.
    pub(crate) time: SimTime,
    /// Its log.
    pub(crate) log: Log,
    /// Tasks that last as long as the run.
    pub(crate) tasks: Tasks,
}

/// Tasks of one owner: they end with it.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    set: Rc<RefCell<JoinSet<()>>>,
    log: Log,
}

impl Tasks {
    /// No tasks yet.
    pub(crate) fn new(log: Log) -> Self {
        Self { set: Rc::default(), log }
    }

    /// Adds a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.reap();
        self.set.borrow_mut().spawn_local(task);
    }

    /// Ends all tasks where they stand, as the end of a process does.
    pub(crate) fn abort(&self) {
        self.reap();
        *self.set.borrow_mut() = JoinSet::new();
    }

    /// Waits for all tasks that there are.
    pub(crate) async fn finished(&self) {
        let mut set = std::mem::take(&mut *self.set.borrow_mut());
        while let Some(ended) = set.join_next().await {
            self.judge(ended);
        }
    }

    /// Takes note of what has ended.
    pub(crate) fn reap(&self) {
        let mut set = self.set.borrow_mut();
        while let Some(ended) = set.try_join_next() {
            self.judge(ended);
        }
    }

    fn judge(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended
            && error.is_panic()
        {
            self.log.violated(Promise::Sound, format!("a task panicked: {error}"));
        }
    }
}

/// Runs `scene` to its end in a world of its own.
///
/// # Errors
///
/// The runtime could not be made.
pub(crate) fn play<T>(scene: impl AsyncFnOnce(World) -> T) -> io::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let local = LocalSet::new();
    Ok(local.block_on(&runtime, async {
        let time = SimTime::begin();
        let log = Log::new(time);
        let tasks = Tasks::new(log.clone());
        scene(World { time, log, tasks }).await
    }))
}
