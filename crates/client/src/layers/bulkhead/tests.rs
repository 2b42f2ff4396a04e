use std::time::Duration;

use tokio::time::sleep;
use tower::{Layer, ServiceExt};

use crate::deadline::now;
use crate::layers::tests::{Act, Scripted, read};
use crate::layers::{BoxError, BulkheadLayer, Refused};

const WAIT: Duration = Duration::from_millis(100);

fn is_full<T>(result: &Result<T, BoxError>) -> bool {
    let error = result.as_ref().err();
    error.and_then(|error| Refused::find(&**error)) == Some(&Refused::BulkheadFull)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_place_waits_and_is_then_refused() {
    let layer = BulkheadLayer::new(1, WAIT);
    let dependency = Scripted::new([Act::AnswerAfter(WAIT * 3, 200)]);
    let call = || layer.layer(dependency.clone()).oneshot(read());
    let (began, late) = (now(), async {
        sleep(Duration::from_millis(1)).await;
        let waited = now();
        (call().await, now() - waited)
    });
    let (first, (second, waited)) = tokio::join!(call(), late);
    assert!(first.is_ok());
    assert!(is_full(&second));
    assert_eq!((waited, now() - began), (WAIT, WAIT * 3));
    assert!(call().await.is_ok(), "the place is free again");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_becomes_free_goes_to_who_waits_and_only_as_many_wait_as_there_are_places() {
    let layer = BulkheadLayer::new(2, WAIT);
    let dependency = Scripted::new(vec![Act::AnswerAfter(WAIT / 2, 200); 2]);
    let calls = (0..5).map(|_| layer.layer(dependency.clone()).oneshot(read()));
    let results = futures::future::join_all(calls).await;
    assert_eq!(results.iter().filter(|result| is_full(result)).count(), 1);
    assert_eq!(dependency.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_its_place() {
    let layer = BulkheadLayer::new(1, WAIT);
    let call = || layer.layer(Scripted::new([Act::Hang])).oneshot(read());
    assert!(tokio::time::timeout(WAIT, call()).await.is_err());
    assert!(tokio::time::timeout(WAIT / 2, call()).await.is_err(), "it hangs, but was let in");
    assert!(layer.layer(Scripted::default()).oneshot(read()).await.is_ok());
}
