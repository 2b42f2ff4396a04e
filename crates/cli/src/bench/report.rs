//! The figures of a run, for people and for scripts.

use std::io;

use bytesize::ByteSize;
use serde::Serialize;

use super::callers::{GrantSum, HotKeySum};
use super::crew::Measured;
use super::server::ServerProcess;
use super::{BenchArgs, Name};
use crate::output::{BAD, GOOD, Page, Reply};

/// What a run came to.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: &'static str,
    client: &'static str,
    connections: u16,
    concurrency: u16,
    requests: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    seconds: f64,
    per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_per_second: Option<f64>,
    p50_ms: f64,
    p99_ms: f64,
    noop_per_second: f64,
    noop_p50_ms: f64,
    noop_p99_ms: f64,
    ratio_to_noop: f64,
    per_second_of_turns: Vec<f64>,
    noop_per_second_of_turns: Vec<f64>,
    #[serde(flatten)]
    hot_key: Option<HotKeySum>,
    #[serde(flatten)]
    grants: Option<GrantSum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_bound: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<bool>,
    keys_beforehand: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_peak_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_bytes: Option<u64>,
}

impl Report {
    /// What was measured of both sides.
    pub(crate) fn new(args: &BenchArgs, noop: &Measured, measured: &Measured) -> Self {
        let calls = if args.name == Name::ClaimComplete { Some(2.0) } else { None };
        let per_second = measured.per_second();
        Self {
            name: args.name.text(),
            client: args.client.text(),
            connections: args.connections,
            concurrency: args.concurrency,
            requests: measured.requests(),
            errors: measured.errors() + noop.errors(),
            first_error: measured.first_error().or(noop.first_error()).map(str::to_owned),
            seconds: rounded(measured.seconds(), 1_000.0),
            per_second: rounded(per_second, 10.0),
            calls_per_second: calls.map(|calls| rounded(calls * per_second, 10.0)),
            p50_ms: measured.latency_ms(0.5),
            p99_ms: measured.latency_ms(0.99),
            noop_per_second: rounded(noop.per_second(), 10.0),
            noop_p50_ms: noop.latency_ms(0.5),
            noop_p99_ms: noop.latency_ms(0.99),
            ratio_to_noop: rounded(per_second / noop.per_second(), 1_000.0),
            per_second_of_turns: measured.rates().iter().map(|rate| rounded(*rate, 10.0)).collect(),
            noop_per_second_of_turns: noop
                .rates()
                .iter()
                .map(|rate| rounded(*rate, 10.0))
                .collect(),
            hot_key: None,
            grants: None,
            within_bound: None,
            budgets: args.name.is_spread().then_some(args.budgets),
            root: (args.name == Name::Acquire).then_some(args.root),
            keys_beforehand: args.keys_beforehand(),
            node_rss_bytes: None,
            node_peak_rss_bytes: None,
            store_bytes: None,
        }
    }

    /// Adds what came of the one key.
    pub(crate) fn with_hot_key(mut self, sum: HotKeySum) -> Self {
        self.hot_key = Some(sum);
        self
    }

    /// Adds what the calls were granted, and whether that was no more than the policy allows.
    pub(crate) const fn with_grants(mut self, sum: GrantSum, within_bound: bool) -> Self {
        self.grants = Some(sum);
        self.within_bound = Some(within_bound);
        self
    }

    /// Adds what the node takes, if it is a child of ours.
    pub(crate) fn with_node(mut self, node: Option<&ServerProcess>) -> Self {
        let memory = node.and_then(ServerProcess::memory);
        self.node_rss_bytes = memory.map(|memory| memory.now);
        self.node_peak_rss_bytes = memory.map(|memory| memory.peak);
        self.store_bytes = node.and_then(ServerProcess::store_bytes);
        self
    }

    /// Whether everything was answered as it must be.
    pub(crate) fn is_clean(&self) -> bool {
        self.errors == 0
            && self.hot_key.is_none_or(HotKeySum::is_right)
            && self.within_bound.unwrap_or(true)
    }
}

impl Reply for Report {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let style = if self.is_clean() { GOOD } else { BAD };
        let rate = grouped(self.per_second);
        let meaning = format!("{rate} per second, {:.2} of the no-op", self.ratio_to_noop);
        page.title(style, self.name, &meaning)?;
        page.field("client", self.client)?;
        let requests = grouped(self.requests as f64);
        page.field("requests", format!("{requests} in {:.1} s", self.seconds))?;
        page.field("errors", self.errors)?;
        page.field_if("first error", self.first_error.as_ref())?;
        page.field("latency", format!("p50 {:.2} ms, p99 {:.2} ms", self.p50_ms, self.p99_ms))?;
        page.field_if(
            "calls",
            self.calls_per_second.map(|rate| format!("{} per second", grouped(rate))),
        )?;
        let noop = grouped(self.noop_per_second);
        let latency = format!("p50 {:.2} ms, p99 {:.2} ms", self.noop_p50_ms, self.noop_p99_ms);
        page.field("no-op", format!("{noop} per second, {latency}"))?;
        if let Some(sum) = &self.hot_key {
            page.field("claimed", sum.claimed)?;
            page.field("replayed", grouped(sum.replayed as f64))?;
            page.field(
                "distinct",
                format!("{} (answers that differ in any byte)", sum.distinct_responses),
            )?;
        }
        if let Some(sum) = &self.grants {
            page.field("granted", grouped(sum.granted as f64))?;
            page.field("exhausted", grouped(sum.exhausted as f64))?;
            let within = if self.within_bound == Some(true) { "within" } else { "OVER" };
            let attempts = grouped(sum.first_attempts as f64);
            page.field("first attempts", format!("{attempts}; {within} the bound"))?;
        }
        if let Some(budgets) = self.budgets {
            let root = if self.root == Some(true) { ", each call with a root request" } else { "" };
            page.field("budgets", format!("{}{root}", grouped(f64::from(budgets))))?;
        }
        if let (Some(now), Some(peak)) = (self.node_rss_bytes, self.node_peak_rss_bytes) {
            page.field("node memory", format!("{}, at most {}", ByteSize(now), ByteSize(peak)))?;
        }
        page.field_if("store on disk", self.store_bytes.map(ByteSize))
    }
}

pub(super) fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// A whole number with its thousands apart.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(7.4), "7");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_000.0), "1,000");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}
