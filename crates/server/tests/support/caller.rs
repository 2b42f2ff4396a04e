//! A client of a node, whose calls give the reply or the refusal.

use std::net::SocketAddr;

use semel_proto::v1;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::retries_client::RetriesClient;
use tonic::IntoRequest;
use tonic::transport::Channel;

use super::Refused;

/// A client. Clones share its connection.
#[derive(Clone)]
pub(crate) struct Caller(KeysClient<Channel>);

impl Caller {
    /// A client with a connection of its own, which reads whatever a node may send.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::on(super::channel(address).await)
    }

    /// A client on a connection.
    pub(crate) fn on(channel: Channel) -> Self {
        Self(KeysClient::new(channel).max_decoding_message_size(64 << 20))
    }

    /// The client as it is generated.
    pub(crate) fn raw(&self) -> KeysClient<Channel> {
        self.0.clone()
    }
}

/// A client of retry budgets. Clones share its connection.
#[derive(Clone)]
pub(crate) struct RetriesCaller(RetriesClient<Channel>);

impl RetriesCaller {
    /// A client on a connection.
    pub(crate) fn on(channel: Channel) -> Self {
        Self(RetriesClient::new(channel))
    }

    /// The client as it is generated.
    pub(crate) fn raw(&self) -> RetriesClient<Channel> {
        self.0.clone()
    }
}

macro_rules! calls {
    ($caller:ident: $($name:ident: $call:ident($request:ident) -> $reply:ident;)*) => {
        impl $caller {
            $(pub(crate) async fn $name(
                &self,
                request: impl IntoRequest<v1::$request>,
            ) -> Result<v1::$reply, Refused> {
                match self.raw().$call(request).await {
                    Ok(response) => Ok(response.into_inner()),
                    Err(status) => Err(Refused::of(&status)),
                }
            })*
        }
    };
}

calls! {
    Caller:
    claim: claim_key(ClaimKeyRequest) -> ClaimKeyResponse;
    complete: complete_key(CompleteKeyRequest) -> CompleteKeyResponse;
    replay: replay_key(ReplayKeyRequest) -> ReplayKeyResponse;
    renew: renew_key(RenewKeyRequest) -> RenewKeyResponse;
    release: release_key(ReleaseKeyRequest) -> ReleaseKeyResponse;
    claim_all: claim_keys(ClaimKeysRequest) -> ClaimKeysResponse;
    complete_all: complete_keys(CompleteKeysRequest) -> CompleteKeysResponse;
    get: get_key(GetKeyRequest) -> GetKeyResponse;
    list: list_keys(ListKeysRequest) -> ListKeysResponse;
    list_stuck: list_stuck_keys(ListStuckKeysRequest) -> ListStuckKeysResponse;
    reconcile: reconcile_key(ReconcileKeyRequest) -> ReconcileKeyResponse;
    forget: forget_key(ForgetKeyRequest) -> ForgetKeyResponse;
}

calls! {
    RetriesCaller:
    acquire: acquire_retry_token(AcquireRetryTokenRequest) -> AcquireRetryTokenResponse;
    acquire_all: acquire_retry_tokens(AcquireRetryTokensRequest) -> AcquireRetryTokensResponse;
    lease: lease_retry_tokens(LeaseRetryTokensRequest) -> LeaseRetryTokensResponse;
    refund: refund_retry_token(RefundRetryTokenRequest) -> RefundRetryTokenResponse;
    report: report_requests(ReportRequestsRequest) -> ReportRequestsResponse;
    get: get_budget(GetBudgetRequest) -> GetBudgetResponse;
    list: list_budgets(ListBudgetsRequest) -> ListBudgetsResponse;
    set_policy: set_retry_policy(SetRetryPolicyRequest) -> SetRetryPolicyResponse;
    policy: get_retry_policy(GetRetryPolicyRequest) -> GetRetryPolicyResponse;
}
