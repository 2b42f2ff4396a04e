//! States of breakers.

use semel_proto::v1::{BreakerCondition, BreakerStateRequest, BreakerStateResponse};

use super::spread::Spread;
use super::{BREAKER_STATE, TENANT};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;

/// Asks where a breaker stands.
pub(crate) struct BreakerState(pub(crate) Spread);

impl Caller for BreakerState {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        let request = BreakerStateRequest {
            tenant: TENANT.to_owned(),
            dependency: self.0.dependency(),
            reporter: self.0.reporter.clone(),
            ..BreakerStateRequest::default()
        };
        judge(&stub.unary(BREAKER_STATE, request).await?)
    }
}

/// Nobody reported a failure: all breakers are closed.
fn judge(reply: &BreakerStateResponse) -> Result<(), String> {
    let breaker = reply.breaker.as_ref().ok_or("a state came without its breaker")?;
    match breaker.condition() {
        BreakerCondition::Closed => Ok(()),
        other => Err(format!("a breaker without failures is {}", other.as_str_name())),
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::BreakerSnapshot;

    use super::*;

    #[test]
    fn an_open_breaker_or_none_is_an_error() {
        let reply = |condition: BreakerCondition| BreakerStateResponse {
            breaker: Some(BreakerSnapshot { condition: condition.into(), ..Default::default() }),
            ..Default::default()
        };
        assert!(judge(&reply(BreakerCondition::Closed)).is_ok());
        assert!(judge(&reply(BreakerCondition::Open)).is_err());
        assert!(judge(&BreakerStateResponse::default()).is_err());
    }
}
