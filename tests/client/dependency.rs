//! A dependency that fails or does well by command, and remembers who came when.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long an answer takes.
const WORK: Duration = Duration::from_millis(10);

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) came_ms: u64,
    pub(crate) answered_ms: u64,
    pub(crate) is_first: bool,
    pub(crate) is_good: bool,
}

#[derive(Default)]
struct State {
    is_sick: AtomicBool,
    arrivals: Mutex<Vec<Arrival>>,
}

/// The dependency; it ends with its handle.
pub(crate) struct Dependency {
    pub(crate) url: String,
    state: Arc<State>,
    _serving: JoinSet<()>,
}

impl Dependency {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let state = Arc::<State>::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&state)));
        Self { url, state, _serving: serving }
    }

    /// Fails from now on, or no longer. When that was.
    pub(crate) fn is_sick(&self, is_sick: bool) -> u64 {
        self.state.is_sick.store(is_sick, Ordering::Relaxed);
        now_ms()
    }

    /// All that were answered so far, in the order of their arrival.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = self.state.arrivals.lock().unwrap().clone();
        arrivals.sort_by_key(|arrival| arrival.came_ms);
        arrivals
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, &state));
            // Whoever is killed breaks off.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: &State,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let came_ms = now_ms();
    let is_first = request.headers()["x-attempt"] == "1";
    let is_good = !state.is_sick.load(Ordering::Relaxed);
    sleep(WORK).await;
    let arrival = Arrival { came_ms, answered_ms: now_ms(), is_first, is_good };
    state.arrivals.lock().unwrap().push(arrival);
    let status = if is_good { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
    Ok(Response::builder().status(status).body(Full::default()).unwrap())
}

/// Milliseconds since 1970: the processes of a test share this clock.
#[allow(clippy::disallowed_methods, reason = "the test measures the machine's time")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
