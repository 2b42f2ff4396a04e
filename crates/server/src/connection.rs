//! One accepted connection, counted until it closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::nodes::OpenConnection;

/// How long a connection that is closed waits for its peer to do the same.
const LINGER: Duration = Duration::from_millis(250);

/// A TCP connection that holds its place among the connections of the node.
pub(crate) struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    _counted: OpenConnection,
    linger: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(crate) const fn new(
        stream: TcpStream,
        place: OwnedSemaphorePermit,
        counted: OpenConnection,
    ) -> Self {
        Self { stream, _place: place, _counted: counted, linger: None }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// Writes are not vectored, on purpose: the HTTP/2 library then copies replies of up to 1 KiB into one
/// buffer, and neighbours' replies go out in one write instead of one each.
impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Waits a moment for the peer to close as well, and takes what it still sends: a socket that is closed
    /// over unread bytes is reset, and with it go answers that the peer has not read yet.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, linger, .. } = &mut *self;
        if linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
        }
        let linger = linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        loop {
            let mut unread = [0; 4_096];
            let mut unread = ReadBuf::new(&mut unread);
            match Pin::new(&mut *stream).poll_read(context, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return linger.as_mut().poll(context).map(Ok),
            }
        }
    }
}
