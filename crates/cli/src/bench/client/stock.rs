//! Calls as tonic's generator writes them.

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// One call of the method at `path`.
pub(super) async fn unary<Q, A>(
    grpc: &mut Grpc<Channel>,
    path: &'static str,
    request: Q,
) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    grpc.ready().await.map_err(|error| Status::unknown(format!("not ready: {error}")))?;
    let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::default());
    Ok(grpc.unary(Request::new(request), path, codec).await?.into_inner())
}
