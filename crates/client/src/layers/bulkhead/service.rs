use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tower::Service;

use super::future::ResponseFuture;
use super::layer::Bulkhead;
use crate::layers::{BoxError, Refused};
use crate::metrics::DependencyMetrics;

/// Bounds how many calls are under way: see the [module](super).
#[derive(Clone, Debug)]
pub struct BulkheadService<S> {
    inner: S,
    bulkhead: Arc<Bulkhead>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    metrics: Option<DependencyMetrics>,
}

impl<S> BulkheadService<S> {
    pub(super) const fn new(inner: S, bulkhead: Arc<Bulkhead>) -> Self {
        Self { inner, bulkhead }
    }
}

impl Bulkhead {
    fn place(&self, permit: OwnedSemaphorePermit) -> Place {
        let metrics = self.metrics.clone();
        if let Some(metrics) = &metrics {
            metrics.in_flight(1);
        }
        Place { _permit: permit, metrics }
    }

    fn refuse(&self) -> Refused {
        if let Some(metrics) = &self.metrics {
            metrics.refused(Refused::BulkheadFull.reason());
        }
        Refused::BulkheadFull
    }

    /// Waits for a place on a seat that the caller has.
    async fn wait(&self, seat: OwnedSemaphorePermit) -> Result<Place, Refused> {
        let permit = timeout(self.wait, Arc::clone(&self.places).acquire_owned()).await;
        drop(seat);
        permit
            .ok()
            .and_then(Result::ok)
            .map(|permit| self.place(permit))
            .ok_or_else(|| self.refuse())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.in_flight(-1);
        }
    }
}

impl<S, R> Service<R> for BulkheadService<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let bulkhead = &self.bulkhead;
        if let Ok(permit) = Arc::clone(&bulkhead.places).try_acquire_owned() {
            return ResponseFuture::running(self.inner.call(request), bulkhead.place(permit));
        }
        let Ok(seat) = Arc::clone(&bulkhead.seats).try_acquire_owned() else {
            return ResponseFuture::refused(bulkhead.refuse());
        };
        let bulkhead = Arc::clone(bulkhead);
        // The service that is ready goes along; its clone has to become ready anew.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        ResponseFuture::waiting(Box::pin(async move {
            let _place = bulkhead.wait(seat).await?;
            inner.call(request).await.map_err(Into::into)
        }))
    }
}
