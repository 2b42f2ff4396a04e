use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use pin_project_lite::pin_project;

use super::service::Place;
use crate::layers::{BoxError, Refused};

pin_project! {
    /// The future of [`BulkheadService`](crate::layers::BulkheadService).
    pub struct ResponseFuture<F, T> {
        #[pin]
        state: State<F, T>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, T> {
        Running { #[pin] future: F, place: Option<Place> },
        Waiting { future: BoxFuture<'static, Result<T, BoxError>> },
        Refused { refused: Refused },
    }
}

impl<F, T> ResponseFuture<F, T> {
    pub(super) const fn running(future: F, place: Place) -> Self {
        Self { state: State::Running { future, place: Some(place) } }
    }

    pub(super) const fn waiting(future: BoxFuture<'static, Result<T, BoxError>>) -> Self {
        Self { state: State::Waiting { future } }
    }

    pub(super) const fn refused(refused: Refused) -> Self {
        Self { state: State::Refused { refused } }
    }
}

impl<F, T, E> Future for ResponseFuture<F, T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Running { future, place } => {
                let polled = future.poll(cx).map_err(Into::into);
                if polled.is_ready() {
                    place.take();
                }
                polled
            }
            StateProj::Waiting { future } => future.as_mut().poll(cx),
            StateProj::Refused { refused } => Poll::Ready(Err((*refused).into())),
        }
    }
}

impl<F, T> std::fmt::Debug for ResponseFuture<F, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
