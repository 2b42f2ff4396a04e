//! The way between callers and nodes: calls take time, are lost, come twice, and come late.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::{Response, Status};

use crate::node::{Node, Services};
use crate::random::Random;
use crate::world::World;

/// The longest that a copy of a message is under way.
pub(crate) const LATEST: Duration = Duration::from_secs(4);

/// How often what happens to a message, per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// The request is lost.
    pub(crate) lose_request: u64,
    /// The answer is lost.
    pub(crate) lose_reply: u64,
    /// The request comes once more, up to [`LATEST`] later.
    pub(crate) repeat: u64,
    /// The request comes up to [`LATEST`] late, mostly after its caller gave up.
    pub(crate) late: u64,
    /// A caller that gives up takes its call with it.
    pub(crate) cancel: u64,
    /// The longest delay in milliseconds, each way, of a message that meets nothing else.
    pub(crate) delay_max_ms: u64,
}

/// What a caller learns of its call.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    /// The answer.
    Reply(R),
    /// The refusal.
    Refused(Status),
    /// Nothing: it may have been carried out, or will be.
    Lost,
}

/// One network. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Network(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    world: World,
    random: RefCell<Random>,
    weather: Cell<Weather>,
    cuts: RefCell<BTreeSet<(usize, usize)>>,
}

/// What will happen to one message.
struct Fate {
    request: Option<Duration>,
    repeat: Option<Duration>,
    reply: Option<Duration>,
    cancel: bool,
}

impl Network {
    pub(crate) fn new(world: &World, random: Random) -> Self {
        Self(Rc::new(Shared {
            world: world.clone(),
            random: RefCell::new(random),
            weather: Cell::default(),
            cuts: RefCell::default(),
        }))
    }

    /// Changes what happens to messages from now on.
    pub(crate) fn set_weather(&self, weather: Weather) {
        self.0.weather.set(weather);
    }

    /// Cuts a caller off from a node, or joins them again.
    pub(crate) fn cut(&self, caller: usize, node: usize, is_cut: bool) {
        let mut cuts = self.0.cuts.borrow_mut();
        if is_cut {
            cuts.insert((caller, node));
        } else {
            cuts.remove(&(caller, node));
        }
    }

    /// Joins everybody.
    pub(crate) fn join_all(&self) {
        self.0.cuts.borrow_mut().clear();
    }

    /// Calls `node` and waits for the answer for at most `patience`.
    pub(crate) async fn call<R: 'static, F>(
        &self,
        caller: usize,
        node: &Rc<Node>,
        patience: Duration,
        ask: impl Fn(Rc<Services>) -> F + Clone + 'static,
    ) -> Answer<R>
    where
        F: Future<Output = Result<Response<R>, Status>> + 'static,
    {
        let fate = self.fate(caller, node.number);
        let (hand_back, answer) = oneshot::channel();
        let tasks = &self.0.world.tasks;
        if let Some(delay) = fate.request {
            let (node, ask) = (Rc::clone(node), ask.clone());
            let limit = fate.cancel.then(|| patience.saturating_sub(delay));
            tasks.spawn(async move {
                tokio::time::sleep(delay).await;
                node.serve(ask, limit, |answer| drop(hand_back.send(answer)));
            });
        }
        if let Some(delay) = fate.repeat {
            let node = Rc::clone(node);
            tasks.spawn(async move {
                tokio::time::sleep(delay).await;
                node.serve(ask, None, drop);
            });
        }
        let arrival = async {
            // Who gave no answer, or whose answer is lost, keeps the caller waiting.
            match (answer.await, fate.reply) {
                (Ok(answer), Some(delay)) => {
                    tokio::time::sleep(delay).await;
                    answer
                }
                _ => std::future::pending().await,
            }
        };
        match tokio::time::timeout(patience, arrival).await {
            Ok(Ok(reply)) => Answer::Reply(reply.into_inner()),
            Ok(Err(status)) => Answer::Refused(status),
            Err(_) => Answer::Lost,
        }
    }

    fn fate(&self, caller: usize, node: usize) -> Fate {
        let weather = self.0.weather.get();
        let mut random = self.0.random.borrow_mut();
        let is_cut = self.0.cuts.borrow().contains(&(caller, node));
        let latest_ms = u64::try_from(LATEST.as_millis()).unwrap_or(u64::MAX);
        let late = random.happens(weather.late);
        let lost = random.happens(weather.lose_request) || is_cut;
        let latest = if late { latest_ms } else { weather.delay_max_ms };
        Fate {
            request: (!lost).then(|| random.millis(u64::from(late), latest)),
            repeat: (random.happens(weather.repeat) && !is_cut)
                .then(|| random.millis(0, latest_ms)),
            reply: (!random.happens(weather.lose_reply))
                .then(|| random.millis(0, weather.delay_max_ms)),
            cancel: random.happens(weather.cancel),
        }
    }
}
