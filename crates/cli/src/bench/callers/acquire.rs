//! Retry tokens, each asked for with first attempts that pay for half of it.

use std::time::Duration;

use semel_proto::v1::{
    AcquireRetryTokenRequest, AcquireRetryTokenResponse, Failure, FailureKind, RetryVerdict,
    RootRequest,
};
use serde::Serialize;

use super::spread::Spread;
use super::{ACQUIRE_RETRY_TOKEN, TENANT};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;
use crate::values::to_wire;

/// First attempts that come along with each call: under the default ratio of 10 % they pay for half a
/// token, so that about half of the calls are granted, as in a bad hour.
const REQUESTS_PER_CALL: u64 = 5;
/// What the default policy grants beside: per second and budget, and how much at once.
const FLOOR_PER_SECOND: u64 = 10;
const FLOOR_SECONDS_AT_ONCE: u64 = 12;

const REMAINING: Duration = Duration::from_secs(60);

/// Asks for a retry token each time.
pub(crate) struct Acquire {
    spread: Spread,
    sum: GrantSum,
}

impl Acquire {
    /// A caller that was granted nothing yet.
    pub(crate) fn new(spread: Spread) -> Self {
        Self { spread, sum: GrantSum::default() }
    }

    fn request(&mut self) -> AcquireRetryTokenRequest {
        let root = self.spread.root.then(|| RootRequest {
            id: self.spread.dice.owner_id(),
            attempt: 1,
            retries: Some(4),
        });
        AcquireRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: self.spread.dependency(),
            request_id: self.spread.dice.owner_id(),
            failure: Some(Failure { kind: FailureKind::UnknownOutcome.into(), server_delay: None }),
            repeatable: true,
            attempt: 1,
            root,
            remaining: Some(to_wire(REMAINING)),
            deposits: Some(self.spread.deposits(REQUESTS_PER_CALL)),
            ..AcquireRetryTokenRequest::default()
        }
    }
}

impl Caller for Acquire {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        let reply = stub.unary(ACQUIRE_RETRY_TOKEN, self.request()).await?;
        self.sum.judge(&reply)
    }
}

/// What the calls were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct GrantSum {
    /// Calls that got a token.
    pub(crate) granted: u64,
    /// Calls that were told that the budget is spent.
    pub(crate) exhausted: u64,
    /// First attempts that the node counted.
    pub(crate) first_attempts: u64,
}

impl GrantSum {
    /// Over all callers, the warm-up included.
    pub(crate) fn of<'a>(callers: impl Iterator<Item = &'a Acquire>) -> Self {
        callers.fold(Self::default(), |sum, caller| Self {
            granted: sum.granted + caller.sum.granted,
            exhausted: sum.exhausted + caller.sum.exhausted,
            first_attempts: sum.first_attempts + caller.sum.first_attempts,
        })
    }

    /// Whether no more was granted than the default policy allows to so many budgets in this time.
    pub(crate) fn is_within_bound(self, budgets: u32, seconds: u64) -> bool {
        let floor = FLOOR_PER_SECOND * seconds.saturating_add(FLOOR_SECONDS_AT_ONCE);
        self.granted <= self.first_attempts / 10 + floor.saturating_mul(budgets.into())
    }

    fn judge(&mut self, reply: &AcquireRetryTokenResponse) -> Result<(), String> {
        if reply.deposits_counted {
            self.first_attempts += REQUESTS_PER_CALL;
        }
        match reply.verdict() {
            RetryVerdict::Granted if reply.token.len() == 16 => self.granted += 1,
            RetryVerdict::BudgetExhausted => self.exhausted += 1,
            other => return Err(format!("a token was answered {}", other.as_str_name())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_and_a_spent_budget_are_answers() {
        let mut sum = GrantSum::default();
        let mut judge = |verdict: RetryVerdict, token: &'static [u8]| {
            sum.judge(&AcquireRetryTokenResponse {
                verdict: verdict.into(),
                token: token.into(),
                deposits_counted: true,
                ..AcquireRetryTokenResponse::default()
            })
        };
        assert!(judge(RetryVerdict::Granted, &[1; 16]).is_ok());
        assert!(judge(RetryVerdict::BudgetExhausted, &[]).is_ok());
        assert!(judge(RetryVerdict::Granted, &[]).is_err());
        assert!(judge(RetryVerdict::Unsafe, &[]).is_err());
        assert_eq!(sum, GrantSum { granted: 1, exhausted: 1, first_attempts: 20 });
    }

    #[test]
    fn more_than_the_bound_is_seen() {
        let sum = GrantSum { granted: 321, exhausted: 0, first_attempts: 1_000 };
        assert!(!sum.is_within_bound(1, 10), "100 for the attempts and 220 of the floor");
        assert!(GrantSum { granted: 320, ..sum }.is_within_bound(1, 10));
    }
}
