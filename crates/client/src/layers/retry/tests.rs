use std::io::ErrorKind;
use std::time::Duration;

use semel_proto::v1::RetryPolicy;
use tower::{Layer, ServiceExt};

use crate::deadline::{Deadline, now};
use crate::layers::tests::{Act, Scripted, breaker, read, retries, write};
use crate::layers::{
    BoxError, BreakerLayer, DeadlineLayer, Http, Refused, Retries, RetryLayer, SendOnce,
};
use crate::root::{ROOT_HEADER, Root};

type Answer = Result<http::Response<&'static str>, BoxError>;

async fn call(retries: &Retries, dependency: &Scripted, request: http::Request<String>) -> Answer {
    RetryLayer::new(Http::default(), retries.clone())
        .layer(dependency.clone())
        .oneshot(request)
        .await
}

fn status(answer: Answer) -> u16 {
    answer.unwrap().status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_sent_again_until_it_succeeds_or_has_had_its_attempts() {
    let retries = retries(10);
    let flaky = Scripted::new([Act::Answer(500), Act::Break(ErrorKind::ConnectionReset)]);
    assert_eq!(status(call(&retries, &flaky, read()).await), 200);
    assert_eq!((flaky.attempts(), retries.budget().in_hand()), (3, 8));
    let sick = Scripted::new(vec![Act::Answer(502); 9]);
    assert_eq!(status(call(&retries, &sick, read()).await), 502);
    assert_eq!((sick.attempts(), retries.budget().in_hand()), (3, 6));
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_repeated_is_sent_again_only_if_it_never_left() {
    let retries = retries(10);
    let unknown = Scripted::new([Act::Answer(504)]);
    assert_eq!(status(call(&retries, &unknown, write()).await), 504);
    assert_eq!(unknown.attempts(), 1);
    let unsent = Scripted::new([Act::Break(ErrorKind::ConnectionRefused)]);
    assert_eq!(status(call(&retries, &unsent, write()).await), 200);
    let rejected = Scripted::new([Act::Answer(404)]);
    assert_eq!(status(call(&retries, &rejected, read()).await), 404);
    let mut once = read();
    once.extensions_mut().insert(SendOnce);
    let uncopied = Scripted::new([Act::Answer(500)]);
    assert_eq!(status(call(&retries, &uncopied, once).await), 500);
    assert_eq!(retries.budget().in_hand(), 9);
}

#[tokio::test(start_paused = true)]
async fn without_a_token_the_failure_stands() {
    let dependency = Scripted::new([Act::Answer(500)]);
    assert_eq!(status(call(&retries(0), &dependency, read()).await), 500);
    assert_eq!(dependency.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_dependency_asks_for_is_waited_for_and_what_does_not_fit_the_deadline_is_not_sent()
{
    let retries = retries(10);
    let dependency = Scripted::new([Act::Answer(429), Act::Answer(429)]);
    dependency.replies(http::header::RETRY_AFTER, "7");
    let began = now();
    let hurried =
        Deadline::within(Duration::from_secs(6)).scope(call(&retries, &dependency, read()));
    assert_eq!(status(hurried.await), 429);
    assert_eq!(now(), began, "nobody waits in vain");
    assert_eq!(status(call(&retries, &dependency, read()).await), 200);
    let waited = now() - began;
    assert!((Duration::from_secs(7)..=Duration::from_secs(8)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_root_has_so_many_retries_whatever_its_calls_do() {
    let retries = retries(100);
    let root = Root::new("root", 3);
    let (first, second) =
        (Scripted::new(vec![Act::Answer(500); 9]), Scripted::new(vec![Act::Answer(500); 9]));
    root.clone().scope(call(&retries, &first, read())).await.unwrap();
    root.clone().scope(call(&retries, &second, read())).await.unwrap();
    assert_eq!((first.attempts(), second.attempts(), root.left()), (3, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn three_layers_of_three_attempts_make_no_more_than_one_and_the_roots_retries() {
    let bottom = Scripted::new(vec![Act::Answer(500); 99]);
    let layered = |inner: Scripted| {
        let attempt = DeadlineLayer::attempt(Http::default(), None).layer(inner);
        let leaf = RetryLayer::new(Http::default(), retries(100)).layer(attempt);
        let middle = serving(
            RetryLayer::new(Http::default(), retries(100))
                .layer(DeadlineLayer::attempt(Http::default(), None).layer(serving(leaf))),
        );
        let top = DeadlineLayer::attempt(Http::default(), None).layer(middle);
        RetryLayer::new(Http::default(), retries(100)).layer(top)
    };
    let answer = layered(bottom.clone()).oneshot(read()).await.unwrap();
    assert_eq!(answer.status(), 500);
    assert!((2..=5).contains(&bottom.attempts()), "{}", bottom.attempts());
}

/// A server: reads the root of each request, and returns what was not used.
fn serving<S>(
    inner: S,
) -> impl tower::Service<
    http::Request<String>,
    Response = http::Response<&'static str>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ 'static
where
    S: tower::Service<
            http::Request<String>,
            Response = http::Response<&'static str>,
            Error = BoxError,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    tower::service_fn(move |mut request: http::Request<String>| {
        let inner = inner.clone();
        async move {
            let root = Root::read(request.headers()).expect("it carries a root");
            request.headers_mut().remove(ROOT_HEADER);
            let mut answer = root.clone().scope(inner.oneshot(request)).await?;
            root.give_back(answer.headers_mut());
            Ok(answer)
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_layer_below_ends_the_call_and_is_no_first_attempt() {
    let retries = retries(10);
    let breaker = breaker();
    let dependency = Scripted::new(vec![Act::Answer(500); 20]);
    let service = BreakerLayer::new(Http::default(), breaker.clone()).layer(dependency.clone());
    for _ in 0..20 {
        let _ = service.clone().oneshot(read()).await;
    }
    assert!(!breaker.is_closed());
    let layer = RetryLayer::new(Http::default(), retries.clone().behind(breaker));
    let error = layer.layer(service).oneshot(read()).await.unwrap_err();
    assert!(matches!(Refused::find(&*error), Some(Refused::BreakerOpen { .. })));
    assert_eq!(dependency.attempts(), 20);
    assert_eq!(retries.budget().take_attempts().requests, 0);
    assert_eq!(retries.budget().in_hand(), 10);
}

#[tokio::test(start_paused = true)]
async fn every_first_attempt_is_counted_once_even_if_it_was_given_up() {
    let retries = retries(10);
    call(&retries, &Scripted::new([Act::Answer(500)]), read()).await.unwrap();
    let hanging = Scripted::new([Act::Hang]);
    let given_up = tokio::time::timeout(Duration::from_secs(1), call(&retries, &hanging, read()));
    assert!(given_up.await.is_err());
    call(&retries, &Scripted::default(), read()).await.unwrap();
    let counted = retries.budget().take_attempts();
    assert_eq!((counted.requests, counted.successes), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn another_layer_retries_if_the_policy_says_so() {
    let retries = retries(10).of_layer("service");
    let policy = RetryPolicy { retry_layer: "gateway".into(), ..RetryPolicy::default() };
    retries.budget().learn(&policy);
    let dependency = Scripted::new(vec![Act::Answer(500); 9]);
    call(&retries, &dependency, read()).await.unwrap();
    assert_eq!(dependency.attempts(), 1);
    call(&retries.of_layer("gateway"), &dependency, read()).await.unwrap();
    assert_eq!(dependency.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_given_up_before_it_is_sent_costs_nothing() {
    let (retries, root) = (retries(10), Root::new("root", 4));
    let dependency = Scripted::new([Act::Answer(429)]);
    dependency.replies(http::header::RETRY_AFTER, "7");
    let calling = root.clone().scope(call(&retries, &dependency, read()));
    assert!(tokio::time::timeout(Duration::from_secs(6), calling).await.is_err());
    assert_eq!(dependency.attempts(), 1);
    assert_eq!((retries.budget().in_hand(), root.left()), (10, 4));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_a_layer_below_refuses_costs_nothing_and_does_not_hide_what_was_sent() {
    let (retries, root) = (retries(10), Root::new("root", 4));
    let refused_after = async |act: Act| {
        let asked = Scripted::new([act]);
        let inner = tower::service_fn(move |request| {
            let (asked, lets) = (asked.clone(), asked.attempts() == 0);
            async move {
                if lets { asked.oneshot(request).await } else { Err(Refused::BulkheadFull.into()) }
            }
        });
        let layered = RetryLayer::new(Http::default(), retries.clone()).layer(inner);
        root.clone().scope(layered.oneshot(read())).await
    };
    let answer = refused_after(Act::Answer(500)).await;
    assert_eq!(status(answer), 500, "perhaps it was carried out");
    for undone in [Act::Answer(429), Act::Break(ErrorKind::ConnectionRefused)] {
        let error = refused_after(undone).await.unwrap_err();
        assert_eq!(Refused::find(&*error), Some(&Refused::BulkheadFull));
    }
    assert_eq!((retries.budget().in_hand(), root.left()), (10, 4));
}

#[tokio::test(start_paused = true)]
async fn a_last_attempt_that_never_left_does_not_hide_one_that_perhaps_was_carried_out() {
    let never = || Act::Break(ErrorKind::ConnectionRefused);
    let dependency = Scripted::new([Act::Answer(504), never(), never()]);
    assert_eq!(status(call(&retries(10), &dependency, read()).await), 504);
    assert_eq!(dependency.attempts(), 3);
}
