use tower::Layer;

use super::service::BreakerService;
use crate::breakers::Breaker;
use crate::metrics::{DependencyMetrics, Metrics};

/// Sends calls only while they are worth it: see the [module](super).
#[derive(Clone, Debug)]
pub struct BreakerLayer<P> {
    pub(super) protocol: P,
    pub(super) breaker: Breaker,
    pub(super) metrics: Option<DependencyMetrics>,
}

impl<P> BreakerLayer<P> {
    /// Calls of one dependency, behind its breaker.
    #[must_use]
    pub const fn new(protocol: P, breaker: Breaker) -> Self {
        Self { protocol, breaker, metrics: None }
    }

    /// Counts refusals, under the name of the dependency.
    #[must_use]
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.dependency(self.breaker.dependency()));
        self
    }
}

impl<S, P: Clone> Layer<S> for BreakerLayer<P> {
    type Service = BreakerService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        BreakerService::new(inner, self.clone())
    }
}
