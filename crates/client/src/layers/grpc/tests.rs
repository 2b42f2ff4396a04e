use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use tonic::Status;
use tonic::body::Body;

use super::ReplayBody;

/// Gives these frames, and nothing yet in the place of a `None`.
struct Frames(VecDeque<Option<&'static str>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Some(text)) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
            }
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

fn read(frames: &[Option<&'static str>]) -> ReplayBody {
    ReplayBody::read(Body::new(Frames(frames.iter().copied().collect())))
}

async fn text(body: ReplayBody) -> String {
    let bytes = body.collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_body_that_is_there_at_once_can_be_read_twice() {
    let body = read(&[Some("one "), Some("two")]);
    assert!(body.is_whole());
    assert_eq!(http_body::Body::size_hint(&body).exact(), Some(7));
    assert_eq!(text(body.clone()).await, "one two");
    assert_eq!(text(body).await, "one two");
}

#[tokio::test]
async fn a_stream_is_not_waited_for_and_is_read_to_its_end_once() {
    let body = read(&[Some("one "), None, Some("two")]);
    assert!(!body.is_whole());
    assert_eq!(text(body).await, "one two");
}
