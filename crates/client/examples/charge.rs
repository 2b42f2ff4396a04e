//! A server that charges once for each idempotency key, and a client that is less patient than a charge takes.
//!
//! `charge play` does both: the client gets no answer, then hears that the charge is being made, then gets the
//! answer of the one charge. `charge serve` is the server alone; its charges are lines of the ledger. Both need
//! a node: `semel serve`.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it may read the clock and print"
)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{Extension, MatchedPath, State};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use semel_client::Client;
use semel_client::layers::IdempotencyLayer;
use semel_client::layers::idempotency::operation_of_route;
use semel_client::once::Held;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tower::BoxError;

const CHARGE: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_millis(1_000);
const ATTEMPTS: u32 = 3;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["play", semel] => play(semel).await,
        ["serve", semel, ledger] => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            println!("listening on {}", listener.local_addr()?);
            serve(listener, semel, Provider { ledger: ledger.into() }).await
        }
        _ => Err("write: charge play NODE, or charge serve NODE LEDGER".into()),
    }
}

/// Whoever moves the money: a line for each charge.
#[derive(Clone)]
struct Provider {
    ledger: PathBuf,
}

impl Provider {
    /// Takes its time to charge, and as long again to answer.
    async fn charge(&self, idempotency_key: &str) -> Result<String, std::io::Error> {
        sleep(CHARGE / 2).await;
        let mut ledger = std::fs::File::options().create(true).append(true).open(&self.ledger)?;
        writeln!(ledger, "{idempotency_key}")?;
        sleep(CHARGE / 2).await;
        Ok(format!("charged under {idempotency_key}\n"))
    }

    fn charges(&self) -> usize {
        std::fs::read_to_string(&self.ledger).map_or(0, |ledger| ledger.lines().count())
    }
}

async fn charge(
    State(provider): State<Provider>,
    Extension(claim): Extension<Held>,
    _order: Bytes,
) -> impl IntoResponse {
    match provider.charge(claim.derived_key()).await {
        Ok(receipt) => (StatusCode::CREATED, receipt),
        // Perhaps it was charged: that is what a 500 means to the layer.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Serves until the process is interrupted, and then ends what it began.
async fn serve(listener: TcpListener, semel: &str, provider: Provider) -> Result<(), BoxError> {
    let tracker = TaskTracker::new();
    let semel = Client::connect("acme", [semel])?;
    let once = IdempotencyLayer::http(semel, |request| {
        let route = request.extensions.get::<MatchedPath>()?;
        Some(operation_of_route(&request.method, route.as_str()))
    })
    .lease(Duration::from_secs(3))
    .to_the_end(tracker.clone(), 1_000);
    let router = Router::new().route("/charges", post(charge)).layer(once).with_state(provider);
    let interrupted = async {
        // Without handlers of signals there is nothing to wait for: it serves until it is killed.
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, router).with_graceful_shutdown(interrupted).await?;
    tracker.close();
    tracker.wait().await;
    Ok(())
}

/// The server and the impatient client.
async fn play(semel: &str) -> Result<(), BoxError> {
    let order = format!("order-{}", SystemTime::UNIX_EPOCH.elapsed()?.as_nanos());
    let provider = Provider { ledger: std::env::temp_dir().join(&order) };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::select! {
        served = serve(listener, semel, provider.clone()) => served?,
        called = call(address, &order) => called?,
    }
    println!("charges: {}", provider.charges());
    std::fs::remove_file(&provider.ledger)?;
    Ok(())
}

/// Tries until there is an answer, with one key.
async fn call(address: SocketAddr, order: &str) -> Result<(), BoxError> {
    for attempt in 1..=ATTEMPTS {
        let Ok(answer) = timeout(PATIENCE, send(address, order)).await else {
            println!("attempt {attempt}: no answer in {PATIENCE:?}");
            continue;
        };
        let (status, headers, body) = answer?;
        let body = String::from_utf8_lossy(&body);
        let replayed = headers.contains_key("idempotency-replayed");
        println!("attempt {attempt}: {status}, replayed: {replayed}: {}", body.trim());
        if status != StatusCode::CONFLICT {
            break;
        }
        let seconds = headers.get("retry-after").ok_or("a conflict that does not pass")?;
        sleep(Duration::from_secs(seconds.to_str()?.parse()?)).await;
    }
    Ok(())
}

async fn send(
    address: SocketAddr,
    order: &str,
) -> Result<(StatusCode, HeaderMap, Bytes), BoxError> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    let request = Request::post("/charges")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .header("idempotency-key", format!("\"{order}\""))
        .body(Full::new(Bytes::from_static(br#"{"amount": 4200, "currency": "EUR"}"#)))?;
    let answer = async move {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        Ok::<_, hyper::Error>((parts.status, parts.headers, body.collect().await?.to_bytes()))
    };
    // The connection ends with its sender.
    let (answer, connection) = tokio::join!(answer, connection);
    connection?;
    Ok(answer?)
}
