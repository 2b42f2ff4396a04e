//! A TCP proxy between two parties, which can stand between them.
//!
//! # What it does not do
//!
//! It loses no single packet: TCP hides that. What a connection can show is delay, silence in one or both
//! directions, and an end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a gate does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It passes.
    Pass,
    /// All connections are reset, and new ones at once.
    Cut,
    /// Nothing passes; connections stay, and what was held passes later.
    Hold,
    /// Requests pass, replies are held.
    HoldReplies,
    /// Everything is late by this much.
    Delay(Duration),
    /// PostgreSQL's notifications are swallowed, everything else passes.
    Deaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// What is said on the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Not looked at.
    Any,
    /// PostgreSQL's protocol without encryption.
    Postgres,
}

/// A proxy on a loopback port; its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    target: watch::Sender<Option<SocketAddr>>,
    swallowed: Arc<AtomicU64>,
    _accepting: JoinSet<()>,
}

/// What all connections of a gate go by.
#[derive(Clone)]
struct Rules {
    mode: watch::Receiver<Mode>,
    target: watch::Receiver<Option<SocketAddr>>,
    speech: Speech,
    swallowed: Arc<AtomicU64>,
}

impl Gate {
    pub(crate) async fn open(speech: Speech, target: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, watched_mode) = watch::channel(Mode::Pass);
        let (target, watched_target) = watch::channel(target);
        let swallowed = Arc::<AtomicU64>::default();
        let rules = Rules {
            mode: watched_mode,
            target: watched_target,
            speech,
            swallowed: Arc::clone(&swallowed),
        };
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, rules));
        Self { address, mode, target, swallowed, _accepting: accepting }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Where new connections lead; `None`: they are reset.
    pub(crate) fn lead_to(&self, target: Option<SocketAddr>) {
        self.target.send_replace(target);
    }

    /// How many notifications were swallowed.
    pub(crate) fn swallowed(&self) -> u64 {
        self.swallowed.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, rules: Rules) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(serve(client, rules.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut client: TcpStream, mut rules: Rules) {
    // An error ends both connections, and that is all there is to say about it.
    if pass(&mut client, &mut rules).await.is_err() {
        let _ = client.set_zero_linger();
    }
}

async fn pass(client: &mut TcpStream, rules: &mut Rules) -> io::Result<()> {
    let mut cut = rules.mode.clone();
    rules.passing(Direction::Request).await?;
    let target = *rules.target.borrow();
    let target = target.ok_or(io::ErrorKind::ConnectionRefused)?;
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = pump(from_client, to_server, rules.clone(), Direction::Request);
    let replies = pump(from_server, to_client, rules.clone(), Direction::Reply);
    let passed = tokio::select! {
        passed = async { tokio::try_join!(requests, replies) } => passed.map(|_| ()),
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => Err(io::ErrorKind::ConnectionReset.into()),
    };
    if passed.is_err() {
        let _ = server.set_zero_linger();
    }
    passed
}

impl Rules {
    /// Waits while this direction is held.
    async fn passing(&mut self, direction: Direction) -> io::Result<Mode> {
        let held = |mode: &Mode| match mode {
            Mode::Hold => true,
            Mode::HoldReplies => direction == Direction::Reply,
            _ => false,
        };
        let gone = |_| io::Error::from(io::ErrorKind::ConnectionReset);
        let mode = *self.mode.wait_for(|mode| !held(mode)).await.map_err(gone)?;
        if mode == Mode::Cut {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(mode)
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut rules: Rules,
    direction: Direction,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1_024];
    let mut frames = Frames::default();
    let framed = rules.speech == Speech::Postgres && direction == Direction::Reply;
    loop {
        let read = from.read(&mut buffer).await?;
        if let Mode::Delay(late) = rules.passing(direction).await? {
            tokio::time::sleep(late).await;
        }
        let mode = rules.passing(direction).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        if framed {
            let (passed, swallowed) = frames.pass(&buffer[..read], mode == Mode::Deaf);
            rules.swallowed.fetch_add(swallowed, Ordering::Relaxed);
            to.write_all(&passed).await?;
        } else {
            to.write_all(&buffer[..read]).await?;
        }
    }
}

/// Cuts PostgreSQL's replies into messages: a letter, a length that counts itself, and the rest.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of a message whose length is not yet known.
    head: Vec<u8>,
    /// What is left of the message under way.
    left: usize,
    swallow: bool,
}

impl Frames {
    const HEAD: usize = 5;

    /// What of these bytes passes, and how many messages were swallowed.
    fn pass(&mut self, mut bytes: &[u8], deaf: bool) -> (Vec<u8>, u64) {
        let (mut passed, mut swallowed) = (Vec::with_capacity(bytes.len()), 0);
        while !bytes.is_empty() {
            if self.left == 0 {
                let (head, rest) = bytes.split_at(bytes.len().min(Self::HEAD - self.head.len()));
                self.head.extend(head);
                bytes = rest;
                if self.head.len() < Self::HEAD {
                    break;
                }
                let length = u32::from_be_bytes(self.head[1..].try_into().unwrap());
                self.left = usize::try_from(length).unwrap() - (Self::HEAD - 1);
                self.swallow = deaf && self.head[0] == b'A';
                swallowed += u64::from(self.swallow);
                if !self.swallow {
                    passed.extend(&self.head);
                }
                self.head.clear();
            }
            let (body, rest) = bytes.split_at(bytes.len().min(self.left));
            self.left -= body.len();
            bytes = rest;
            if !self.swallow {
                passed.extend(body);
            }
        }
        (passed, swallowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_alone_are_swallowed_however_the_bytes_come() {
        let message = |letter: u8, body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            [&[letter], &length[..], body].concat()
        };
        let kept = [message(b'Z', b"I"), message(b'2', b""), message(b'D', &[b'A'; 300])];
        let heard = message(b'A', b"a channel\0and a payload\0");
        let all = [&kept[0], &heard, &kept[1], &heard, &kept[2]].map(Vec::clone).concat();
        for size in [1, 2, 5, 7, 1_000] {
            let mut frames = Frames::default();
            let (mut passed, mut swallowed) = (Vec::new(), 0);
            for bytes in all.chunks(size) {
                let (more, count) = frames.pass(bytes, true);
                passed.extend(more);
                swallowed += count;
            }
            assert_eq!((passed, swallowed), (kept.concat(), 2), "in pieces of {size}");
            assert_eq!(Frames::default().pass(&all, false), (all.clone(), 0));
        }
    }

    #[tokio::test]
    async fn a_gate_passes_holds_and_cuts() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = Gate::open(Speech::Any, Some(echo.local_addr().unwrap())).await;
        let mut client = TcpStream::connect(gate.address).await.unwrap();
        let (mut server, _) = echo.accept().await.unwrap();
        let mut byte = [0];
        client.write_all(&[1]).await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        gate.set(Mode::HoldReplies);
        server.write_all(&[2]).await.unwrap();
        client.write_all(&[3]).await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, [3], "requests pass");
        let held = tokio::time::timeout(Duration::from_millis(100), client.read(&mut byte)).await;
        assert!(held.is_err(), "replies are held");
        gate.set(Mode::Pass);
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, [2], "what was held passes");
        gate.set(Mode::Cut);
        assert!(client.read(&mut byte).await.is_err(), "the connection is reset");
        let mut refused = TcpStream::connect(gate.address).await.unwrap();
        assert!(!matches!(refused.read(&mut byte).await, Ok(1..)), "new ones are, too");
    }
}
