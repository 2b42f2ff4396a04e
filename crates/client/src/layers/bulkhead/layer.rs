use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tower::Layer;

use super::service::BulkheadService;
use crate::metrics::{DependencyMetrics, Metrics};

/// Bounds how many calls are under way: see the [module](super).
#[derive(Clone, Debug)]
pub struct BulkheadLayer(pub(super) Arc<Bulkhead>);

#[derive(Clone, Debug)]
pub(super) struct Bulkhead {
    pub(super) places: Arc<Semaphore>,
    /// So many more may wait.
    pub(super) seats: Arc<Semaphore>,
    pub(super) wait: Duration,
    pub(super) metrics: Option<DependencyMetrics>,
}

impl BulkheadLayer {
    /// At most `places` calls at once, at least 1; others wait for a place, for at most `wait`.
    #[must_use]
    pub fn new(places: usize, wait: Duration) -> Self {
        let semaphore = || Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)));
        Self(Arc::new(Bulkhead { places: semaphore(), seats: semaphore(), wait, metrics: None }))
    }

    /// Measures calls under way and refusals, under the name of this dependency.
    #[must_use]
    pub fn measured(self, metrics: &Metrics, dependency: &str) -> Self {
        let metrics = Some(metrics.dependency(dependency));
        Self(Arc::new(Bulkhead { metrics, ..Bulkhead::clone(&self.0) }))
    }
}

impl<S> Layer<S> for BulkheadLayer {
    type Service = BulkheadService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BulkheadService::new(inner, Arc::clone(&self.0))
    }
}
