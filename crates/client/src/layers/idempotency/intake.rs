//! From a request to the write that is to happen once.

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;
use tower::BoxError;

use super::dialect::{Dialect, RequestBody};
use super::key;
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use crate::deadline::Deadline;
use crate::once::Once;

/// What a request with a key asks for.
pub(super) struct Asked {
    operation: String,
    key: String,
    deadline: Deadline,
}

impl<D: Dialect> IdempotencyLayer<D> {
    /// What a request asks for; nothing, if it is none of the layer's business.
    pub(super) fn asked(&self, request: &Parts) -> Result<Option<Asked>, Problem> {
        if !self.dialect.has_keys(request) {
            return Ok(None);
        }
        let Some(operation) = (self.operation)(request) else { return Ok(None) };
        let Some(key) = self.dialect.key(&request.headers)? else {
            return if self.key_optional { Ok(None) } else { Err(Problem::KeyMissing) };
        };
        let key = match &self.caller {
            Some(caller) => key::of_caller(&caller(request), &key),
            None => key,
        };
        Ok(Some(Asked { operation, key, deadline: Deadline::within(self.time_limit) }))
    }

    /// Reads the request to its end.
    pub(super) async fn read<B>(
        &self,
        asked: &Asked,
        request: Request<B>,
    ) -> Result<(Once, Request<B>), Problem>
    where
        B: Body<Error: Into<BoxError>>,
        D: RequestBody<B>,
    {
        let (mut parts, body) = request.into_parts();
        let body = self.read_body(asked, body).await?;
        let once = self.once(asked, &parts, &body)?;
        self.dialect.prepare(&mut parts);
        Ok((once, Request::from_parts(parts, D::body(body))))
    }

    async fn read_body<B>(&self, asked: &Asked, body: B) -> Result<Bytes, Problem>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let most = self.request_max_bytes;
        if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
            return Err(Problem::BodyTooLarge(most));
        }
        let read = timeout(asked.deadline.left(), Limited::new(body, most).collect()).await;
        match read.map_err(|_| Problem::BodyUnread)? {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Problem::BodyTooLarge(most)),
            Err(error) => {
                tracing::debug!(%error, "the body of a request broke off");
                Err(Problem::BodyUnread)
            }
        }
    }

    fn once(&self, asked: &Asked, request: &Parts, body: &Bytes) -> Result<Once, Problem> {
        let fingerprint = self.dialect.fingerprint(&asked.operation, request, body)?;
        let client = match &self.tenant {
            Some(tenant) => &self.client.for_tenant(&tenant(request)),
            None => &self.client,
        };
        let mut once = client
            .once(&asked.operation, &asked.key)
            .fingerprint(fingerprint)
            .wait(self.wait)
            .on_owner_lost(self.on_owner_lost)
            .deadline(asked.deadline)
            .claim_within(self.claim_time);
        if let Some(lease) = self.lease {
            once = once.lease(lease);
        }
        if let Some(retention) = self.retention {
            once = once.retention(retention);
        }
        if let Some(first_sent) = self.first_sent.as_ref().and_then(|of| of(request)) {
            once = once.first_sent(first_sent);
        }
        Ok(once)
    }
}
