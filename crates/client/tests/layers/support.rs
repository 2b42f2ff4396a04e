//! A client of a node, driven for as long as a test works with it.

use std::time::Duration;

use futures::future::LocalBoxFuture;
use semel_client::Dice;
use semel_client::breakers::{BreakerSettings, Breakers};
use semel_client::layers::{Retries, Stack};
use semel_client::tokens::{RetryTokenSettings, RetryTokens};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

#[expect(clippy::disallowed_methods, reason = "the clock of these tests")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What a process has of Semel.
pub(crate) struct Client {
    pub(crate) tokens: RetryTokens,
    pub(crate) breakers: Breakers,
    channel: Channel,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Self {
        let tokens = RetryTokens::new(channel.clone(), [1; 16], RetryTokenSettings::default());
        let settings = BreakerSettings::default();
        let breakers = Breakers::new(channel.clone(), "acme", settings, Dice::seeded(3));
        Self { tokens, breakers, channel }
    }

    pub(crate) fn stack<P: Clone>(&self, protocol: P) -> Stack<P> {
        let budget = self.tokens.budget("acme", "stripe").unwrap();
        let retries = Retries::new(budget, Dice::seeded(4)).asking(self.channel.clone());
        Stack::new(protocol, retries, self.breakers.breaker("stripe").unwrap())
    }

    /// Drives the client while `work` is done, closes it, and waits for its end.
    pub(crate) fn driven<'a, T: 'a>(
        &'a self,
        work: impl Future<Output = T> + 'a,
    ) -> LocalBoxFuture<'a, T> {
        let closing = CancellationToken::new();
        let closed = closing.clone();
        Box::pin(async move {
            let work = async {
                let done = work.await;
                closing.cancel();
                done
            };
            let tokens = self.tokens.run(closed.cancelled());
            let breakers = self.breakers.run(closed.cancelled());
            let all = async { tokio::join!(work, tokens, breakers) };
            tokio::time::timeout(Duration::from_secs(3_600), all).await.expect("the client hangs").0
        })
    }
}
