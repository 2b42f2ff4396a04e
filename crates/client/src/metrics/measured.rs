//! For tests: what was measured.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
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

    /// What was measured so far.
    pub(crate) fn exported(&self) -> Vec<ResourceMetrics> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        self.exporter.get_finished_metrics().unwrap()
    }

    /// How often each instrument whose name begins so was used, or what it says, by the rest of its name and the values
    /// of its attributes, as `arrange` leaves them.
    pub(crate) fn counts(
        &self,
        prefix: &str,
        arrange: impl Fn(&mut Vec<&KeyValue>),
    ) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let exported = self.exported();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        for metric in scopes.flat_map(ScopeMetrics::metrics) {
            let Some(name) = metric.name().strip_prefix(prefix) else { continue };
            let mut note = |attributes: &mut dyn Iterator<Item = &KeyValue>, count: u64| {
                let mut pairs: Vec<&KeyValue> = attributes.collect();
                arrange(&mut pairs);
                let values: Vec<String> = pairs.iter().map(|pair| pair.value.to_string()).collect();
                all.insert(format!("{name} {}", values.join(" ")), count);
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                    sum.data_points()
                        .for_each(|point| note(&mut point.attributes(), point.value()));
                }
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    sum.data_points().for_each(|point| {
                        note(&mut point.attributes(), point.value().try_into().unwrap());
                    });
                }
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                    .data_points()
                    .for_each(|point| note(&mut point.attributes(), point.count())),
                AggregatedMetrics::U64(MetricData::Gauge(gauge)) => gauge
                    .data_points()
                    .for_each(|point| note(&mut point.attributes(), point.value())),
                _ => panic!("{name} is of a kind that nobody looks at"),
            }
        }
        all
    }

    /// What the instruments of keys say: `requests charge ran`.
    pub(crate) fn keys(&self) -> BTreeMap<String, u64> {
        let operation_first = |pairs: &mut Vec<&KeyValue>| {
            pairs.sort_by_key(|pair| pair.key.as_str() != "semel.operation");
        };
        self.counts("semel.client.key.", operation_first)
    }

    pub(crate) fn assert_keys(&self, expected: &[(&str, u64)]) {
        let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(self.keys(), expected);
    }
}
