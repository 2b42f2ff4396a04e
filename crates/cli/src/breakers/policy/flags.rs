//! The fields of a breaker's policy as options, and what they change of a policy.

use std::time::Duration;

use clap::Args;
use semel_proto::v1::BreakerPolicy;

use crate::values::{parse_duration, to_wire};

/// What to change. Each says its default: what a policy has that never named it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The policy")]
pub(crate) struct BreakerPolicyFlags {
    /// The share of failures that opens it, in thousandths: 1 to 1000. Default: 500.
    #[arg(long, value_name = "N")]
    failure_per_mille: Option<u32>,

    /// The window: 1s to 10m. Default: 30s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    window: Option<Duration>,

    /// Fewer calls than this in the window never open it: 1 to 1000000. Default: 20.
    #[arg(long, value_name = "N")]
    calls_min: Option<u32>,

    /// How long it stays open at first: 100ms to 1h. Doubles with each failed recovery. Default: 30s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    cool_down: Option<Duration>,

    /// The longest that it stays open: at least the cool-down, at most 24h. Default: 5m.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    cool_down_max: Option<Duration>,

    /// Probes under way at once in the whole fleet: 1 to 100. Default: 1.
    #[arg(long, value_name = "N")]
    probes_max: Option<u32>,

    /// Probes that must succeed one after another to close it: 1 to 100. Default: 3.
    #[arg(long, value_name = "N")]
    successes_to_close: Option<u32>,

    /// How long a probe may take before it is inconclusive: 100ms to 1h. Default: 10s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    probe_lease: Option<Duration>,

    /// How long each step of the recovery ramp lasts: 0s to 10m; 0s: no ramp. Default: 5s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ramp_step: Option<Duration>,

    /// A call that takes longer is slow: 1ms to 1h, or off. Default: off.
    #[arg(long, value_name = "DURATION|off", value_parser = parse_slow_call)]
    slow_call: Option<SlowCall>,

    /// The share of slow calls that opens it, in thousandths: 1 to 1000. Default: 1000.
    #[arg(long, value_name = "N")]
    slow_per_mille: Option<u32>,
}

/// When a call is slow.
#[derive(Clone, Copy, Debug)]
enum SlowCall {
    Never,
    After(Duration),
}

fn parse_slow_call(text: &str) -> Result<SlowCall, String> {
    if text == "off" { Ok(SlowCall::Never) } else { parse_duration(text).map(SlowCall::After) }
}

impl BreakerPolicyFlags {
    /// The policy with what was named changed.
    pub(crate) fn onto(self, policy: BreakerPolicy) -> BreakerPolicy {
        BreakerPolicy {
            failure_per_mille: self.failure_per_mille.unwrap_or(policy.failure_per_mille),
            window: self.window.map(to_wire).or(policy.window),
            calls_min: self.calls_min.unwrap_or(policy.calls_min),
            cool_down: self.cool_down.map(to_wire).or(policy.cool_down),
            cool_down_max: self.cool_down_max.map(to_wire).or(policy.cool_down_max),
            probes_max: self.probes_max.unwrap_or(policy.probes_max),
            successes_to_close: self.successes_to_close.unwrap_or(policy.successes_to_close),
            probe_lease: self.probe_lease.map(to_wire).or(policy.probe_lease),
            ramp_step: self.ramp_step.map(to_wire).or(policy.ramp_step),
            slow_call: match self.slow_call {
                None => policy.slow_call,
                Some(SlowCall::Never) => None,
                Some(SlowCall::After(duration)) => Some(to_wire(duration)),
            },
            slow_per_mille: self.slow_per_mille.unwrap_or(policy.slow_per_mille),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: BreakerPolicyFlags,
    }

    fn set(words: &str, policy: BreakerPolicy) -> BreakerPolicy {
        let words = words.split_whitespace();
        Line::try_parse_from(["line"].into_iter().chain(words)).unwrap().flags.onto(policy)
    }

    #[test]
    fn every_field_can_be_set_and_the_slow_call_rule_be_switched_off() {
        let policy = set(
            "--failure-per-mille 300 --window 1m --calls-min 50 --cool-down 10s --cool-down-max 1h \
             --probes-max 2 --successes-to-close 5 --probe-lease 3s --ramp-step 0s --slow-call 2s \
             --slow-per-mille 800",
            BreakerPolicy::default(),
        );
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let expected = BreakerPolicy {
            failure_per_mille: 300,
            window: seconds(60),
            calls_min: 50,
            cool_down: seconds(10),
            cool_down_max: seconds(3_600),
            probes_max: 2,
            successes_to_close: 5,
            probe_lease: seconds(3),
            ramp_step: seconds(0),
            slow_call: seconds(2),
            slow_per_mille: 800,
        };
        assert_eq!(policy, expected);
        assert_eq!(set("", expected), expected, "what is not named stays");
        assert_eq!(set("--slow-call off", expected).slow_call, None);
    }
}
