use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// The largest body that is kept to be sent again, in bytes.
const KEPT_MAX: usize = 1 << 20;

/// A body of a request that can be sent again, if it is whole. Copies of one that isn't share what comes
/// later: only one of them may be sent.
#[derive(Clone, Debug)]
pub struct ReplayBody {
    frames: VecDeque<Bytes>,
    rest: Option<Arc<Mutex<Body>>>,
    /// It ends in this.
    error: Option<Status>,
}

impl ReplayBody {
    /// Takes all of a body that is there at once.
    pub(super) fn read(mut body: Body) -> Self {
        let mut context = Context::from_waker(Waker::noop());
        let (mut frames, mut size) = (VecDeque::new(), 0);
        while size <= KEPT_MAX {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Ready(None) => return Self { frames, rest: None, error: None },
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        size += data.len();
                        frames.push_back(data);
                    }
                    // A request of gRPC has no trailers.
                    Err(_) => return Self { frames, rest: None, error: None },
                },
                Poll::Ready(Some(Err(status))) => {
                    return Self { frames, rest: None, error: Some(status) };
                }
                Poll::Pending => break,
            }
        }
        Self { frames, rest: Some(Arc::new(Mutex::new(body))), error: None }
    }

    /// Whether it can be sent again.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

impl http_body::Body for ReplayBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let Some(rest) = &self.rest else { return Poll::Ready(self.error.take().map(Err)) };
        Pin::new(&mut *rest.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.is_whole() && self.error.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let there = self.frames.iter().map(Bytes::len).sum::<usize>();
        let there = u64::try_from(there).unwrap_or(u64::MAX);
        if self.is_whole() {
            return SizeHint::with_exact(there);
        }
        let mut hint = SizeHint::new();
        hint.set_lower(there);
        hint
    }
}
