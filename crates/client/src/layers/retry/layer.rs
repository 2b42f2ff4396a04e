use tower::Layer;

use super::retries::Retries;
use super::service::RetryService;
use crate::metrics::{DependencyMetrics, Metrics};

/// Sends failed calls again: see the [module](super).
#[derive(Clone, Debug)]
pub struct RetryLayer<P> {
    pub(super) protocol: P,
    pub(super) retries: Retries,
    pub(super) metrics: Option<DependencyMetrics>,
}

impl<P> RetryLayer<P> {
    /// Calls of one dependency, by what `retries` decides.
    #[must_use]
    pub const fn new(protocol: P, retries: Retries) -> Self {
        Self { protocol, retries, metrics: None }
    }

    /// Counts what was decided, under the name of the dependency.
    #[must_use]
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.dependency(self.retries.dependency()));
        self
    }
}

impl<S, P: Clone> Layer<S> for RetryLayer<P> {
    type Service = RetryService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService::new(inner, self.clone())
    }
}
