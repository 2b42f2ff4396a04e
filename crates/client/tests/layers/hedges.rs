//! Hedges behind the full stack: sent for the slowest calls only, and only as far as the fleet's budget goes.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{HeaderValue, Request, Response};
use semel_client::layers::{BoxError, HedgeSettings, Http};
use tokio::time::{Instant, interval, sleep};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::node::{Budget, Node};
use crate::support::{Client, now};

const MS: Duration = Duration::from_millis(1);
const USUAL: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(300);

/// Answers; one attempt in 33 takes long, or every second one.
#[derive(Default)]
struct Dependency {
    is_slower: AtomicBool,
    count: AtomicU64,
    /// When each attempt came, by the number of its call.
    attempts: Mutex<Vec<(u64, Instant)>>,
}

impl Dependency {
    async fn answer(self: Arc<Self>, request: Request<String>) -> Result<Response<()>, BoxError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let call = request.headers()["x-call"].to_str()?.parse()?;
        self.attempts.lock().unwrap().push((call, now()));
        let each = if self.is_slower.load(Ordering::Relaxed) { 2 } else { 33 };
        let is_slow = number.is_multiple_of(each);
        sleep(if is_slow { SLOW } else { USUAL }).await;
        Ok(Response::new(()))
    }

    /// How long after the first attempt the second one came, if there was one, since that call.
    fn hedges(&self, since: u64) -> Vec<Duration> {
        let attempts = self.attempts.lock().unwrap();
        let mut attempts: Vec<_> = attempts.iter().filter(|(call, _)| *call >= since).collect();
        attempts.sort();
        let pairs = attempts.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        pairs.map(|pair| pair[1].1 - pair[0].1).collect()
    }
}

/// Calls 500 times a second, so often. How long the calls took.
async fn load<S>(service: &S, numbers: std::ops::Range<u64>) -> Vec<Duration>
where
    S: Service<Request<String>, Response = Response<()>, Error = BoxError> + Clone,
{
    let (took, mut beat) = (RefCell::new(Vec::new()), interval(MS * 2));
    let call = async |number: u64| {
        let began = now();
        let mut request = Request::get("http://stripe/").body(String::new()).unwrap();
        request.headers_mut().insert("x-call", HeaderValue::from(number));
        service.clone().oneshot(request).await.unwrap();
        took.borrow_mut().push(now() - began);
    };
    let (mut numbers, mut calls) = (numbers, FuturesUnordered::new());
    loop {
        tokio::select! {
            _ = beat.tick() => match numbers.next() {
                Some(number) => calls.push(call(number)),
                None => break,
            },
            Some(()) = calls.next() => {}
        }
    }
    while calls.next().await.is_some() {}
    drop(calls);
    let mut took = took.into_inner();
    took.sort_unstable();
    took
}

#[tokio::test(start_paused = true)]
async fn only_the_slowest_calls_are_hedged_and_a_slower_dependency_gets_no_more_than_the_budget() {
    const CALLS: u64 = 4_000;
    let (node, channel) = Node::start();
    node.book(|book| book.budget = Some(Budget::default()));
    let client = Client::new(channel);
    let dependency = Arc::new(Dependency::default());
    let asked = Arc::clone(&dependency);
    let inner = service_fn(move |request| Arc::clone(&asked).answer(request));
    let hedged = |quantile| {
        let mut settings = HedgeSettings::default();
        settings.quantile = quantile;
        client.stack(Http::default()).hedged(settings).layer(inner.clone())
    };
    client
        .driven(async {
            let usual = load(&hedged(0.95), 0..CALLS).await;
            let hedges = dependency.hedges(0);
            let share = hedges.len() as f64 / CALLS as f64;
            assert!((0.01..=0.05).contains(&share), "{share}");
            assert!(hedges.iter().all(|after| *after >= USUAL), "none before the p95");
            // Without hedges it would be the slow one.
            let p99 = usual[usual.len() * 99 / 100];
            assert!(p99 < USUAL * 3, "{p99:?}");

            dependency.is_slower.store(true, Ordering::Relaxed);
            load(&hedged(0.5), CALLS..CALLS * 2).await;
            let hedges = dependency.hedges(CALLS).len() as u64;
            // The published bound; nearly half of the calls want one.
            let bound = CALLS * 2 / 10 + 10 * (8 + 10 + 1);
            assert!((CALLS / 20..=bound).contains(&hedges), "{hedges} of at most {bound}");
        })
        .await;
}
