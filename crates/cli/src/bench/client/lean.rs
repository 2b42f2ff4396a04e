//! A client written for throughput: HTTP/2 without a framework, and connections that never change threads.
//!
//! All answers that one read brings in are judged, and their callers' next requests queued, before the
//! connection has its turn again: so they share one write. That holds on a runtime of one thread only.
//!
//! It speaks as much of gRPC as a measurement needs: no deadlines, no compression, no metadata. A connection
//! that breaks stays broken; each further call over it is an error.

use std::future::poll_fn;
use std::thread::JoinHandle;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use tonic::codegen::http::uri::{Authority, PathAndQuery, Scheme};
use tonic::codegen::http::{Method, Request, Uri};
use tonic::{Code, Status};

use crate::failure::Failure;
use crate::stop::current_thread_runtime;
use crate::target::dial;

/// What a server may send of one answer, and of all of a connection, before it must wait: so much that it
/// never does.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Before each message of gRPC: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

/// A thread that drives connections until it is dropped.
pub(super) struct Thread {
    runtime: Handle,
    connections: JoinSet<()>,
    closing: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts without connections.
    pub(super) fn start() -> Result<Self, Failure> {
        let runtime = current_thread_runtime()?;
        let handle = runtime.handle().clone();
        let closing = CancellationToken::new();
        let closed = closing.clone();
        let thread = std::thread::Builder::new()
            .name("lean-client".to_owned())
            .spawn(move || runtime.block_on(closed.cancelled()))
            .map_err(|error| Failure::broken(format!("starting a thread failed: {error}")))?;
        Ok(Self { runtime: handle, connections: JoinSet::new(), closing, thread: Some(thread) })
    }

    /// Where its work is done.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Opens a connection to the server at `target`.
    pub(super) async fn connect(&mut self, target: &str) -> Result<Stub, Failure> {
        let (opened, opening) = oneshot::channel();
        self.connections.spawn_on(drive(target.to_owned(), opened), &self.runtime);
        opening.await.map_err(|_| Failure::broken("a thread of the client ended"))?
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.closing.cancel();
        if let Some(thread) = self.thread.take() {
            // Its panic is not hidden: whatever it drove has failed by then.
            let _ = thread.join();
        }
    }
}

/// Opens a connection, says so, and drives it until it ends.
async fn drive(target: String, opened: oneshot::Sender<Result<Stub, Failure>>) {
    let opening = async {
        let (stream, authority) = dial(&target).await?;
        let (send, driver) = handshake(stream)
            .await
            .map_err(|error| Failure::unreachable(&target, &error.to_string()))?;
        Ok((Stub { send, authority, heads: Vec::new() }, driver))
    };
    // Nobody listens any more if the run was stopped meanwhile.
    match opening.await {
        Ok((stub, driver)) => {
            let _ = opened.send(Ok(stub));
            // Each call in flight is told how it ended.
            let _ = driver.await;
        }
        Err(failure) => {
            let _ = opened.send(Err(failure));
        }
    }
}

type Driver = h2::client::Connection<TcpStream, Bytes>;

async fn handshake(stream: TcpStream) -> Result<(SendRequest<Bytes>, Driver), h2::Error> {
    Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .enable_push(false)
        .handshake(stream)
        .await
}

/// Sends calls over a connection.
#[derive(Clone)]
pub(crate) struct Stub {
    send: SendRequest<Bytes>,
    authority: Authority,
    /// The head of a request for each method that was called.
    heads: Vec<(&'static str, Request<()>)>,
}

impl Stub {
    /// One call of the method at `path`.
    pub(super) async fn unary<Q: Message, A: Message + Default>(
        &mut self,
        path: &'static str,
        request: &Q,
    ) -> Result<A, Status> {
        poll_fn(|context| self.send.poll_ready(context)).await.map_err(broken)?;
        let head = self.head(path)?;
        let (response, mut body) = self.send.send_request(head, false).map_err(broken)?;
        body.send_data(framed(request)?, true).map_err(broken)?;
        let (head, body) = response.await.map_err(broken)?.into_parts();
        let (message, trailers) = collected(body).await?;
        succeeded(trailers.as_ref().unwrap_or(&head.headers))?;
        A::decode(unframed(message)?).map_err(|error| Status::internal(error.to_string()))
    }

    fn head(&mut self, path: &'static str) -> Result<Request<()>, Status> {
        if let Some((_, head)) = self.heads.iter().find(|(known, _)| *known == path) {
            return Ok(head.clone());
        }
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(PathAndQuery::from_static(path))
            .build()
            .map_err(|error| Status::internal(error.to_string()))?;
        let mut head = Request::new(());
        *head.method_mut() = Method::POST;
        *head.uri_mut() = uri;
        head.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        self.heads.push((path, head.clone()));
        Ok(head)
    }
}

fn broken(error: h2::Error) -> Status {
    Status::from_error(error.into())
}

/// The message with its prefix.
fn framed(message: &impl Message) -> Result<Bytes, Status> {
    let message_bytes = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message_bytes);
    let length = u32::try_from(message_bytes)
        .map_err(|_| Status::resource_exhausted("the request is too long"))?;
    frame.put_u8(0);
    frame.put_u32(length);
    message.encode(&mut frame).map_err(|error| Status::internal(error.to_string()))?;
    Ok(frame.freeze())
}

/// The one message that an answer must consist of.
fn unframed(mut body: Bytes) -> Result<Bytes, Status> {
    let (Ok(compressed), Ok(length)) = (body.try_get_u8(), body.try_get_u32()) else {
        return Err(Status::internal("an answer without a message"));
    };
    if compressed != 0 {
        return Err(Status::internal("a compressed answer to a client that takes none"));
    }
    if usize::try_from(length) != Ok(body.len()) {
        return Err(Status::internal(format!("{} bytes in an answer of {length}", body.len())));
    }
    Ok(body)
}

/// The whole of a body, and what came after it.
async fn collected(mut body: RecvStream) -> Result<(Bytes, Option<HeaderMap>), Status> {
    let mut whole = Bytes::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(broken)?;
        body.flow_control().release_capacity(piece.len()).map_err(broken)?;
        // Nearly always there is one piece, which need not be copied.
        whole = if whole.is_empty() { piece } else { [whole, piece].concat().into() };
    }
    Ok((whole, body.trailers().await.map_err(broken)?))
}

/// What the server says of the call.
fn succeeded(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() == Code::Ok => Ok(()),
        Some(status) => Err(status),
        None => Err(Status::unknown("an answer without a grpc-status")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tonic::codegen::http::Response;

    use super::*;

    /// What a call comes to if it is answered with these bytes, in so many pieces, and this status.
    async fn answer(pieces: &[&'static [u8]], status: &'static str) -> Result<String, Status> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let pieces = pieces.to_vec();
        let mut servers = JoinSet::new();
        servers.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(call) = connection.accept().await {
                let (request, mut respond) = call.unwrap();
                assert_eq!(request.uri().path(), "/some.Service/Call");
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                for piece in &pieces {
                    body.send_data(Bytes::from_static(piece), false).unwrap();
                }
                let status = [("grpc-status".parse().unwrap(), HeaderValue::from_static(status))];
                body.send_trailers(HeaderMap::from_iter(status)).unwrap();
            }
        });
        let mut thread = Thread::start().unwrap();
        let mut stub = thread.connect(&url).await.unwrap();
        stub.unary("/some.Service/Call", &"a question".to_owned()).await
    }

    /// The message of one string, as prost writes it.
    const YES: &[u8] = b"\x00\x00\x00\x00\x05\x0a\x03yes";

    #[tokio::test]
    async fn an_answer_is_read_whole_in_however_many_pieces() {
        assert_eq!(answer(&[YES], "0").await.unwrap(), "yes");
        assert_eq!(answer(&[&YES[..3], &YES[3..8], &YES[8..]], "0").await.unwrap(), "yes");
        assert_eq!(answer(&[&[0; PREFIX_BYTES]], "0").await.unwrap(), "");
    }

    #[tokio::test]
    async fn whatever_is_no_whole_answer_is_an_error() {
        let code = |answer: Result<String, Status>| answer.unwrap_err().code();
        assert_eq!(code(answer(&[], "12").await), Code::Unimplemented);
        assert_eq!(code(answer(&[YES], "8").await), Code::ResourceExhausted);
        assert_eq!(code(answer(&[], "0").await), Code::Internal);
        assert_eq!(code(answer(&[&YES[..9]], "0").await), Code::Internal);
        assert_eq!(code(answer(&[YES, YES], "0").await), Code::Internal);
        assert_eq!(code(answer(&[b"\x01", &YES[1..]], "0").await), Code::Internal);
    }

    #[tokio::test]
    async fn a_connection_that_broke_is_an_error_each_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut thread = Thread::start().unwrap();
        let mut stub = thread.connect(&url).await.unwrap();
        drop(listener.accept().await.unwrap());
        for _ in 0..2 {
            let answer: Result<String, Status> = stub.unary("/some.Service/Call", &()).await;
            assert!(answer.is_err(), "{answer:?}");
        }
    }
}
