//! For tests: what was measured.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

use super::{METER, Metrics};

/// Instruments whose numbers can be looked at.
pub(crate) struct Measured {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Measured {
    pub(crate) fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        Self { exporter, provider: SdkMeterProvider::builder().with_reader(reader).build() }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::of(&self.provider.meter(METER))
    }

    /// How often each instrument of keys was used, by the values of its attributes: `requests charge ran`.
    pub(crate) fn keys(&self) -> BTreeMap<String, u64> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        let mut all = BTreeMap::new();
        for resource in self.exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(ScopeMetrics::metrics) {
                let Some(name) = metric.name().strip_prefix("semel.client.key.") else { continue };
                let mut note = |attributes: &mut dyn Iterator<Item = &KeyValue>, count| {
                    let mut pairs: Vec<&KeyValue> = attributes.collect();
                    pairs.sort_by_key(|pair| pair.key.as_str() != "semel.operation");
                    let values: Vec<String> =
                        pairs.iter().map(|pair| pair.value.to_string()).collect();
                    all.insert(format!("{name} {}", values.join(" ")), count);
                };
                match metric.data() {
                    AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                        .data_points()
                        .for_each(|point| note(&mut point.attributes(), point.value())),
                    AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                        .data_points()
                        .for_each(|point| note(&mut point.attributes(), point.count())),
                    _ => panic!("{name} is of a kind that nobody looks at"),
                }
            }
        }
        all
    }

    pub(crate) fn assert_keys(&self, expected: &[(&str, u64)]) {
        let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(self.keys(), expected);
    }
}
