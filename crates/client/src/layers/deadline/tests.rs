use std::time::Duration;

use tower::{Layer, ServiceExt};

use crate::deadline::wire::DEADLINE_HEADER;
use crate::deadline::{Deadline, now};
use crate::layers::tests::{Act, Scripted, read};
use crate::layers::{CRITICALITY_HEADER, Criticality, DeadlineLayer, Http, Refused};
use crate::root::{ROOT_HEADER, ROOT_LEFT_HEADER, Root};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_at_its_limit_or_at_the_deadline_if_that_is_earlier() {
    for (limit, deadline, expected) in [(1, 5, 1), (5, 2, 2)] {
        let layer = DeadlineLayer::attempt(Http::default(), SECOND * limit);
        let call = layer.layer(Scripted::new([Act::Hang])).oneshot(read());
        let began = now();
        let error = Deadline::within(SECOND * deadline).scope(call).await.unwrap_err();
        let after = SECOND * expected;
        assert_eq!(Refused::find(&*error), Some(&Refused::TimedOut { after }));
        assert_eq!(now() - began, after);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_past_is_refused_at_once_and_nothing_is_sent() {
    let dependency = Scripted::default();
    let layer = DeadlineLayer::operation(Http::default(), None);
    let call = layer.layer(dependency.clone()).oneshot(read());
    let deadline = Deadline::within(SECOND);
    tokio::time::advance(SECOND).await;
    let error = deadline.scope(call).await.unwrap_err();
    assert_eq!(Refused::find(&*error), Some(&Refused::DeadlinePast));
    assert_eq!(dependency.attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_callee_and_all_below_learn_what_is_left() {
    let dependency = Scripted::default();
    let seen = tower::service_fn(|request| {
        assert_eq!(Deadline::current().unwrap().left(), SECOND);
        dependency.clone().oneshot(request)
    });
    let layer = DeadlineLayer::operation(Http::default(), SECOND);
    layer.layer(seen).oneshot(read()).await.unwrap();
    assert_eq!(dependency.headers(0, &DEADLINE_HEADER).as_deref(), Some("1000"));
    let unbounded = DeadlineLayer::operation(Http::default(), None);
    unbounded.layer(dependency.clone()).oneshot(read()).await.unwrap();
    assert_eq!(dependency.headers(1, &DEADLINE_HEADER), None);
}

#[tokio::test]
async fn an_attempt_carries_half_of_the_roots_retries_and_takes_back_what_is_returned() {
    let layer = DeadlineLayer::attempt(Http::default(), None);
    let left_after = async |dependency: &Scripted, layer: &DeadlineLayer<Http>| {
        let root = Root::new("ab", 4);
        let call = layer.layer(dependency.clone()).oneshot(read());
        let _ = root.clone().scope(call).await;
        root.left()
    };
    let dependency = Scripted::default();
    assert_eq!(left_after(&dependency, &layer).await, 2, "what is not returned is lost");
    assert_eq!(dependency.headers(0, &ROOT_HEADER).as_deref(), Some("6162;1;2"));
    dependency.replies(ROOT_LEFT_HEADER, "2");
    assert_eq!(left_after(&dependency, &layer).await, 4);
    let unsent = Scripted::new([Act::Break(std::io::ErrorKind::ConnectionRefused)]);
    assert_eq!(left_after(&unsent, &layer).await, 4, "nothing was sent");
    let layer = layer.without_root();
    assert_eq!(left_after(&dependency, &layer).await, 4);
    assert_eq!(dependency.headers(2, &ROOT_HEADER), None);
}

#[tokio::test]
async fn an_attempt_carries_how_much_it_matters_if_that_is_known() {
    let told = async |layer: &DeadlineLayer<Http>, own: Option<Criticality>| {
        let (dependency, mut request) = (Scripted::default(), read());
        if let Some(own) = own {
            request.extensions_mut().insert(own);
        }
        layer.layer(dependency.clone()).oneshot(request).await.unwrap();
        dependency.headers(0, &CRITICALITY_HEADER)
    };
    let layer = DeadlineLayer::attempt(Http::default(), SECOND);
    assert_eq!(told(&layer, None).await, None);
    assert_eq!(told(&layer, Some(Criticality::High)).await.as_deref(), Some("high"));
    let caused = Criticality::Sheddable.scope(told(&layer, None)).await;
    assert_eq!(caused.as_deref(), Some("sheddable"));
    let outside = layer.without_root();
    assert_eq!(told(&outside, Some(Criticality::High)).await, None);
}
