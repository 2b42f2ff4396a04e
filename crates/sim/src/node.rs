//! A node of the cluster: the real services of one process, its clock, its way to the store, and what
//! can become of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use semel_server::{Core, Lane, NodeOptions, OptionsError};
use semel_store::memory::{Faults, MemoryStore};
use tokio_util::sync::CancellationToken;

use crate::log::Promise;
use crate::pause::Pause;
use crate::random::Random;
use crate::store::{Amnesia, SimStore};
use crate::time::SimClock;
use crate::world::{Tasks, World};

/// How long a node that closes lets its calls finish.
const DRAIN: Duration = Duration::from_millis(50);

/// The services of a node, as its callers reach them.
pub(crate) type Services = Lane<SimStore>;

/// One node. It is up, stopped, or down; each start is a new incarnation with nothing but the store.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its number in the cluster.
    pub(crate) number: usize,
    /// Its machine's clock.
    pub(crate) clock: SimClock,
    /// What goes wrong between it and the store.
    pub(crate) faults: Faults,
    world: World,
    store: Arc<SimStore>,
    options: NodeOptions,
    random: RefCell<Random>,
    starts: Cell<u32>,
    life: RefCell<Option<Rc<Life>>>,
}

/// One incarnation.
#[derive(Debug)]
struct Life {
    core: Core<SimStore>,
    services: Rc<Services>,
    tasks: Tasks,
    pause: Pause,
}

impl Node {
    /// A node that is down, on a machine of its own.
    pub(crate) fn new(
        number: usize,
        world: &World,
        engine: &MemoryStore,
        amnesia: Option<Amnesia>,
        options: NodeOptions,
        mut random: Random,
    ) -> Self {
        let faults = Faults::seeded(random.next(), semel_store::memory::Odds::default());
        let handle = engine.share(Arc::new(SimClock::new(world.time)), faults.clone());
        Self {
            number,
            clock: SimClock::new(world.time),
            faults,
            world: world.clone(),
            store: Arc::new(SimStore::new(handle, amnesia)),
            options,
            random: RefCell::new(random),
            starts: Cell::new(0),
            life: RefCell::default(),
        }
    }

    /// Starts it, if it is down.
    ///
    /// # Errors
    ///
    /// Its options are out of bounds.
    pub(crate) fn start(&self) -> Result<(), OptionsError> {
        if self.life.borrow().is_some() {
            return Ok(());
        }
        let seed = self.random.borrow_mut().next();
        let clock = Arc::new(self.clock.clone());
        let core = Core::new(Arc::clone(&self.store), clock, seed, self.options.clone())?;
        let services = Rc::new(core.lane(0));
        let (tasks, pause) = (Tasks::new(self.world.log.clone()), Pause::default());
        let life = Rc::new(Life { core, services, tasks, pause });
        life.drive(Arc::clone(&self.store));
        self.starts.set(self.starts.get() + 1);
        self.world.log.note(format_args!("node {} starts", self.name()));
        *self.life.borrow_mut() = Some(life);
        Ok(())
    }

    /// Its process ends where it stands: nothing of it is finished, handed back or said.
    pub(crate) fn crash(&self) {
        if let Some(life) = self.life.borrow_mut().take() {
            self.world.log.note(format_args!("node {} crashes", self.name()));
            life.tasks.abort();
        }
    }

    /// It is asked to end, and has `grace` for it. Callers reach it no longer than it takes.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        let Some(life) = self.life.borrow().clone() else { return };
        self.world.log.note(format_args!("node {} closes", self.name()));
        life.core.closing().cancel();
        let in_time = tokio::time::timeout(grace, life.tasks.finished()).await.is_ok();
        let mut now = self.life.borrow_mut();
        // It may have crashed and started again meanwhile.
        if now.as_ref().is_some_and(|now| Rc::ptr_eq(now, &life)) {
            self.world.log.note(format_args!("node {} ended, in time: {in_time}", self.name()));
            *now = None;
        }
        life.tasks.abort();
    }

    /// Stops its process: its callers hang, its timers are late.
    pub(crate) fn stop(&self) {
        if let Some(life) = &*self.life.borrow() {
            self.world.log.note(format_args!("node {} stops", self.name()));
            life.pause.stop();
        }
    }

    /// Lets its process go on.
    pub(crate) fn go_on(&self) {
        if let Some(life) = &*self.life.borrow()
            && life.pause.is_stopped()
        {
            self.world.log.note(format_args!("node {} goes on", self.name()));
            life.pause.go_on();
        }
    }

    /// Whether a process is there, stopped or not.
    pub(crate) fn is_up(&self) -> bool {
        self.life.borrow().is_some()
    }

    /// Has it carry out a call that arrived, within `limit` if the call says one. `hand_back` gets the
    /// answer; it gets none from a node that is down, or that crashes before it answers.
    pub(crate) fn serve<F: Future + 'static>(
        &self,
        ask: impl FnOnce(Rc<Services>) -> F + 'static,
        limit: Option<Duration>,
        hand_back: impl FnOnce(F::Output) + 'static,
    ) {
        let Some(life) = self.life.borrow().clone() else { return };
        let call = ask(Rc::clone(&life.services));
        life.tasks.spawn(life.pause.part(async move {
            let answer = match limit {
                // As the transport does: the call is dropped when its time is over.
                Some(limit) => tokio::time::timeout(limit, call).await.ok(),
                None => Some(call.await),
            };
            if let Some(answer) = answer {
                hand_back(answer);
            }
        }));
    }

    /// Takes note of panics that nobody has seen yet.
    pub(crate) fn inspect(&self) {
        if let Some(life) = &*self.life.borrow() {
            life.tasks.reap();
        }
    }

    /// Its name in the log: its number and its incarnation.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.number, self.starts.get())
    }

    /// Says that it refused something that it should not have.
    pub(crate) fn unsound(&self, what: &str) {
        self.world.log.violated(Promise::Sound, format!("node {}: {what}", self.name()));
    }
}

impl Life {
    fn drive(&self, store: Arc<SimStore>) {
        let services = Rc::clone(&self.services);
        let drained = CancellationToken::new();
        let (closing, drain) = (self.core.closing().clone(), drained.clone());
        self.tasks.spawn(self.pause.part(async move {
            closing.cancelled().await;
            // Calls that had arrived are carried out first.
            tokio::time::sleep(DRAIN).await;
            drain.cancel();
        }));
        self.tasks.spawn(self.pause.part(async move { services.drive(&store, &drained).await }));
        let core = self.core.clone();
        self.tasks.spawn(self.pause.part(async move { core.sweep(async |_| {}).await }));
        let core = self.core.clone();
        self.tasks.spawn(self.pause.part(async move { core.keep().await }));
    }
}
