//! States of breakers.

use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::{BreakerCondition, BreakerStateRequest, BreakerStateResponse};
use tonic::transport::Channel;

use super::spread::Spread;
use super::{TENANT, refused};
use crate::bench::crew::Caller;

/// Asks where a breaker stands.
pub(crate) struct BreakerState {
    breakers: BreakersClient<Channel>,
    spread: Spread,
}

impl BreakerState {
    /// A caller over this connection.
    pub(crate) fn new(channel: Channel, spread: Spread) -> Self {
        Self { breakers: BreakersClient::new(channel), spread }
    }
}

impl Caller for BreakerState {
    async fn call(&mut self) -> Result<(), String> {
        let request = BreakerStateRequest {
            tenant: TENANT.to_owned(),
            dependency: self.spread.dependency(),
            reporter: self.spread.reporter.clone(),
            ..BreakerStateRequest::default()
        };
        let reply = self.breakers.breaker_state(request).await;
        judge(reply.map_err(|status| refused(&status))?.get_ref())
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
