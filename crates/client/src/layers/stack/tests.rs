use std::collections::BTreeMap;
use std::time::Duration;

use tower::{Layer, ServiceExt};

use crate::layers::tests::{Act, Scripted, measured_breaker, read, retries};
use crate::layers::{HedgeSettings, Http, Refused, Stack};
use crate::metrics::measured::Measured;

/// What the instruments say, by their attributes but the dependency.
fn counted(measured: &Measured) -> BTreeMap<String, u64> {
    measured.counts("semel.client.", |pairs| {
        pairs.retain(|pair| pair.key.as_str() != "semel.dependency");
        pairs.sort_by_key(|pair| pair.value.to_string());
    })
}

#[tokio::test(start_paused = true)]
async fn every_step_is_measured() {
    let measured = Measured::new();
    let metrics = measured.metrics();
    let breaker = measured_breaker(metrics.clone());
    let stack = Stack::new(Http::default(), retries(1), breaker)
        .within(Duration::from_secs(9))
        .attempt_within(Duration::from_secs(1))
        .measured(metrics);
    let mut acts = vec![Act::Answer(503), Act::Answer(200)];
    acts.extend(vec![Act::Answer(500); 21]);
    let service = stack.layer(Scripted::new(acts));
    for _ in 0..21 {
        let _ = service.clone().oneshot(read()).await;
    }
    let error = service.oneshot(read()).await.unwrap_err();
    assert!(matches!(Refused::find(&*error), Some(Refused::BreakerOpen { .. })));
    let counted = counted(&measured);
    let expected = [
        ("attempt.duration ok", 1),
        ("attempt.duration server_error", 18),
        ("attempt.duration unknown_outcome", 1),
        ("breaker.state ", 2),
        ("breaker.transitions local open", 1),
        ("bulkhead.in_flight ", 0),
        ("deadline.remaining attempt", 20),
        ("deadline.remaining operation", 22),
        ("degraded breaker", 3),
        ("operation.duration breaker_open", 3),
        ("operation.duration ok", 1),
        ("operation.duration server_error", 18),
        ("refusals breaker_open", 3),
        ("retry.decisions breaker_open server_error", 1),
        ("retry.decisions budget_exhausted server_error", 17),
        ("retry.decisions granted unknown_outcome", 1),
    ];
    assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[tokio::test(start_paused = true)]
async fn hedges_are_measured_and_so_are_calls_under_way() {
    let measured = Measured::new();
    let metrics = measured.metrics();
    let stack = Stack::new(Http::default(), retries(1), measured_breaker(metrics.clone()))
        .hedged(HedgeSettings::default())
        .measured(metrics);
    let fast = Scripted::default();
    for _ in 0..64 {
        stack.layer(fast.clone()).oneshot(read()).await.unwrap();
    }
    let tens = Duration::from_millis(10);
    let won = Scripted::new([Act::Hang, Act::Answer(200)]);
    stack.layer(won).oneshot(read()).await.unwrap();
    let denied = Scripted::new([Act::AnswerAfter(tens, 200)]);
    stack.layer(denied).oneshot(read()).await.unwrap();
    let hangs = stack.layer(Scripted::new([Act::Hang])).oneshot(read());
    let counted = tokio::select! {
        biased;
        _ = hangs => panic!("it hangs"),
        counted = async {
            tokio::task::yield_now().await;
            counted(&measured)
        } => counted,
    };
    let of = |name: &str| counted.get(name).copied();
    assert_eq!(
        (of("hedges sent"), of("hedges won"), of("hedges denied")),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(of("bulkhead.in_flight "), Some(1));
}
