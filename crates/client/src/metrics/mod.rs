//! What the layers and [`once`](crate::once) measure, through OpenTelemetry: the meter provider that the
//! application installs picks it up, and without one measuring costs next to nothing.
//!
//! | instrument | kind, unit | attributes | when |
//! |---|---|---|---|
//! | `semel.client.operation.duration` | histogram, `s` | `outcome` | an operation ended, with all its attempts |
//! | `semel.client.attempt.duration` | histogram, `s` | `outcome` | an attempt ended |
//! | `semel.client.deadline.remaining` | histogram, `s` | `step` | a step was about to begin |
//! | `semel.client.retry.decisions` | counter, `{decision}` | `verdict`, `failure` | an attempt failed |
//! | `semel.client.hedges` | counter, `{hedge}` | `result` | an attempt took longer than most |
//! | `semel.client.refusals` | counter, `{call}` | `reason` | a layer refused a call without sending it |
//! | `semel.client.bulkhead.in_flight` | up-down counter, `{call}` | | a call got, or left, its place |
//! | `semel.client.breaker.state` | gauge, `1` | | a breaker changed: 0 closed, 1 half-open, 2 open |
//! | `semel.client.breaker.transitions` | counter, `{transition}` | `state`, `source` | a breaker changed |
//! | `semel.client.degraded` | counter, `{decision}` | `part` | something was decided with no node in reach |
//! | `semel.client.key.requests` | counter, `{request}` | `disposition` | a request that was to be handled once ended |
//! | `semel.client.key.claim.duration` | histogram, `s` | `outcome` | a claim ended, with all its attempts and waits |
//! | `semel.client.key.completion.duration` | histogram, `s` | `outcome` | a completion ended, with all its attempts |
//!
//! Those of keys have the attribute `semel.operation`, all others `semel.dependency`; the rest have the prefix
//! `semel.` as well. Each has few values: `outcome` is `ok`, a kind of failure, or a reason of refusal; `failure`
//! a kind of failure; `verdict` as in the contract; `step` is `operation` or `attempt`; `result` is `sent`, `won`
//! or `denied`; `reason` is `breaker_open`, `bulkhead_full` or `deadline_past`; `state` is
//! `closed`, `half_open` or `open`; `source` is `fleet` or `local`; `part` is `retries` or `breaker`.
//!
//! # Keys
//!
//! A request counts once, when it ends, under one `disposition`:
//!
//! | disposition | the work |
//! |---|---|
//! | `ran` | ran here, to its end; `overtaken`: while another took its claim over |
//! | `unknown`, `timed_out` | perhaps ran, here or elsewhere: nobody knows; here, it was not over in time |
//! | `replayed`, `answer_omitted` | ran before; its answer was too long to be stored |
//! | `in_progress` | is done by somebody else |
//! | `mismatch`, `expired`, `key_missing`, `key_invalid`, `unreadable` | did not run: the request, or its key, was turned away |
//! | `unavailable` | did not begin here: Semel can't be asked, or its answer to the claim was lost |
//! | `deadline_past`, `overloaded`, `refused` | did not run: no time, no place, or a request that Semel does not take |
//! | `unkeyed`, `unprotected` | was done without a key: none is needed, or Semel can't be asked |
//! | `dropped` | perhaps ran: nobody waited for its end, or it panicked |
//!
//! `outcome` of a claim is `claimed`, `resumed` (an earlier answer to it was lost), `taken_over`,
//! `reconcile_required`, `replayed`, `in_progress`, `indeterminate` or `released`; of a completion `stored`; of
//! both `refused`, or `unanswered`: perhaps carried out.
//!
//! Instruments are made once, and held.

mod keys;
#[cfg(test)]
pub(crate) mod measured;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};
use opentelemetry::{KeyValue, global};

pub(crate) use self::keys::{Counted, Disposition, KeyMetrics};

/// The name of the meter.
const METER: &str = "semel";

/// Bounds of the histograms, in seconds: from what a cache answers in to the longest deadlines.
const SECONDS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// The instruments. Cheap to clone; all clones are the same instruments.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Instruments>);

#[derive(Debug)]
struct Instruments {
    operation: Histogram<f64>,
    attempt: Histogram<f64>,
    remaining: Histogram<f64>,
    decisions: Counter<u64>,
    hedges: Counter<u64>,
    refusals: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    state: Gauge<u64>,
    transitions: Counter<u64>,
    degraded: Counter<u64>,
    key_requests: Counter<u64>,
    key_claim: Histogram<f64>,
    key_completion: Histogram<f64>,
}

impl Metrics {
    /// The instruments of the application's global meter provider. Install that first.
    #[must_use]
    pub fn global() -> Self {
        Self::of(&global::meter(METER))
    }

    /// The instruments of this meter.
    #[must_use]
    pub fn of(meter: &Meter) -> Self {
        let seconds =
            |name| meter.f64_histogram(name).with_unit("s").with_boundaries(SECONDS.to_vec());
        let counter = |name, unit| meter.u64_counter(name).with_unit(unit).build();
        Self(Arc::new(Instruments {
            operation: seconds("semel.client.operation.duration").build(),
            attempt: seconds("semel.client.attempt.duration").build(),
            remaining: seconds("semel.client.deadline.remaining").build(),
            decisions: counter("semel.client.retry.decisions", "{decision}"),
            hedges: counter("semel.client.hedges", "{hedge}"),
            refusals: counter("semel.client.refusals", "{call}"),
            in_flight: meter
                .i64_up_down_counter("semel.client.bulkhead.in_flight")
                .with_unit("{call}")
                .build(),
            state: meter.u64_gauge("semel.client.breaker.state").with_unit("1").build(),
            transitions: counter("semel.client.breaker.transitions", "{transition}"),
            degraded: counter("semel.client.degraded", "{decision}"),
            key_requests: counter("semel.client.key.requests", "{request}"),
            key_claim: seconds("semel.client.key.claim.duration").build(),
            key_completion: seconds("semel.client.key.completion.duration").build(),
        }))
    }

    /// The same for one dependency.
    pub(crate) fn dependency(&self, dependency: &str) -> DependencyMetrics {
        let name = KeyValue::new("semel.dependency", Arc::<str>::from(dependency));
        let with = |key, value| [name.clone(), KeyValue::new(key, value)];
        DependencyMetrics(Arc::new(Attributed {
            instruments: Arc::clone(&self.0),
            ok: with("semel.outcome", "ok"),
            steps: [Step::Operation, Step::Attempt].map(|step| with("semel.step", step.name())),
            name,
        }))
    }
}

/// The instruments as one dependency's layers use them, with the usual attributes at hand.
#[derive(Clone, Debug)]
pub(crate) struct DependencyMetrics(Arc<Attributed>);

#[derive(Debug)]
struct Attributed {
    instruments: Arc<Instruments>,
    name: KeyValue,
    ok: [KeyValue; 2],
    steps: [[KeyValue; 2]; 2],
}

/// What a deadline bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Operation,
    Attempt,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Attempt => "attempt",
        }
    }
}

/// What became of a hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hedge {
    Sent,
    Won,
    Denied,
}

impl DependencyMetrics {
    fn with(&self, key: &'static str, value: &'static str) -> [KeyValue; 2] {
        [self.0.name.clone(), KeyValue::new(key, value)]
    }

    /// An operation or attempt ended. `failure`: none if it went well.
    pub(crate) fn ended(&self, step: Step, took: Duration, failure: Option<&'static str>) {
        let histogram = match step {
            Step::Operation => &self.0.instruments.operation,
            Step::Attempt => &self.0.instruments.attempt,
        };
        match failure {
            None => histogram.record(took.as_secs_f64(), &self.0.ok),
            Some(name) => histogram.record(took.as_secs_f64(), &self.with("semel.outcome", name)),
        }
    }

    /// A step is about to begin with so much time left.
    pub(crate) fn remaining(&self, step: Step, left: Duration) {
        let [operation, attempt] = &self.0.steps;
        let attributes = if step == Step::Operation { operation } else { attempt };
        self.0.instruments.remaining.record(left.as_secs_f64(), attributes);
    }

    /// It was decided whether to send a failed attempt again.
    pub(crate) fn decided(&self, verdict: &'static str, failure: &'static str) {
        let [name, verdict] = self.with("semel.verdict", verdict);
        let failure = KeyValue::new("semel.failure", failure);
        self.0.instruments.decisions.add(1, &[name, verdict, failure]);
    }

    /// An attempt took longer than most.
    pub(crate) fn hedge(&self, result: Hedge) {
        let result = match result {
            Hedge::Sent => "sent",
            Hedge::Won => "won",
            Hedge::Denied => "denied",
        };
        self.0.instruments.hedges.add(1, &self.with("semel.result", result));
    }

    /// A layer refused a call.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.0.instruments.refusals.add(1, &self.with("semel.reason", reason));
    }

    /// So many calls more, or fewer, have a place.
    pub(crate) fn in_flight(&self, change: i64) {
        self.0.instruments.in_flight.add(change, std::slice::from_ref(&self.0.name));
    }

    /// A breaker changed.
    pub(crate) fn breaker(&self, state: BreakerState, source: &'static str) {
        let (value, state) = match state {
            BreakerState::Closed => (0, "closed"),
            BreakerState::HalfOpen => (1, "half_open"),
            BreakerState::Open => (2, "open"),
        };
        self.0.instruments.state.record(value, std::slice::from_ref(&self.0.name));
        let [name, state] = self.with("semel.state", state);
        let source = KeyValue::new("semel.source", source);
        self.0.instruments.transitions.add(1, &[name, state, source]);
    }

    /// Something was decided with no node in reach.
    pub(crate) fn degraded(&self, part: &'static str) {
        self.0.instruments.degraded.add(1, &self.with("semel.part", part));
    }
}

/// A breaker's state, as its gauge tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    HalfOpen,
    Open,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use opentelemetry_sdk::metrics::data::{ResourceMetrics, ScopeMetrics};

    use super::measured::Measured;
    use super::*;
    use crate::connection::Error;
    use crate::keys::ClaimAnswer;

    fn use_all(metrics: &Metrics) {
        let keys = metrics.operation("charge");
        keys.begin().end(Disposition::Ran);
        keys.claimed(Duration::from_millis(1), &Ok(ClaimAnswer::Indeterminate));
        let unanswered = Error::Unanswered { attempts: 1, last: String::new() };
        keys.completed(Duration::from_millis(1), &Err(unanswered));
        let metrics = metrics.dependency("stripe");
        for step in [Step::Operation, Step::Attempt] {
            metrics.ended(step, Duration::from_millis(1), None);
            metrics.ended(step, Duration::from_millis(1), Some("not_sent"));
            metrics.remaining(step, Duration::from_secs(1));
        }
        metrics.decided("granted", "throttled");
        metrics.hedge(Hedge::Sent);
        metrics.refused("breaker_open");
        metrics.in_flight(1);
        metrics.breaker(BreakerState::Open, "fleet");
        metrics.degraded("breaker");
    }

    #[test]
    fn the_table_names_exactly_the_instruments_and_their_attributes() {
        let measured = Measured::new();
        use_all(&measured.metrics());
        let exported = measured.exported();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        let made: BTreeSet<(String, String)> = scopes
            .flat_map(ScopeMetrics::metrics)
            .map(|metric| (metric.name().to_owned(), metric.unit().to_owned()))
            .collect();
        let rows = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows = rows.filter(|row| row.starts_with("semel."));
        let told: BTreeSet<(String, String)> = rows
            .map(|row| {
                let (name, rest) = row.split_once('`').unwrap();
                (name.to_owned(), rest.split('`').nth(1).unwrap().to_owned())
            })
            .collect();
        assert_eq!(made, told);
    }
}
