//! An answer, read as far as it can be stored.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// The body of an answer: the handler's own, or one that was stored.
#[derive(Debug)]
pub struct AnswerBody<B> {
    bytes: Bytes,
    trailers: Option<HeaderMap>,
    /// What comes after the bytes.
    rest: Option<Pin<Box<B>>>,
}

impl<B> AnswerBody<B> {
    /// All that there is.
    pub(super) const fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { bytes, trailers, rest: None }
    }

    /// A body that is handed on unread.
    pub(super) fn unread(body: B) -> Self {
        Self { bytes: Bytes::new(), trailers: None, rest: Some(Box::pin(body)) }
    }

    /// The bytes and the trailers, unless there is more to come.
    pub(super) fn all(&self) -> Option<(&Bytes, Option<&HeaderMap>)> {
        self.rest.is_none().then_some((&self.bytes, self.trailers.as_ref()))
    }
}

impl<B: Body<Data = Bytes>> AnswerBody<B> {
    /// Reads an answer to its end, or until it is longer than `max` bytes: what is longer still goes to
    /// whoever waits for it.
    pub(super) async fn read(answer: Response<B>, max: usize) -> Result<Response<Self>, B::Error> {
        let (parts, body) = answer.into_parts();
        let (mut rest, mut read, mut trailers) = (Box::pin(body), BytesMut::new(), None);
        while let Some(frame) = rest.frame().await {
            match frame?.into_data() {
                Ok(data) => read.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
            if read.len() > max {
                let body = Self { bytes: read.freeze(), trailers: None, rest: Some(rest) };
                return Ok(Response::from_parts(parts, body));
            }
        }
        Ok(Response::from_parts(parts, Self::whole(read.freeze(), trailers)))
    }
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.bytes.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(context),
            None => Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let read = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;

    use super::*;

    type Frames = Vec<Result<Frame<Bytes>, Infallible>>;

    fn frames() -> Frames {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let data = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
        vec![data("abc"), data("def"), Ok(Frame::trailers(trailers))]
    }

    async fn read(max: usize) -> AnswerBody<impl Body<Data = Bytes, Error = Infallible>> {
        let body = StreamBody::new(stream::iter(frames()));
        AnswerBody::read(Response::new(body), max).await.unwrap().into_body()
    }

    #[tokio::test]
    async fn what_fits_is_all_there_and_what_does_not_is_handed_on_whole() {
        let fits = read(6).await;
        let (bytes, trailers) = fits.all().unwrap();
        assert_eq!(&bytes[..], b"abcdef");
        assert_eq!(trailers.unwrap()["grpc-status"], "0");
        assert_eq!(fits.size_hint().exact(), Some(6));
        for max in [6, 5, 2, 0] {
            let body = read(max).await;
            assert_eq!(body.all().is_some(), max == 6);
            let collected = body.collect().await.unwrap();
            assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
            assert_eq!(&collected.to_bytes()[..], b"abcdef", "{max}");
        }
    }
}
