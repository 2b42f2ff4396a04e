//! A clock on tokio's time, and a client of a node, driven for as long as a test works with it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use semel_client::breakers::{BreakerSettings, Breakers};
use semel_client::layers::{Retries, Stack};
use semel_client::tokens::{RetryTokens, Settings};
use semel_client::{Clock, Dice};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// Tokio's clock, which tests can stop.
pub(crate) struct TokioClock(Instant);

#[expect(clippy::disallowed_methods, reason = "the clock of these tests")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl TokioClock {
    pub(crate) fn start() -> Arc<dyn Clock> {
        Arc::new(Self(now()))
    }
}

impl Clock for TokioClock {
    fn monotonic_us(&self) -> u64 {
        u64::try_from(now().duration_since(self.0).as_micros()).unwrap()
    }
}

/// What a process has of Semel.
pub(crate) struct Client {
    pub(crate) tokens: RetryTokens,
    pub(crate) breakers: Breakers,
    channel: Channel,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Self {
        let clock = TokioClock::start();
        let tokens = RetryTokens::new(channel.clone(), Settings::new([1; 16]), Arc::clone(&clock));
        let settings = BreakerSettings::new("acme", [2; 16]);
        let breakers = Breakers::new(channel.clone(), settings, clock, Dice::seeded(3));
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
