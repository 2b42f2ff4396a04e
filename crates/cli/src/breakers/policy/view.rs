//! How a breaker's policy is shown.

use std::io;

use semel_proto::v1::BreakerPolicy;
use serde::Serialize;

use crate::output::{Page, Reply};
use crate::values::{show_ms, show_per_mille, to_ms};

/// A policy, complete.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyView {
    failure_per_mille: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<i64>,
    calls_min: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down_max_ms: Option<i64>,
    probes_max: u32,
    successes_to_close: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_lease_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp_step_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_call_ms: Option<i64>,
    slow_per_mille: u32,
}

impl From<BreakerPolicy> for PolicyView {
    fn from(policy: BreakerPolicy) -> Self {
        Self {
            failure_per_mille: policy.failure_per_mille,
            window_ms: policy.window.as_ref().map(to_ms),
            calls_min: policy.calls_min,
            cool_down_ms: policy.cool_down.as_ref().map(to_ms),
            cool_down_max_ms: policy.cool_down_max.as_ref().map(to_ms),
            probes_max: policy.probes_max,
            successes_to_close: policy.successes_to_close,
            probe_lease_ms: policy.probe_lease.as_ref().map(to_ms),
            ramp_step_ms: policy.ramp_step.as_ref().map(to_ms),
            slow_call_ms: policy.slow_call.as_ref().map(to_ms),
            slow_per_mille: policy.slow_per_mille,
        }
    }
}

impl Reply for PolicyView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let failures = show_per_mille(self.failure_per_mille);
        page.field("opens at", format!("{failures} failed of {} calls or more", self.calls_min))?;
        page.field_if("window", self.window_ms.map(show_ms))?;
        page.field_if("cool-down", self.cool_down_ms.map(show_ms))?;
        page.field_if("at most", self.cool_down_max_ms.map(show_ms))?;
        page.field("probes", format!("{} at once", self.probes_max))?;
        page.field("closes after", format!("{} in a row", self.successes_to_close))?;
        page.field_if("probe lease", self.probe_lease_ms.map(show_ms))?;
        page.field_if("ramp step", self.ramp_step_ms.map(show_ms))?;
        match self.slow_call_ms {
            None => page.field("slow calls", "never open it"),
            Some(slow_ms) => {
                let share = show_per_mille(self.slow_per_mille);
                page.field("slow calls", format!("over {}; {share} open it", show_ms(slow_ms)))
            }
        }
    }
}
