//! The fields of a retry policy as options, and what they change of a policy.

use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_proto::v1::{
    BackoffStrategy, DepositOn, Enforcement, FailMode, FailureCost, FailureKind, RetryPolicy,
};

use crate::values::{parse_duration, to_wire};

/// What to change. Each says its default: what a policy has that never named it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The policy")]
pub(crate) struct RetryPolicyFlags {
    /// Thousandths of a retry per first attempt: 0 to 1000. Default: 100, which is 10 %.
    #[arg(long, value_name = "N")]
    ratio_per_mille: Option<u32>,

    /// Retries per second that the whole fleet may make whatever its traffic: 0 to 1000000. Default: 10.
    #[arg(long, value_name = "N")]
    floor_per_second: Option<u32>,

    /// How long a first attempt pays for retries: 1s to 60s. Default: 10s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    window: Option<Duration>,

    /// How much longer what was not spent stays good: 0s to 60s. Default: 0s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    carry_over: Option<Duration>,

    /// What a retry costs after a kind of failure, in thousandths of a token: 1 to 1000000. Default:
    /// 1000 for each. May be given again.
    #[arg(long, value_name = "KIND=N", value_parser = parse_cost)]
    cost: Vec<FailureCost>,

    /// Attempts per call, the first included: 1 to 100. Default: 3.
    #[arg(long, value_name = "N")]
    attempts_max: Option<u32>,

    /// Retries in the whole call tree of a root request: 0 to 1000. Default: 4.
    #[arg(long, value_name = "N")]
    retries_per_root: Option<u32>,

    /// The one layer that retries; an empty name: any. Default: any.
    #[arg(long, value_name = "NAME")]
    retry_layer: Option<String>,

    /// How delays grow. Default: full-jitter.
    #[arg(long, value_name = "STRATEGY")]
    backoff: Option<BackoffArg>,

    /// The first step: 1ms to 1h. Default: 50ms.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff_base: Option<Duration>,

    /// The first step after a failure of the kind throttled: 1ms to 1h. Default: 1s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff_base_throttled: Option<Duration>,

    /// The longest step: at least the bases, at most 1h. Default: 20s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff_cap: Option<Duration>,

    /// Which first attempts are deposited. Default: request.
    #[arg(long, value_name = "WHEN")]
    deposit_on: Option<DepositArg>,

    /// What happens while the store is away. Default: local-bounded.
    #[arg(long, value_name = "MODE")]
    fail_mode: Option<FailModeArg>,

    /// The part of the budget kept for high criticality, in thousandths: 0 to 1000. Default: 0.
    #[arg(long, value_name = "N")]
    reserve_per_mille: Option<u32>,

    /// Whether it denies. Default: enforce.
    #[arg(long, value_name = "WHETHER")]
    enforcement: Option<EnforcementArg>,

    /// How long tokens handed to a node or a client are good for: 100ms to 10s. Default: 1s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lease: Option<Duration>,
}

/// A choice of values that each stand for one of the contract.
macro_rules! choice {
    ($name:ident is $wire:ident { $($(#[$doc:meta])* $value:ident,)* }) => {
        #[derive(Clone, Copy, Debug, ValueEnum)]
        enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            const fn wire(self) -> $wire {
                match self { $(Self::$value => $wire::$value,)* }
            }
        }
    };
}

choice!(BackoffArg is BackoffStrategy {
    /// Anything from nothing to the step
    FullJitter,
    /// Half the step, and anything up to the other half
    EqualJitter,
    /// Anything from the base to three times the delay before
    DecorrelatedJitter,
    /// No delay but what the dependency asks for
    None,
});

choice!(DepositArg is DepositOn {
    /// Each first attempt
    Request,
    /// Only those that succeeded: in an outage the budget dries up
    Success,
});

choice!(FailModeArg is FailMode {
    /// A node grants what its own callers deposited
    LocalBounded,
    /// All retries are denied
    Deny,
    /// All are granted; the bound does not hold then
    Allow,
});

choice!(EnforcementArg is Enforcement {
    /// It does
    Enforce,
    /// It grants all, and says what it would have denied; the bound does not hold
    Observe,
});

choice!(KindArg is FailureKind {
    NotSent,
    Throttled,
    UnknownOutcome,
    ServerError,
    Rejected,
    InProgress,
    Cancelled,
});

fn parse_cost(text: &str) -> Result<FailureCost, String> {
    let (kind, cost) = text.split_once('=').ok_or_else(|| "write it as KIND=N".to_owned())?;
    let kind = KindArg::from_str(kind, true).map_err(|_| {
        let names = KindArg::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        format!("{kind} is no kind of failure: use one of {}", names.join(", "))
    })?;
    let cost_milli = cost.parse().map_err(|error| format!("{cost} is no cost: {error}"))?;
    Ok(FailureCost { kind: kind.wire().into(), cost_milli })
}

impl RetryPolicyFlags {
    /// The policy with what was named changed.
    pub(crate) fn onto(self, mut policy: RetryPolicy) -> RetryPolicy {
        for cost in self.cost {
            policy.costs.retain(|before| before.kind != cost.kind);
            policy.costs.push(cost);
        }
        RetryPolicy {
            ratio_per_mille: self.ratio_per_mille.or(policy.ratio_per_mille),
            floor_per_second: self.floor_per_second.or(policy.floor_per_second),
            window: self.window.map(to_wire).or(policy.window),
            carry_over: self.carry_over.map(to_wire).or(policy.carry_over),
            costs: policy.costs,
            attempts_max: self.attempts_max.unwrap_or(policy.attempts_max),
            retries_per_root: self.retries_per_root.or(policy.retries_per_root),
            retry_layer: self.retry_layer.unwrap_or(policy.retry_layer),
            backoff: self.backoff.map_or(policy.backoff, |backoff| backoff.wire().into()),
            backoff_base: self.backoff_base.map(to_wire).or(policy.backoff_base),
            backoff_base_throttled: self
                .backoff_base_throttled
                .map(to_wire)
                .or(policy.backoff_base_throttled),
            backoff_cap: self.backoff_cap.map(to_wire).or(policy.backoff_cap),
            deposit_on: self.deposit_on.map_or(policy.deposit_on, |when| when.wire().into()),
            fail_mode: self.fail_mode.map_or(policy.fail_mode, |mode| mode.wire().into()),
            reserve_per_mille: self.reserve_per_mille.unwrap_or(policy.reserve_per_mille),
            enforcement: self
                .enforcement
                .map_or(policy.enforcement, |whether| whether.wire().into()),
            lease: self.lease.map(to_wire).or(policy.lease),
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
        flags: RetryPolicyFlags,
    }

    fn set(words: &str, policy: RetryPolicy) -> RetryPolicy {
        let words = words.split_whitespace();
        Line::try_parse_from(["line"].into_iter().chain(words)).unwrap().flags.onto(policy)
    }

    #[test]
    fn every_field_can_be_set() {
        let policy = set(
            "--ratio-per-mille 0 --floor-per-second 0 --window 20s --carry-over 5s \
             --cost throttled=2000 --cost not-sent=10 --attempts-max 4 --retries-per-root 0 \
             --retry-layer gateway --backoff equal-jitter --backoff-base 1ms \
             --backoff-base-throttled 2s --backoff-cap 1m --deposit-on success --fail-mode deny \
             --reserve-per-mille 50 --enforcement observe --lease 500ms",
            RetryPolicy::default(),
        );
        let cost = |kind: FailureKind, cost_milli| FailureCost { kind: kind.into(), cost_milli };
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let millis = |ms: i32| Some(prost_types::Duration { seconds: 0, nanos: ms * 1_000_000 });
        let expected = RetryPolicy {
            ratio_per_mille: Some(0),
            floor_per_second: Some(0),
            window: seconds(20),
            carry_over: seconds(5),
            costs: vec![cost(FailureKind::Throttled, 2_000), cost(FailureKind::NotSent, 10)],
            attempts_max: 4,
            retries_per_root: Some(0),
            retry_layer: "gateway".into(),
            backoff: BackoffStrategy::EqualJitter.into(),
            backoff_base: millis(1),
            backoff_base_throttled: seconds(2),
            backoff_cap: seconds(60),
            deposit_on: DepositOn::Success.into(),
            fail_mode: FailMode::Deny.into(),
            reserve_per_mille: 50,
            enforcement: Enforcement::Observe.into(),
            lease: millis(500),
        };
        assert_eq!(policy, expected);
        assert_eq!(set("", expected.clone()), expected, "what is not named stays");
        let cheaper = set("--cost throttled=1 --retry-layer=", expected);
        assert_eq!(
            cheaper.costs,
            [cost(FailureKind::NotSent, 10), cost(FailureKind::Throttled, 1)]
        );
        assert_eq!(cheaper.retry_layer, "");
    }

    #[test]
    fn a_cost_that_makes_no_sense_is_refused_with_the_names_of_the_kinds() {
        let problem = parse_cost("slow=1").unwrap_err();
        assert!(problem.contains("unknown-outcome"), "{problem}");
        assert!(parse_cost("throttled=much").is_err());
        assert!(parse_cost("throttled").is_err());
    }
}
