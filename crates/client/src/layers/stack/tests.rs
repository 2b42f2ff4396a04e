use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use tower::{Layer, ServiceExt};

use super::Stack;
use crate::Metrics;
use crate::layers::tests::{Act, Scripted, measured_breaker, read, retries};
use crate::layers::{Http, Refused};

/// How often each instrument was used, by its attributes but the dependency.
fn counted(exporter: &InMemoryMetricExporter) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for resource in exporter.get_finished_metrics().unwrap() {
        for metric in resource.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let mut note = |attributes: Vec<String>, count: u64| {
                let name = metric.name().trim_start_matches("semel.client.");
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
                _ => {}
            }
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn every_step_is_measured() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let metrics = Metrics::of(&provider.meter("semel"));
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
        ("breaker.transitions local open", 1),
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
