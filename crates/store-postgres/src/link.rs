//! Links: connections that are made again whenever they are lost.
//!
//! Invariants: a link has one session at a time, and whoever asks is given one that is up; attempts
//! are at least [`BACKOFF_LEAST`] apart; nothing here waits for a link that is down longer than it was
//! told to.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Failure, describe};
use crate::options::PostgresOptions;
use crate::session::{Duty, Session};
use crate::shared::Shared;

type RustlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// A connection, encrypted or not.
pub(crate) type AnyConnection = Connection<Socket, RustlsStream>;

const BACKOFF_LEAST: Duration = Duration::from_millis(50);
/// A database that is back should be found soon.
const BACKOFF_MOST: Duration = Duration::from_millis(500);

/// A connection that is kept up.
pub(crate) struct Link {
    duty: Duty,
    session: watch::Sender<Option<Arc<Session>>>,
}

impl Link {
    pub(crate) fn new(duty: Duty) -> Self {
        Self { duty, session: watch::Sender::new(None) }
    }

    /// The session, if it is up.
    pub(crate) fn up(&self) -> Option<Arc<Session>> {
        self.session.borrow().as_ref().filter(|session| session.is_up()).map(Arc::clone)
    }

    /// Keeps the connection up until the store is closed.
    pub(crate) async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        let connecting = async {
            let mut backoff = BACKOFF_LEAST;
            let mut was_up = false;
            loop {
                let ended = self.once(&shared, &mut was_up).await;
                backoff = match ended {
                    Ok(()) => BACKOFF_LEAST,
                    Err(_) => BACKOFF_MOST.min(backoff * 2),
                };
                if let Err(error) = ended {
                    tracing::warn!(duty = ?self.duty, %error, "no connection to the database");
                }
                tokio::time::sleep(backoff).await;
            }
        };
        tokio::select! {
            () = connecting => {}
            () = shared.closing.cancelled() => {}
        }
        self.session.send_replace(None);
    }

    /// Connects once and stays until the connection is lost.
    async fn once(&self, shared: &Shared, was_up: &mut bool) -> Result<(), String> {
        let options = &shared.options;
        let wait = Duration::from_millis(options.connect_timeout_ms);
        let connect = async {
            let made = connect(options, &shared.tls).await;
            made.map_err(|error| describe(&error))
        };
        let late = |_| "it took too long to connect".to_owned();
        let (client, connection) = tokio::time::timeout(wait, connect).await.map_err(late)??;
        let session = Arc::new(Session::new(client, options));
        let mut driving = pin!(drive(connection, shared));
        let set_up = async {
            let latest_us = session.set_up(self.duty, options).await?;
            // The database may be another one than before, with a clock that is behind.
            shared.time.pass(latest_us);
            Ok::<_, tokio_postgres::Error>(())
        };
        let set_up = tokio::time::timeout(wait, set_up);
        tokio::select! {
            done = set_up => done.map_err(late)?.map_err(|error| describe(&error))?,
            lost = &mut driving => return Err(lost),
        }
        self.session.send_replace(Some(Arc::clone(&session)));
        shared.changed.send_modify(|count| *count = count.wrapping_add(1));
        if self.duty == Duty::Listen && std::mem::replace(was_up, true) {
            // What was announced meanwhile is not told again.
            shared.updates.watched().wake_all();
        }
        let lost = tokio::select! {
            lost = &mut driving => lost,
            () = session.ended() => "it was given up".to_owned(),
        };
        self.session.send_replace(None);
        tracing::warn!(duty = ?self.duty, reason = %lost, "a connection to the database was lost");
        Ok(())
    }
}

/// Moves what is sent and received until the connection ends; says why it did.
async fn drive<S, T>(mut connection: Connection<S, T>, shared: &Shared) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(heard))) => shared.wakes.hear(heard.payload()),
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(notice = notice.message(), "the database says");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return describe(&error),
            None => return "it was closed".to_owned(),
        }
    }
}

/// Makes one connection.
pub(crate) async fn connect(
    options: &PostgresOptions,
    tls: &MakeRustlsConnect,
) -> Result<(Client, AnyConnection), tokio_postgres::Error> {
    let mut config = options.config.clone();
    let wait = Duration::from_millis(options.connect_timeout_ms);
    if config.get_connect_timeout().is_none_or(|found| *found > wait) {
        config.connect_timeout(wait);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(options.silence_timeout());
    }
    config.connect(tls.clone()).await
}

/// The links of a store.
pub(crate) struct Links {
    synced: Vec<Arc<Link>>,
    relaxed: Arc<Link>,
    listen: Option<Arc<Link>>,
}

impl Links {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        let link = |duty| Arc::new(Link::new(duty));
        Self {
            synced: (0..options.connections).map(|_| link(Duty::Synced)).collect(),
            relaxed: link(Duty::Relaxed),
            listen: options.listen.then(|| link(Duty::Listen)),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.synced.iter().chain([&self.relaxed]).chain(&self.listen)
    }

    /// Whether a session for synced writes is up.
    pub(crate) fn is_up(&self) -> bool {
        self.pick(Duty::Synced).is_some()
    }

    /// A session for `duty` with the fewest statements on their way, and the number of its link.
    fn pick(&self, duty: Duty) -> Option<(usize, Arc<Session>)> {
        let links = match duty {
            Duty::Synced => &self.synced[..],
            Duty::Relaxed | Duty::Listen => std::slice::from_ref(&self.relaxed),
        };
        let up = links.iter().enumerate().filter_map(|(place, link)| Some((place, link.up()?)));
        up.min_by_key(|(_, session)| session.in_flight())
    }
}

impl Shared {
    /// A session for `duty`, waiting a little for one to come back. With it the number of its slot in
    /// the table of times.
    pub(crate) async fn session(&self, duty: Duty) -> Result<(i32, Arc<Session>), Failure> {
        let wait = Duration::from_millis(self.options.reconnect_wait_ms);
        self.session_within(duty, wait).await
    }

    /// Waits until all links are up, or for as long as `wait`.
    pub(crate) async fn all_up_within(&self, wait: Duration) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while !self.links.all().all(|link| link.up().is_some()) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(wait, waiting).await.is_err() {
            tracing::warn!(
                "not all connections to the database are up; going on with those that are"
            );
        }
    }

    /// The same, waiting for as long as `wait`.
    pub(crate) async fn session_within(
        &self,
        duty: Duty,
        wait: Duration,
    ) -> Result<(i32, Arc<Session>), Failure> {
        let mut changed = self.changed.subscribe();
        let picking = async {
            loop {
                if let Some((place, session)) = self.links.pick(duty) {
                    return (self.slot(duty, place), session);
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(wait, picking)
            .await
            .map_err(|_| Failure::Unavailable("there is no connection to the database".to_owned()))
    }
}
