use std::time::Duration;

use tower::{Layer, ServiceExt};

use crate::deadline::now;
use crate::layers::tests::{Act, Scripted, read, retries, write};
use crate::layers::{BoxError, HedgeLayer, HedgeSettings, Http, Refused, Retries};
use crate::root::Root;

const MS: Duration = Duration::from_millis(1);

/// A layer that saw a hundred calls, of which 95 took 10 ms and the others 100 ms.
async fn seasoned(retries: &Retries) -> HedgeLayer<Http> {
    let layer = HedgeLayer::new(Http::default(), retries.clone(), Some(HedgeSettings::default()));
    let took = |call: u32| if call.is_multiple_of(20) { MS * 100 } else { MS * 10 };
    let acts = (0..128).map(|call| Act::AnswerAfter(took(call), 200));
    let dependency = Scripted::new(acts);
    for _ in 0..128 {
        layer.layer(dependency.clone()).oneshot(write()).await.unwrap();
    }
    layer
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_is_sent_a_second_time_and_the_first_good_answer_wins() {
    let retries = retries(5);
    let layer = seasoned(&retries).await;
    let dependency = Scripted::new([Act::Hang, Act::AnswerAfter(MS * 10, 200)]);
    let began = now();
    let answer = layer.layer(dependency.clone()).oneshot(read()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let took = now() - began;
    assert!((MS * 20..=MS * 130).contains(&took), "{took:?}");
    assert_eq!((dependency.attempts(), retries.budget().in_hand()), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn what_is_fast_or_must_not_be_repeated_or_is_not_paid_for_is_sent_once() {
    let retries = retries(1);
    let layer = seasoned(&retries).await;
    let slow = Act::AnswerAfter(MS * 500, 200);
    let attempts = async |act: &Act, request| {
        let dependency = Scripted::new([act.clone()]);
        layer.layer(dependency.clone()).oneshot(request).await.unwrap();
        dependency.attempts()
    };
    assert_eq!(attempts(&Act::AnswerAfter(MS * 5, 200), read()).await, 1);
    assert_eq!(attempts(&slow, write()).await, 1);
    assert_eq!(attempts(&slow, read()).await, 2);
    assert_eq!(attempts(&slow, read()).await, 1, "there is no token any more");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_attempt_waits_for_the_other() {
    let layer = seasoned(&retries(5)).await;
    let call = async |first: (u32, u16), second: (u32, u16)| {
        let act = |(ms, status)| Act::AnswerAfter(MS * ms, status);
        let dependency = Scripted::new([act(first), act(second)]);
        layer.layer(dependency).oneshot(read()).await.unwrap().status().as_u16()
    };
    assert_eq!(call((300, 500), (900, 200)).await, 200);
    assert_eq!(call((900, 200), (10, 500)).await, 200);
    assert_eq!(call((300, 500), (900, 502)).await, 502);
}

#[tokio::test(start_paused = true)]
async fn of_two_failures_the_one_that_was_perhaps_carried_out_is_told() {
    let retries = retries(5);
    let layer = seasoned(&retries).await;
    let call = async |first: (u32, Option<u16>), second: (u32, Option<u16>)| {
        let acts = std::sync::Mutex::new(vec![second, first]);
        let acts = std::sync::Arc::new(acts);
        let inner = tower::service_fn(move |_| {
            let (ms, status) = acts.lock().unwrap().pop().unwrap();
            async move {
                tokio::time::sleep(MS * ms).await;
                let status = status.ok_or(Refused::BulkheadFull)?;
                Ok::<_, BoxError>(http::Response::builder().status(status).body("answer").unwrap())
            }
        });
        layer.layer(inner).oneshot(read()).await
    };
    for (first, second) in [((300, Some(502)), (900, None)), ((900, None), (10, Some(502)))] {
        assert_eq!(call(first, second).await.unwrap().status(), 502);
    }
    let refused = call((300, None), (900, None)).await.unwrap_err();
    assert_eq!(Refused::find(&*refused), Some(&Refused::BulkheadFull));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_hedged_before_enough_is_known_or_without_settings() {
    for settings in [None, Some(HedgeSettings::default())] {
        let layer = HedgeLayer::new(Http::default(), retries(5), settings);
        let dependency = Scripted::new([Act::AnswerAfter(MS * 60_000, 200)]);
        layer.layer(dependency.clone()).oneshot(read()).await.unwrap();
        assert_eq!(dependency.attempts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_a_layer_below_refuses_costs_nothing() {
    let (retries, root) = (retries(5), Root::new("root", 4));
    let layer = seasoned(&retries).await;
    let slow = Scripted::new([Act::AnswerAfter(MS * 500, 200)]);
    let (asked, lets) = (slow.clone(), std::sync::atomic::AtomicBool::new(true));
    let lets = std::sync::Arc::new(lets);
    let inner = tower::service_fn(move |request| {
        let lets = lets.swap(false, std::sync::atomic::Ordering::Relaxed);
        let asked = asked.clone();
        async move {
            if lets { asked.oneshot(request).await } else { Err(Refused::BulkheadFull.into()) }
        }
    });
    let answer = root.clone().scope(layer.layer(inner).oneshot(read())).await.unwrap();
    assert_eq!((answer.status().as_u16(), slow.attempts()), (200, 1));
    assert_eq!((retries.budget().in_hand(), root.left()), (5, 4));
}
