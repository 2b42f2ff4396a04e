use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use tower::{Layer, ServiceExt};

use crate::Metrics;
use crate::layers::tests::{Act, Scripted, measured_breaker, read, retries};
use crate::layers::{HedgeSettings, Http, Refused, Stack};

/// How often each instrument was used, or what it says, by its attributes but the dependency.
fn counted(exporter: &InMemoryMetricExporter) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for resource in exporter.get_finished_metrics().unwrap() {
        for metric in resource.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let name = metric.name().trim_start_matches("semel.client.");
            let mut note = |attributes: Vec<String>, count: u64| {
                all.insert(format!("{name} {}", attributes.join(" ")), count);
            };
            let values = |attributes: &mut dyn Iterator<Item = &opentelemetry::KeyValue>| {
                let own = attributes.filter(|pair| pair.key.as_str() != "semel.dependency");
                let mut own: Vec<String> = own.map(|pair| pair.value.to_string()).collect();
                own.sort();
                own
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                    .data_points()
                    .for_each(|point| note(values(&mut point.attributes()), point.value())),
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                    .data_points()
                    .for_each(|point| note(values(&mut point.attributes()), point.count())),
                AggregatedMetrics::U64(MetricData::Gauge(gauge)) => gauge
                    .data_points()
                    .for_each(|point| note(values(&mut point.attributes()), point.value())),
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    sum.data_points().for_each(|point| {
                        let value = point.value().try_into().unwrap();
                        note(values(&mut point.attributes()), value);
                    });
                }
                _ => panic!("{name} is of a kind that nobody looks at"),
            }
        }
    }
    all
}

fn measuring() -> (InMemoryMetricExporter, SdkMeterProvider, Metrics) {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let metrics = Metrics::of(&provider.meter("semel"));
    (exporter, provider, metrics)
}

#[tokio::test(start_paused = true)]
async fn every_step_is_measured() {
    let (exporter, provider, metrics) = measuring();
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
    provider.force_flush().unwrap();
    let counted = counted(&exporter);
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
    let (exporter, provider, metrics) = measuring();
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
    tokio::time::timeout(tens, async {
        tokio::join!(hangs, async {
            tokio::task::yield_now().await;
            provider.force_flush().unwrap();
        })
    })
    .await
    .unwrap_err();
    let counted = counted(&exporter);
    let of = |name: &str| counted.get(name).copied();
    assert_eq!(
        (of("hedges sent"), of("hedges won"), of("hedges denied")),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(of("bulkhead.in_flight "), Some(1));
}
