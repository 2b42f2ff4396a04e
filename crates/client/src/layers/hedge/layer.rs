use std::sync::Arc;
use std::time::Duration;

use tower::Layer;

use super::latencies::Latencies;
use super::service::HedgeService;
use crate::deadline::now;
use crate::layers::Retries;
use crate::metrics::{DependencyMetrics, Metrics};

/// When a call is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HedgeSettings {
    /// Slower than this part of the calls of late: 0 to 1. Default: 0.95.
    pub quantile: f64,
    /// Fewer calls than this tell nothing. Default: 20.
    pub calls_min: u32,
    /// For how long calls are remembered, at least; twice as long at most. Default: 10 s.
    pub period: Duration,
    /// No call is slow before this. Default: 1 ms.
    pub delay_min: Duration,
}

impl Default for HedgeSettings {
    fn default() -> Self {
        Self {
            quantile: 0.95,
            calls_min: 20,
            period: Duration::from_secs(10),
            delay_min: Duration::from_millis(1),
        }
    }
}

/// Sends slow calls a second time: see the [module](super).
#[derive(Clone, Debug)]
pub struct HedgeLayer<P> {
    pub(super) protocol: P,
    pub(super) retries: Retries,
    /// `None`: nothing is hedged.
    pub(super) latencies: Option<Arc<Latencies>>,
    pub(super) metrics: Option<DependencyMetrics>,
}

impl<P> HedgeLayer<P> {
    /// Calls of one dependency, whose hedges `retries` pays for. Without settings nothing is hedged.
    #[must_use]
    pub fn new(protocol: P, retries: Retries, settings: Option<HedgeSettings>) -> Self {
        let latencies = settings.map(|settings| Arc::new(Latencies::new(settings, now())));
        Self { protocol, retries, latencies, metrics: None }
    }

    /// Counts hedges, under the name of the dependency.
    #[must_use]
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.dependency(self.retries.dependency()));
        self
    }
}

impl<S, P: Clone> Layer<S> for HedgeLayer<P> {
    type Service = HedgeService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        HedgeService::new(inner, self.clone())
    }
}
