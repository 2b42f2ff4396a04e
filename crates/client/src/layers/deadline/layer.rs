use std::time::Duration;

use tower::Layer;

use super::service::DeadlineService;
use crate::metrics::{DependencyMetrics, Metrics, Step};

/// Bounds calls in time: see the [module](super).
#[derive(Clone, Debug)]
pub struct DeadlineLayer<P> {
    pub(super) protocol: P,
    pub(super) limit: Option<Duration>,
    pub(super) step: Step,
    pub(super) carries_root: bool,
    pub(super) metrics: Option<DependencyMetrics>,
}

impl<P> DeadlineLayer<P> {
    /// Bounds whole operations, with all their attempts and waits. `None`: the current deadline alone does.
    #[must_use]
    pub fn operation(protocol: P, limit: impl Into<Option<Duration>>) -> Self {
        Self::of(protocol, limit.into(), Step::Operation)
    }

    /// Bounds each attempt. `None`: what is left of the operation does.
    #[must_use]
    pub fn attempt(protocol: P, limit: impl Into<Option<Duration>>) -> Self {
        Self::of(protocol, limit.into(), Step::Attempt)
    }

    fn of(protocol: P, limit: Option<Duration>, step: Step) -> Self {
        Self { protocol, limit, step, carries_root: step == Step::Attempt, metrics: None }
    }

    /// Keeps the root and the criticality to this process: for a dependency that is not of this fleet, which
    /// would neither need them nor return the retries that it does not use.
    #[must_use]
    pub fn without_root(mut self) -> Self {
        self.carries_root = false;
        self
    }

    /// Measures durations and what is left, under the name of this dependency.
    #[must_use]
    pub fn measured(mut self, metrics: &Metrics, dependency: &str) -> Self {
        self.metrics = Some(metrics.dependency(dependency));
        self
    }
}

impl<S, P: Clone> Layer<S> for DeadlineLayer<P> {
    type Service = DeadlineService<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService::new(inner, self.clone())
    }
}
