//! How a retry policy is shown.

use std::collections::BTreeMap;
use std::io;

use semel_proto::v1::{
    BackoffStrategy, DepositOn, Enforcement, FailMode, FailureKind, RetryPolicy,
};
use serde::Serialize;

use crate::output::{Page, Reply};
use crate::values::{named, show_milli, show_ms, show_per_mille, to_ms};

/// A policy, complete.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyView {
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_per_mille: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    carry_over_ms: Option<i64>,
    costs_milli: BTreeMap<String, u32>,
    attempts_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries_per_root: Option<u32>,
    retry_layer: String,
    backoff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_base_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_base_throttled_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_cap_ms: Option<i64>,
    deposit_on: String,
    fail_mode: String,
    reserve_per_mille: u32,
    enforcement: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<i64>,
}

impl From<RetryPolicy> for PolicyView {
    fn from(policy: RetryPolicy) -> Self {
        let costs = policy.costs.iter();
        Self {
            ratio_per_mille: policy.ratio_per_mille,
            floor_per_second: policy.floor_per_second,
            window_ms: policy.window.as_ref().map(to_ms),
            carry_over_ms: policy.carry_over.as_ref().map(to_ms),
            costs_milli: costs
                .map(|cost| (named!(FailureKind, cost.kind, "FAILURE_KIND_"), cost.cost_milli))
                .collect(),
            attempts_max: policy.attempts_max,
            retries_per_root: policy.retries_per_root,
            retry_layer: policy.retry_layer,
            backoff: named!(BackoffStrategy, policy.backoff, "BACKOFF_STRATEGY_"),
            backoff_base_ms: policy.backoff_base.as_ref().map(to_ms),
            backoff_base_throttled_ms: policy.backoff_base_throttled.as_ref().map(to_ms),
            backoff_cap_ms: policy.backoff_cap.as_ref().map(to_ms),
            deposit_on: named!(DepositOn, policy.deposit_on, "DEPOSIT_ON_"),
            fail_mode: named!(FailMode, policy.fail_mode, "FAIL_MODE_"),
            reserve_per_mille: policy.reserve_per_mille,
            enforcement: named!(Enforcement, policy.enforcement, "ENFORCEMENT_"),
            lease_ms: policy.lease.as_ref().map(to_ms),
        }
    }
}

impl Reply for PolicyView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let ratio = self.ratio_per_mille.map(show_per_mille);
        page.field_if("ratio", ratio.map(|ratio| format!("{ratio} of first attempts")))?;
        page.field_if("floor", self.floor_per_second.map(|floor| format!("{floor} per second")))?;
        page.field_if("window", self.window_ms.map(show_ms))?;
        page.field_if("carry-over", self.carry_over_ms.map(show_ms))?;
        for (kind, cost_milli) in &self.costs_milli {
            let cost = show_milli(u64::from(*cost_milli));
            page.field("cost", format!("{cost} after {kind}"))?;
        }
        page.field("attempts", format!("{} per call", self.attempts_max))?;
        page.field_if("retries", self.retries_per_root.map(|most| format!("{most} per root")))?;
        let layer = if self.retry_layer.is_empty() { "any" } else { &self.retry_layer };
        page.field("layer", layer)?;
        page.field("backoff", &self.backoff)?;
        page.field_if("first step", self.backoff_base_ms.map(show_ms))?;
        page.field_if("if throttled", self.backoff_base_throttled_ms.map(show_ms))?;
        page.field_if("longest step", self.backoff_cap_ms.map(show_ms))?;
        page.field("deposit on", &self.deposit_on)?;
        page.field("store away", &self.fail_mode)?;
        page.field("reserve", show_per_mille(self.reserve_per_mille))?;
        page.field("enforcement", &self.enforcement)?;
        page.field_if("lease", self.lease_ms.map(show_ms))
    }
}
