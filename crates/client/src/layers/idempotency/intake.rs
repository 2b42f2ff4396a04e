//! From a request to the write that is to happen once.

use std::time::Duration;

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
use crate::deadline::{Deadline, wire};
use crate::once::Once;

/// What a request with a key asks for.
pub(super) struct Asked {
    operation: String,
    key: String,
    pub(super) time: Time,
}

/// The time of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// By the layer's limit.
    limit: Deadline,
    /// The request's own deadline, if it is earlier.
    pub(super) own: Option<Deadline>,
}

impl Time {
    fn of(request: &Parts, limit: Duration) -> Self {
        let limit = Deadline::within(limit);
        let own = [Deadline::current(), wire::read(&request.headers)].into_iter().flatten().min();
        Self { limit, own: own.filter(|own| *own < limit) }
    }

    /// When whoever asks has to have an answer.
    pub(super) fn answer(self) -> Deadline {
        self.own.unwrap_or(self.limit)
    }
}

impl<D: Dialect> IdempotencyLayer<D> {
    /// The operation of a request; nothing, if it is none of the layer's business.
    pub(super) fn operation(&self, request: &Parts) -> Option<String> {
        self.dialect.has_keys(request).then(|| (self.operation)(request)).flatten()
    }

    /// What a request of this operation asks for; nothing, if it has no key and needs none.
    pub(super) fn asked(
        &self,
        operation: String,
        request: &Parts,
    ) -> Result<Option<Asked>, Problem> {
        let Some(key) = self.dialect.key(&request.headers)? else {
            return if self.key_optional { Ok(None) } else { Err(Problem::KeyMissing) };
        };
        let key = match &self.caller {
            Some(caller) => key::of_caller(&caller(request), &key),
            None => key,
        };
        Ok(Some(Asked { operation, key, time: Time::of(request, self.time_limit) }))
    }

    /// By when the handler has to be over: in tasks, whoever asks does not stop it.
    pub(super) fn over(&self, time: Time) -> Deadline {
        if self.tasks.is_some() { time.limit } else { time.answer() }
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
        if asked.time.answer().is_past() {
            return Err(Problem::DeadlinePast);
        }
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
        let read = timeout(asked.time.answer().left(), Limited::new(body, most).collect()).await;
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
        let once = client
            .once(&asked.operation, &asked.key)
            .fingerprint(fingerprint)
            .claiming(self.claiming.clone())
            .deadline(self.over(asked.time))
            .claim_by(asked.time.answer())
            .claim_within(self.claim_time)
            .measured(&self.metrics);
        Ok(match self.first_sent.as_ref().and_then(|of| of(request)) {
            Some(first_sent) => once.first_sent(first_sent),
            None => once,
        })
    }
}
