//! A dependency that fails for a minute under 500 requests a second, behind the full stack.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{Request, Response, StatusCode};
use semel_client::layers::{BoxError, Http, Refused, Stacked};
use tokio::time::{Instant, interval, sleep};
use tower::{Layer, Service, ServiceExt};

use crate::node::{Budget, Node};
use crate::support::{Client, now};

const SECOND: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_millis(2);

/// A dependency that is well or not, and remembers when it was called.
#[derive(Clone, Default)]
struct Dependency {
    is_sick: Arc<AtomicBool>,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

impl Service<Request<String>> for Dependency {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Response<()>, BoxError>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        self.attempts.lock().unwrap().push(now());
        let is_sick = self.is_sick.load(Ordering::Relaxed);
        Box::pin(async move {
            sleep(Duration::from_millis(5)).await;
            let mut answer = Response::new(());
            *answer.status_mut() = if is_sick { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
            Ok(answer)
        })
    }
}

/// What one request came to.
#[derive(Clone, Copy, Debug)]
struct End {
    began: Instant,
    took: Duration,
    is_good: bool,
    is_refused: bool,
}

type Ends = Rc<RefCell<Vec<End>>>;

async fn request(service: Stacked<Dependency, Http>) -> End {
    let began = now();
    let request = Request::get("http://stripe/").body(String::new()).unwrap();
    let answer = service.oneshot(request).await;
    let error = answer.as_ref().err();
    let refused = error.and_then(|error| Refused::find(&**error));
    let is_refused = matches!(refused, Some(Refused::BreakerOpen { .. }));
    let is_good = answer.is_ok_and(|answer| answer.status().is_success());
    End { began, took: now() - began, is_good, is_refused }
}

/// Sends a request every two milliseconds for so long, and waits for all of them.
async fn load(service: &Stacked<Dependency, Http>, ends: &Ends, length: Duration) {
    let (until, mut beat, mut calls) = (now() + length, interval(BEAT), FuturesUnordered::new());
    while now() < until {
        tokio::select! {
            _ = beat.tick() => calls.push(request(service.clone())),
            Some(end) = calls.next() => ends.borrow_mut().push(end),
        }
    }
    while let Some(end) = calls.next().await {
        ends.borrow_mut().push(end);
    }
}

/// By how much the retries of any ten seconds exceed the published bound: a tenth of the first attempts of
/// those and of the eleven seconds before, and ten for each of these seconds.
fn worst_excess(dependency: &Dependency, ends: &[End]) -> i64 {
    const BEFORE: usize = 11;
    let attempts = dependency.attempts.lock().unwrap();
    let start = attempts[0];
    let second = |at: Instant| BEFORE + usize::try_from((at - start).as_secs()).unwrap();
    let (mut all, mut firsts) = ([0_i64; 300], [0_i64; 300]);
    attempts.iter().for_each(|at| all[second(*at)] += 1);
    for end in ends.iter().filter(|end| !end.is_refused) {
        firsts[second(end.began.max(start))] += 1;
    }
    let excess = (BEFORE..290).map(|from| {
        let window = from..from + 10;
        let retries: i64 =
            all[window.clone()].iter().zip(&firsts[window]).map(|(a, f)| a - f).sum();
        let paying: i64 = firsts[from - BEFORE..from + 10].iter().sum();
        retries - paying / 10 - 10 * 21
    });
    excess.max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_fails_for_a_minute_is_spared_and_comes_back() {
    let (node, channel) = Node::start();
    node.book(|book| (book.judges, book.budget) = (true, Some(Budget::default())));
    let client = Client::new(channel);
    let dependency = Dependency::default();
    let service = client.stack(Http::default()).within(SECOND).layer(dependency.clone());
    let (ends, came_back) = (Ends::default(), Cell::new(now()));
    client
        .driven(async {
            load(&service, &ends, SECOND * 5).await;
            dependency.is_sick.store(true, Ordering::Relaxed);
            load(&service, &ends, SECOND * 60).await;
            dependency.is_sick.store(false, Ordering::Relaxed);
            came_back.set(now());
            load(&service, &ends, SECOND * 60).await;
        })
        .await;
    let ends = ends.borrow();
    let excess = worst_excess(&dependency, &ends);
    assert!(excess <= 0, "{excess} retries too many in ten seconds");
    let opened = ends.iter().find(|end| end.is_refused).unwrap().began;
    let refused: Vec<&End> = ends.iter().filter(|end| end.is_refused).collect();
    // One that probed in vain, and was then refused, took as long as its attempt and its backoff.
    let late = refused.iter().filter(|end| end.took > Duration::from_millis(1)).count();
    assert!(late <= 60, "{late} of {} refusals were late", refused.len());
    let sick = dependency.attempts.lock().unwrap();
    let while_open = sick.iter().filter(|at| **at > opened + SECOND && **at < came_back.get());
    assert!(while_open.count() <= 6, "only probes go through");
    let well = ends.iter().filter(|end| end.began > came_back.get() + SECOND * 35);
    assert!(well.clone().count() > 10_000 && well.clone().all(|end| end.is_good));
}

#[tokio::test(start_paused = true)]
async fn with_no_node_at_all_first_attempts_are_never_gated_and_retries_stay_a_tenth() {
    let (node, channel) = Node::start();
    node.cut_off().await;
    let client = Client::new(channel);
    let dependency = Dependency::default();
    let flaky = dependency.clone();
    // A fifth of the calls fails: too few for a breaker.
    let turn = Arc::new(Mutex::new(0_u32));
    let sometimes = tower::service_fn(move |request: Request<String>| {
        let mut turn = turn.lock().unwrap();
        *turn += 1;
        flaky.is_sick.store(turn.is_multiple_of(5), Ordering::Relaxed);
        flaky.clone().call(request)
    });
    let service = client.stack(Http::default()).within(SECOND).layer(sometimes);
    let sent = Cell::new(0_u64);
    client
        .driven(async {
            let (until, mut beat) = (now() + SECOND * 30, interval(BEAT));
            let mut calls = FuturesUnordered::new();
            while now() < until {
                tokio::select! {
                    _ = beat.tick() => {
                        sent.set(sent.get() + 1);
                        let request = Request::get("http://stripe/").body(String::new()).unwrap();
                        calls.push(service.clone().oneshot(request));
                    }
                    Some(answer) = calls.next() => drop(answer.unwrap()),
                }
            }
            while calls.next().await.is_some() {}
        })
        .await;
    let attempts = dependency.attempts.lock().unwrap().len() as u64;
    let retries = attempts - sent.get();
    assert!(retries * 10 <= sent.get(), "{retries} retries of {} requests", sent.get());
    assert!(retries * 20 >= sent.get(), "the own share is spent: {retries} of {}", sent.get());
}
