//! What callers do: work as the contract asks of them, with all the bad luck that it allows for.
//!
//! # Layout
//!
//! - `keys`, `budgets`, `breakers`: the callers of one service each
//! - `policies`: what is set before they begin

use std::rc::Rc;
use std::time::Duration;

use tonic::{Response, Status};
use tonic_types::StatusExt;

use crate::cluster::Cluster;
use crate::log::Promise;
use crate::network::Answer;
use crate::node::{Node, Services};
use crate::oracle::Span;
use crate::random::Random;
use crate::world::World;

pub(crate) mod breakers;
pub(crate) mod budgets;
pub(crate) mod keys;
pub(crate) mod policies;

/// The tenant of every load.
pub(crate) const TENANT: &str = "acme";

/// How long the cluster may take to answer once all faults are healed.
const ANSWERS_WITHIN_US: u64 = 3_000_000;

/// One caller: a process of a service that uses Semel.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) number: usize,
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) random: Random,
}

impl Caller {
    /// Any node.
    pub(crate) fn any_node(&mut self) -> usize {
        self.random.position(self.cluster.nodes.len())
    }

    /// Calls a node. The reason of a refusal comes in words.
    pub(crate) async fn call<R: 'static, F>(
        &mut self,
        node: usize,
        patience: Duration,
        ask: impl Fn(Rc<Services>) -> F + Clone + 'static,
    ) -> (Result<R, String>, Span)
    where
        F: Future<Output = Result<Response<R>, Status>> + 'static,
    {
        let sent_us = self.world.time.now_us();
        let answer = match self.cluster.node(node) {
            Some(node) => self.cluster.network.call(self.number, node, patience, ask).await,
            None => Answer::Lost,
        };
        let answer = match answer {
            Answer::Reply(reply) => Ok(reply),
            Answer::Refused(status) => Err(self.reason(&status)),
            Answer::Lost => Err(String::new()),
        };
        (answer, Span { sent_us, answered_us: self.world.time.now_us() })
    }

    fn reason(&self, status: &Status) -> String {
        let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
        if reason.ends_with("_INVALID") || matches!(&*reason, "" | "RECORD_UNREADABLE") {
            self.world.log.violated(Promise::Sound, format!("refused: {status}"));
        }
        reason
    }

    /// Waits as a caller does before it asks again.
    pub(crate) async fn pause(&mut self, most_ms: u64) {
        tokio::time::sleep(self.random.millis(1, most_ms)).await;
    }

    /// Asks every node until it answers, for as long as a healed cluster may take.
    pub(crate) async fn expect_answers<R: 'static, F>(
        &mut self,
        what: &str,
        ask: impl Fn(Rc<Services>) -> F + Clone + 'static,
    ) where
        F: Future<Output = Result<Response<R>, Status>> + 'static,
    {
        let since_us = self.world.time.now_us();
        for node in Rc::clone(&self.cluster.nodes).iter() {
            self.expect_answer(what, node, since_us, ask.clone()).await;
        }
    }

    async fn expect_answer<R: 'static, F>(
        &mut self,
        what: &str,
        node: &Rc<Node>,
        since_us: u64,
        ask: impl Fn(Rc<Services>) -> F + Clone + 'static,
    ) where
        F: Future<Output = Result<Response<R>, Status>> + 'static,
    {
        loop {
            let (answer, span) = self.call(node.number, Duration::from_secs(1), ask.clone()).await;
            let Err(reason) = answer else { return };
            if span.answered_us.saturating_sub(since_us) > ANSWERS_WITHIN_US {
                let seen = format!("{what}: node {} says {reason:?}", node.name());
                return self.world.log.violated(Promise::AnswersAgain, seen);
            }
            self.pause(200).await;
        }
    }
}

/// A span of time, as the wire has it.
pub(crate) fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or_default()
}

/// How long a span of the wire is, in microseconds.
pub(crate) fn micros(wire: Option<&prost_types::Duration>) -> u64 {
    let duration = wire.and_then(|wire| Duration::try_from(*wire).ok()).unwrap_or_default();
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A refusal of the simulation's own: try again.
pub(crate) fn unavailable(why: &str) -> Status {
    let info = tonic_types::ErrorDetails::with_error_info("STORE_UNAVAILABLE", "semel.v1", []);
    Status::with_error_details(tonic::Code::Unavailable, why, info)
}
