use std::time::Duration;

use tower::Layer;

use super::service::Stacked;
use crate::breakers::Breaker;
use crate::layers::{
    BreakerLayer, BulkheadLayer, DeadlineLayer, HedgeLayer, HedgeSettings, Retries, RetryLayer,
};
use crate::metrics::Metrics;

/// Calls under way at once unless said otherwise.
const PLACES: usize = 256;
/// How long a call waits for a place unless said otherwise.
const WAIT: Duration = Duration::from_millis(100);

/// All layers of one dependency, in this order: deadline of the operation, bulkhead, retry, hedge, breaker,
/// deadline of the attempt. All services that one stack makes share its places and latencies.
#[derive(Clone, Debug)]
pub struct Stack<P> {
    protocol: P,
    retries: Retries,
    breaker: Breaker,
    operation: Option<Duration>,
    attempt: Option<Duration>,
    bulkhead: BulkheadLayer,
    hedge: HedgeLayer<P>,
    metrics: Metrics,
    is_outside: bool,
}

impl<P: Clone> Stack<P> {
    /// Calls of one dependency. Unless said otherwise: bounded in time by the current deadline only, 256 at
    /// once, others wait for 100 ms, nothing is hedged, and the application's meter provider measures.
    #[must_use]
    pub fn new(protocol: P, retries: Retries, breaker: Breaker) -> Self {
        let retries = retries.behind(breaker.clone());
        let hedge = HedgeLayer::new(protocol.clone(), retries.clone(), None);
        Self {
            protocol,
            retries,
            breaker,
            operation: None,
            attempt: None,
            bulkhead: BulkheadLayer::new(PLACES, WAIT),
            hedge,
            metrics: Metrics::global(),
            is_outside: false,
        }
    }

    /// Bounds each operation, with all its attempts and waits.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.operation = Some(limit);
        self
    }

    /// Bounds each attempt. Without this, one attempt that hangs takes the whole operation.
    #[must_use]
    pub const fn attempt_within(mut self, limit: Duration) -> Self {
        self.attempt = Some(limit);
        self
    }

    /// At most `places` calls at once; others wait for a place for at most `wait`.
    #[must_use]
    pub fn bulkhead(mut self, places: usize, wait: Duration) -> Self {
        self.bulkhead = BulkheadLayer::new(places, wait);
        self
    }

    /// Hedges slow attempts.
    #[must_use]
    pub fn hedged(mut self, settings: HedgeSettings) -> Self {
        let protocol = self.protocol.clone();
        self.hedge = HedgeLayer::new(protocol, self.retries.clone(), Some(settings));
        self
    }

    /// Measures with these instruments.
    #[must_use]
    pub fn measured(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The dependency is not of this fleet: it is told neither the root of the call tree nor how much a call
    /// matters.
    #[must_use]
    pub const fn outside(mut self) -> Self {
        self.is_outside = true;
        self
    }

    fn attempt(&self) -> DeadlineLayer<P> {
        let layer = DeadlineLayer::attempt(self.protocol.clone(), self.attempt)
            .measured(&self.metrics, self.retries.dependency());
        if self.is_outside { layer.without_root() } else { layer }
    }
}

impl<S, P: Clone> Layer<S> for Stack<P> {
    type Service = Stacked<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let (metrics, dependency) = (&self.metrics, self.retries.dependency());
        let protocol = || self.protocol.clone();
        let attempt = self.attempt().layer(inner);
        let breaker = BreakerLayer::new(protocol(), self.breaker.clone()).measured(metrics);
        let hedge = self.hedge.clone().measured(metrics).layer(breaker.layer(attempt));
        let retry = RetryLayer::new(protocol(), self.retries.clone()).measured(metrics);
        let bulkhead = self.bulkhead.clone().measured(metrics, dependency);
        let operation =
            DeadlineLayer::operation(protocol(), self.operation).measured(metrics, dependency);
        Stacked(operation.layer(bulkhead.layer(retry.layer(hedge))))
    }
}
