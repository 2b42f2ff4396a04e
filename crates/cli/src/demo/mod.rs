//! `semel demo`: an impatient client, a slow payment provider, and what a key changes.
//!
//! A charge takes 1,500 ms. The client waits 1,000 ms for it and tries three times. That plays three
//! times over: without a key, with one key for all attempts, and with one key and `wait`. The node is
//! a real one, in this process, with a store in a temporary directory, and spoken to over gRPC. What
//! is shown is measured as it happens.
//!
//! # Layout
//!
//! - `provider`, `service`, `client`: the three parties, in the order of a call from its far end
//! - `timeline`: what they say, as it happens
//! - `report`: what it came to

mod client;
mod provider;
mod report;
mod service;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use semel_proto::v1::keys_client::KeysClient;
use semel_server::{Node, NodeOptions};
use semel_store::{EmbeddedOptions, EmbeddedStore, SystemClock};
use tempfile::TempDir;

use self::client::pay;
use self::provider::Provider;
use self::report::{Report, Row};
use self::service::{ChargeService, Keys};
use self::timeline::Timeline;
use crate::entropy::random;
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::output::{Output, STRONG};
use crate::stop::current_thread_runtime;
use crate::target::connect;

const WAIT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  semel demo
  semel demo --json

It takes about ten seconds, needs no node, and leaves nothing behind.";

/// The arguments of `semel demo`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {}

impl DemoArgs {
    /// Plays it, and says what it came to.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let stage = Stage::build()?;
        let report = current_thread_runtime()?.block_on(stage.play(output));
        stage.clear();
        let report = report?;
        output.reply(&report)?;
        Ok(if report.kept_its_promise() { Exit::Done } else { Exit::No })
    }
}

/// A node of the demo's own.
struct Stage {
    node: Node,
    store: EmbeddedStore,
    data: TempDir,
}

impl Stage {
    fn build() -> Result<Self, Failure> {
        let broken = |error: &dyn std::error::Error| Failure::broken(whole(error));
        let data = TempDir::with_prefix("semel-demo-").map_err(|error| broken(&error))?;
        let store = EmbeddedStore::open(EmbeddedOptions::new(data.path()))
            .map_err(|error| broken(&error))?;
        let options = NodeOptions { listen: ([127, 0, 0, 1], 0).into(), ..NodeOptions::default() };
        let seed = u64::from_le_bytes(random()?);
        let node = Node::start(Arc::new(store.clone()), Arc::new(SystemClock), seed, options)
            .map_err(|error| broken(&error))?;
        Ok(Self { node, store, data })
    }

    fn clear(self) {
        self.node.shutdown();
        self.store.close();
        drop(self.data);
    }

    async fn play(&self, output: &mut Output) -> Result<Report, Failure> {
        let channel = connect(&format!("http://{}", self.node.local_addr())).await?;
        let keys = |wait| Some(Keys { client: KeysClient::new(channel.clone()), wait });
        output.live(|page| {
            page.line(
                "A charge takes 1,500 ms. The client waits 1,000 ms for it, and tries three times.",
            )
        })?;
        Ok(Report {
            without_key: scene("1. Without a key", "order-1", None, output).await?,
            with_key: scene("2. One key for all attempts", "order-2", keys(None), output).await?,
            with_wait: scene(
                "3. The same, and the claim waits",
                "order-3",
                keys(Some(WAIT)),
                output,
            )
            .await?,
        })
    }
}

/// Plays one scene to its end: also what goes on after the client has given up.
async fn scene(
    title: &str,
    order: &'static str,
    keys: Option<Keys>,
    output: &mut Output,
) -> Result<Row, Failure> {
    output.live(|page| page.line(format!("\n{STRONG}{title}{STRONG:#}")))?;
    let (timeline, transcript) = Timeline::begin();
    let play = async move {
        let provider = Provider::new(timeline.clone());
        let service = ChargeService::new(provider.clone(), keys, timeline.clone());
        let payment = pay(&service, order, &timeline).await;
        service.finish().await;
        Row::new(payment, provider.charges())
    };
    let (row, shown) = tokio::join!(play, transcript.show(output));
    shown?;
    Ok(row)
}
