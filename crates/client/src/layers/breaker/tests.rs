use std::time::Duration;

use tower::{Layer, ServiceExt};

use crate::layers::tests::{Act, Scripted, breaker, read};
use crate::layers::{BreakerLayer, Http, Refused};

async fn calls(layer: &BreakerLayer<Http>, act: Act, times: usize) {
    let dependency = Scripted::new(vec![act; times]);
    for _ in 0..times {
        let _ = layer.layer(dependency.clone()).oneshot(read()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_at_once_and_says_when_to_look_again() {
    let layer = BreakerLayer::new(Http::default(), breaker());
    calls(&layer, Act::Answer(500), 20).await;
    let dependency = Scripted::default();
    let error = layer.layer(dependency.clone()).oneshot(read()).await.unwrap_err();
    let Some(Refused::BreakerOpen { retry_after }) = Refused::find(&*error) else {
        panic!("{error}");
    };
    assert!((Duration::from_secs(24)..=Duration::from_secs(36)).contains(retry_after));
    assert_eq!(dependency.attempts(), 0);
    tokio::time::advance(*retry_after).await;
    assert!(layer.layer(dependency.clone()).oneshot(read()).await.is_ok());
    assert_eq!(dependency.attempts(), 1, "a probe");
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_mistakes_and_good_answers_never_open_it() {
    let breaker = breaker();
    let layer = BreakerLayer::new(Http::default(), breaker.clone());
    for status in [404, 409, 422, 200, 499] {
        calls(&layer, Act::Answer(status), 50).await;
    }
    calls(&layer, Act::Answer(500), 40).await;
    assert!(breaker.is_closed());
    calls(&layer, Act::Answer(429), 20).await;
    assert!(!breaker.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_says_nothing() {
    let breaker = breaker();
    let layer = BreakerLayer::new(Http::default(), breaker.clone());
    for _ in 0..50 {
        let call = layer.layer(Scripted::new([Act::Hang])).oneshot(read());
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    }
    assert!(breaker.is_closed());
}
