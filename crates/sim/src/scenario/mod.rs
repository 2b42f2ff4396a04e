//! Experiments with a known answer, played on the code of real nodes.
//!
//! # Layout
//!
//! - `retry_storm`: 40 clients, and a provider that comes back: four ways to retry
//! - `total_outage`: all that a budget lets through while nothing works
//! - `layers`: three layers that retry, one inside the other
//! - `fleet`: one budget of many nodes and very many clients
//! - `plot`, `spread`: what came of them, as a picture and over many seeds

use std::io;
use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::breakers_server::Breakers as _;
use semel_proto::v1::retries_server::Retries as _;
use tonic::Request;

use crate::cluster::Cluster;
use crate::load::{Caller, TENANT};
use crate::network::Weather;
use crate::node::Services;
use crate::random::Random;
use crate::world::World;

pub mod fleet;
pub mod layers;
pub mod plot;
pub mod retry_storm;
pub mod spread;
pub mod total_outage;

/// The dependency of every experiment.
const DEPENDENCY: &str = "provider";
/// How long a call to a node may take: nothing is lost here.
const PATIENCE: Duration = Duration::from_secs(5);

/// A cluster without faults, and callers at hand.
struct Stage {
    world: World,
    cluster: Cluster,
    random: Random,
    callers: usize,
}

impl Stage {
    fn new(world: &World, nodes: usize, seed: u64) -> io::Result<Self> {
        let mut random = Random::new(seed);
        let cluster = Cluster::start(world, nodes, random.fork()).map_err(io::Error::other)?;
        cluster.network.set_weather(Weather { delay_max_ms: 2, ..Weather::default() });
        Ok(Self { world: world.clone(), cluster, random, callers: 0 })
    }

    fn caller(&mut self) -> Caller {
        self.callers += 1;
        Caller {
            number: self.callers - 1,
            world: self.world.clone(),
            cluster: self.cluster.clone(),
            random: self.random.fork(),
        }
    }

    async fn set_retry_policy(&mut self, policy: v1::RetryPolicy) -> io::Result<()> {
        let sent = v1::SetRetryPolicyRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            policy: Some(policy),
            expected_version: None,
            actor: "sim".to_owned(),
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.retries().set_retry_policy(Request::new(sent)).await }
        };
        let (answer, _) = self.caller().call(0, PATIENCE, ask).await;
        answer.map(drop).map_err(io::Error::other)
    }

    async fn set_breaker_policy(&mut self, policy: v1::BreakerPolicy) -> io::Result<()> {
        let sent = v1::SetBreakerPolicyRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            policy: Some(policy),
            expected_version: None,
            actor: "sim".to_owned(),
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.breakers().set_breaker_policy(Request::new(sent)).await }
        };
        let (answer, _) = self.caller().call(0, PATIENCE, ask).await;
        answer.map(drop).map_err(io::Error::other)
    }
}

/// Asks `node` whether a request may be sent again. Nothing is lost here: no answer is a denial.
async fn acquire(
    caller: &mut Caller,
    node: usize,
    request: v1::AcquireRetryTokenRequest,
) -> v1::AcquireRetryTokenResponse {
    let ask = move |services: Rc<Services>| {
        let sent = request.clone();
        async move { services.retries().acquire_retry_token(Request::new(sent)).await }
    };
    caller.call(node, PATIENCE, ask).await.0.unwrap_or_default()
}

/// A question after a failed attempt, the outcome of which nobody knows.
fn question(request_id: bytes::Bytes, attempt: u32) -> v1::AcquireRetryTokenRequest {
    let kind = v1::FailureKind::UnknownOutcome.into();
    v1::AcquireRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: DEPENDENCY.to_owned(),
        request_id,
        failure: Some(v1::Failure { kind, server_delay: None }),
        repeatable: true,
        attempt,
        ..Default::default()
    }
}

/// A span of the wire, if it is there.
fn span(wire: Option<prost_types::Duration>) -> Option<Duration> {
    wire.and_then(|wire| Duration::try_from(wire).ok())
}
