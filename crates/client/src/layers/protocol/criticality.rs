//! How much a request matters, and how that travels: with all that the request causes.
//!
//! | header | in | value |
//! |---|---|---|
//! | `x-semel-criticality` | a request of HTTP or gRPC | `sheddable`, `default` or `high` |
//!
//! Where a request says nothing of itself, it matters as much as what it is made for: the [current
//! one](Criticality::current), which servers take up with [`InboundLayer`](crate::layers::InboundLayer).

use std::future::Future;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use semel_proto::v1;
use tokio::task::futures::TaskLocalFuture;

use super::RequestPolicy;

/// How much a request matters.
pub const CRITICALITY_HEADER: HeaderName = HeaderName::from_static("x-semel-criticality");

tokio::task_local! {
    static CURRENT: Criticality;
}

/// How much a request matters, when a node is asked for a retry token. Put it into the extensions of a request,
/// or make it the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Criticality {
    /// May be dropped first.
    Sheddable,
    /// Ordinary work.
    #[default]
    Default,
    /// May draw on the part of the budget that the policy keeps in reserve.
    High,
}

impl Criticality {
    /// How much the request matters that this code works for: that of the innermost [`scope`](Self::scope). `None`
    /// outside of any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Makes this the current one for all that `future` does itself. Tasks that it spawns are told by hand.
    pub fn scope<F: Future>(self, future: F) -> CriticalityScoped<F> {
        CURRENT.scope(self, future)
    }

    /// For servers: what a request carries. `None`: nothing, or nothing that can be read.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(CRITICALITY_HEADER)?.to_str().ok()?;
        [Self::Sheddable, Self::Default, Self::High].into_iter().find(|one| one.name() == text)
    }

    /// Writes it into a request.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        headers.insert(CRITICALITY_HEADER, HeaderValue::from_static(self.name()));
    }

    /// What a request says of itself.
    pub(super) fn said<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().copied().or_else(|| Self::read(request.headers()))
    }

    /// What a request says of itself, or else of what it is made for.
    pub(crate) fn known<R, P: RequestPolicy<R>>(protocol: &P, request: &R) -> Option<Self> {
        protocol.criticality(request).or_else(Self::current)
    }

    /// How much a request matters to whoever pays for its retries.
    pub(crate) fn of<R, P: RequestPolicy<R>>(protocol: &P, request: &R) -> Self {
        Self::known(protocol, request).unwrap_or_default()
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::Default => "default",
            Self::High => "high",
        }
    }

    pub(crate) const fn to_wire(self) -> v1::Criticality {
        match self {
            Self::Sheddable => v1::Criticality::Sheddable,
            Self::Default => v1::Criticality::Default,
            Self::High => v1::Criticality::High,
        }
    }
}

/// A future with a current criticality.
pub type CriticalityScoped<F> = TaskLocalFuture<Criticality, F>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nonsense_is_nothing() {
        for one in [Criticality::Sheddable, Criticality::Default, Criticality::High] {
            let mut headers = HeaderMap::new();
            one.write(&mut headers);
            assert_eq!(Criticality::read(&headers), Some(one));
        }
        let headers = HeaderMap::from_iter([(CRITICALITY_HEADER, "HIGH!".parse().unwrap())]);
        assert_eq!(Criticality::read(&headers), None);
    }
}
