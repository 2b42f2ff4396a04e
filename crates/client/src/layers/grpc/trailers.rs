//! What is still to come of an answer of gRPC when its head is there: messages, and the status in its trailers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::Status;

use crate::failure::{Failure, FailureKind, failure_of_status};

/// Who waits for the end.
type Listener = Box<dyn FnOnce(Option<Failure>) + Send>;

/// What is still to come of an answer, in its extensions. It is told once: as the status in the trailers; a body
/// that is dropped earlier was good if a message had come, and else the caller lost interest.
#[derive(Clone)]
pub struct Trailers(Arc<Mutex<Vec<Waiting>>>);

struct Waiting {
    listener: Listener,
    /// The first message is enough.
    is_hasty: bool,
}

impl Trailers {
    /// Tells `listener` what the call came to; if it is hasty, a first message is as good as the end.
    pub(crate) fn tell(&self, is_hasty: bool, listener: Listener) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Waiting { listener, is_hasty });
    }

    fn told(&self, failure: Option<Failure>, is_over: bool) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ready: Vec<_> = waiting.extract_if(.., |one| is_over || one.is_hasty).collect();
        drop(waiting);
        ready.into_iter().for_each(|one| (one.listener)(failure));
    }
}

pin_project! {
    /// The body of an answer whose end the layers are told.
    #[derive(Debug)]
    pub struct ToldBody<B> {
        #[pin]
        body: B,
        end: End,
    }
}

#[derive(Debug)]
struct End {
    trailers: Trailers,
    is_good_so_far: bool,
}

impl<B> ToldBody<B> {
    /// The answer with such a body.
    pub(super) fn of(answer: Response<B>) -> Response<Self> {
        let trailers = Trailers(Arc::default());
        let is_good_so_far = Status::from_header_map(answer.headers()).is_some();
        let (mut head, body) = answer.into_parts();
        head.extensions.insert(trailers.clone());
        Response::from_parts(head, Self { body, end: End { trailers, is_good_so_far } })
    }
}

impl<B: Body> Body for ToldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => match frame.trailers_ref() {
                Some(trailers) => this.end.trailers.told(status_in(trailers), true),
                None if !this.end.is_good_so_far => {
                    this.end.is_good_so_far = true;
                    this.end.trailers.told(None, false);
                }
                None => {}
            },
            // It broke on its way.
            Some(Err(_)) => {
                this.end.trailers.told(Some(Failure::of(FailureKind::UnknownOutcome)), true);
            }
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn status_in(trailers: &HeaderMap) -> Option<Failure> {
    failure_of_status(&Status::from_header_map(trailers)?)
}

impl Drop for End {
    fn drop(&mut self) {
        let given_up = (!self.is_good_so_far).then_some(Failure::of(FailureKind::Cancelled));
        self.trailers.told(given_up, true);
    }
}

impl std::fmt::Debug for Trailers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Trailers").finish_non_exhaustive()
    }
}
