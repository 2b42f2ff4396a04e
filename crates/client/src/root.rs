//! The request at the top of a call tree, and how many retries the tree may still make.
//!
//! The cap is carried, not counted: whoever calls hands a part of what it has left to the callee, in a
//! header, and takes back what the reply returns. What is handed over is *moved*, so the tree as a whole
//! never makes more retries than its root was given, whatever the layers do.
//!
//! | header | in | value |
//! |---|---|---|
//! | `x-semel-root` | a request | `<id in hex>;<attempt of the root>;<retries handed over>` |
//! | `x-semel-root-left` | its reply | how many of them were not used |
//!
//! Servers read it with [`InboundLayer`](crate::layers::InboundLayer), or by hand.
//!
//! A callee gets half of what is left, rounded down, so that its caller can still retry the call itself;
//! calls in parallel each get half of the rest. What a callee does not return is lost.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use semel_proto::v1::RootRequest;
use tokio::task::futures::TaskLocalFuture;

/// The root of a request's call tree.
pub const ROOT_HEADER: HeaderName = HeaderName::from_static("x-semel-root");

/// In a reply: retries that were handed over and not used.
pub const ROOT_LEFT_HEADER: HeaderName = HeaderName::from_static("x-semel-root-left");

/// The longest id, in bytes, as in the contract.
pub const ROOT_ID_MAX: usize = 64;

/// More retries than this are never carried, as in the contract.
const RETRIES_MAX: u32 = 1_000;

tokio::task_local! {
    static CURRENT: Root;
}

/// The root request that this code works for. Cheap to clone; all clones share what is left.
#[derive(Clone, Debug)]
pub struct Root(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: Bytes,
    attempt: u32,
    left: AtomicU32,
}

impl Root {
    /// A root whose tree may make this many retries, at most 1,000. Of the id only the first 64 bytes
    /// count; it should be unique to the request.
    #[must_use]
    pub fn new(id: impl Into<Bytes>, retries: u32) -> Self {
        let mut id: Bytes = id.into();
        id.truncate(ROOT_ID_MAX);
        Self::carried(id, 1, retries)
    }

    fn carried(id: Bytes, attempt: u32, retries: u32) -> Self {
        Self(Arc::new(Inner { id, attempt, left: AtomicU32::new(retries.min(RETRIES_MAX)) }))
    }

    /// For servers: the root that a request carries. `None`: it carries none, or none that can be read.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(ROOT_HEADER)?.to_str().ok()?;
        let mut parts = text.split(';');
        let (id, attempt, retries) = (parts.next()?, parts.next()?, parts.next()?);
        let id = hex::decode(id).ok().filter(|id| (1..=ROOT_ID_MAX).contains(&id.len()))?;
        Some(Self::carried(id.into(), attempt.parse().ok()?, retries.parse().ok()?))
    }

    /// For servers: returns all that is left with the reply, and leaves nothing here.
    pub fn give_back(&self, headers: &mut HeaderMap) {
        let left = self.0.left.swap(0, Ordering::Relaxed);
        headers.insert(ROOT_LEFT_HEADER, HeaderValue::from(left));
    }

    /// The root that this code works for: that of the innermost [`scope`](Self::scope). `None` outside of
    /// any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Makes this the current root for all that `future` does itself. Tasks that it spawns are told by hand.
    pub fn scope<F: Future>(self, future: F) -> RootScoped<F> {
        CURRENT.scope(self, future)
    }

    /// The same for code that does not wait.
    pub(crate) fn sync_scope<T>(self, code: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, code)
    }

    /// The id, the same in the whole tree.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.0.id
    }

    /// Which attempt of the root this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// How many retries are left here.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Splits off a part for work in parallel, with at most this many of the retries that are left.
    #[must_use]
    pub fn split(&self, retries: u32) -> Self {
        let part = self.take(retries);
        Self::carried(self.0.id.clone(), self.0.attempt, part)
    }

    /// Takes one retry. Whether there was one.
    pub(crate) fn take_one(&self) -> bool {
        self.take(1) == 1
    }

    /// Puts retries back that were taken and not made, or that a callee returned.
    pub(crate) fn put_back(&self, retries: u32) {
        self.0.left.fetch_add(retries.min(RETRIES_MAX), Ordering::Relaxed);
    }

    /// No more than this is left: a node knows of retries that others made.
    pub(crate) fn cap(&self, most: u32) {
        self.0.left.fetch_min(most, Ordering::Relaxed);
    }

    fn take(&self, most: u32) -> u32 {
        self.take_by(|left| left.min(most))
    }

    fn take_by(&self, part: impl Fn(u32) -> u32) -> u32 {
        let mut left = self.0.left.load(Ordering::Relaxed);
        loop {
            let taken = part(left);
            let after = left.saturating_sub(taken);
            match self.0.left.compare_exchange_weak(
                left,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken,
                Err(newer) => left = newer,
            }
        }
    }

    /// As a question to a node carries it, with so many retries left.
    pub(crate) fn to_wire(&self, left: u32) -> RootRequest {
        let (id, attempt) = (self.0.id.clone(), self.0.attempt.max(1));
        RootRequest { id, attempt, retries: Some(left) }
    }

    /// Hands half of what is left to a callee.
    pub(crate) fn hand_over(&self) -> Handed {
        Handed { root: self.clone(), retries: self.take_by(|left| left / 2) }
    }
}

/// A future with a current root.
pub type RootScoped<F> = TaskLocalFuture<Root, F>;

/// Retries that were handed to one callee.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    root: Root,
    retries: u32,
}

impl Handed {
    /// Writes them into the request.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let (id, attempt) = (hex::encode(self.root.id()), self.root.attempt());
        if let Ok(value) = HeaderValue::from_str(&format!("{id};{attempt};{}", self.retries)) {
            headers.insert(ROOT_HEADER, value);
        }
    }

    /// Takes back what the reply returns.
    pub(crate) fn take_back(self, headers: &HeaderMap) {
        let text = headers.get(ROOT_LEFT_HEADER).and_then(|value| value.to_str().ok());
        let returned: u32 = text.and_then(|text| text.parse().ok()).unwrap_or_default();
        self.root.put_back(returned.min(self.retries));
    }

    /// The request was never sent, or can't carry a root: nothing was handed over.
    pub(crate) fn keep(self) {
        self.root.put_back(self.retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callee_gets_half_and_returns_what_it_did_not_use() {
        let root = Root::new("root", 4);
        let (mut request, mut reply) = (HeaderMap::new(), HeaderMap::new());
        let handed = root.hand_over();
        handed.write(&mut request);
        assert_eq!(root.left(), 2);
        let callee = Root::read(&request).unwrap();
        assert_eq!((callee.id(), callee.attempt(), callee.left()), (root.id(), 1, 2));
        assert!(callee.take_one());
        callee.give_back(&mut reply);
        assert!(!callee.take_one(), "what goes back can't be spent");
        handed.take_back(&reply);
        assert_eq!(root.left(), 3);
    }

    #[test]
    fn a_callee_can_return_no_more_than_it_was_handed() {
        let root = Root::new("root", 5);
        let handed = root.hand_over();
        let reply = HeaderMap::from_iter([(ROOT_LEFT_HEADER, HeaderValue::from(900))]);
        handed.take_back(&reply);
        assert_eq!(root.left(), 5);
        root.hand_over().take_back(&HeaderMap::new());
        assert_eq!(root.left(), 3, "what is not returned is lost");
    }

    #[test]
    fn parts_never_add_up_to_more_than_there_was() {
        let root = Root::new("root", 7);
        let parts = [root.split(3), root.split(3), root.split(3)].map(|part| part.left());
        assert_eq!((parts, root.left()), ([3, 3, 1], 0));
    }

    #[test]
    fn nonsense_is_no_root() {
        for text in ["", "6162", "6162;1", "xyz;1;2", ";1;2", "6162;1;-2"] {
            let headers = HeaderMap::from_iter([(ROOT_HEADER, text.parse().unwrap())]);
            assert!(Root::read(&headers).is_none(), "{text}");
        }
    }
}
