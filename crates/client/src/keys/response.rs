//! The answer of the work, as it is stored and given out again.

use std::time::SystemTime;

use bytes::Bytes;
use semel_proto::v1;

use crate::connection::Error;
use crate::wire;

/// What the work answered. Semel stores it byte for byte, and hands it to whoever asks again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// Your own status, e.g. an HTTP or gRPC code.
    pub status: i32,
    /// The content type: at most 255 bytes; may be empty.
    pub content_type: String,
    /// Headers, in order: at most 64, names of 1 to 255 bytes, values of at most 8 KiB, 16 KiB in all.
    pub metadata: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

/// A response's body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// Its bytes. One over the node's limit (1 MiB by default) is kept as its digest and length only.
    Bytes(Bytes),
    /// It is not stored: what it was is known by its digest.
    Omitted {
        /// The SHA-256 of the body.
        sha256: [u8; 32],
        /// Its length in bytes.
        length: u64,
    },
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl Response {
    /// A response with this status and body, and nothing else.
    #[must_use]
    pub fn new(status: i32, body: impl Into<Bytes>) -> Self {
        Self { status, body: Body::Bytes(body.into()), ..Self::default() }
    }

    /// Says what the body is.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        content_type.clone_into(&mut self.content_type);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.metadata.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body's bytes, unless they are not stored.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Bytes(bytes) => Some(bytes),
            Body::Omitted { .. } => None,
        }
    }

    pub(crate) fn to_wire(&self) -> v1::Response {
        use v1::response::Content;
        let content = match &self.body {
            Body::Bytes(bytes) => Content::Body(bytes.clone()),
            Body::Omitted { sha256, length } => Content::Omitted(v1::OmittedBody {
                sha256: Bytes::copy_from_slice(sha256),
                length: *length,
            }),
        };
        let entry = |(name, value): &(String, String)| v1::MetadataEntry {
            name: name.clone(),
            value: value.clone(),
        };
        v1::Response {
            status: self.status,
            content_type: self.content_type.clone(),
            metadata: self.metadata.iter().map(entry).collect(),
            content: Some(content),
        }
    }

    pub(crate) fn from_wire(given: v1::Response) -> Result<Self, Error> {
        use v1::response::Content;
        let body = match given.content {
            None => Body::default(),
            Some(Content::Body(bytes)) => Body::Bytes(bytes),
            Some(Content::Omitted(omitted)) => Body::Omitted {
                sha256: wire::array(&omitted.sha256, "the digest of an omitted body")?,
                length: omitted.length,
            },
        };
        Ok(Self {
            status: given.status,
            content_type: given.content_type,
            metadata: given.metadata.into_iter().map(|entry| (entry.name, entry.value)).collect(),
            body,
        })
    }
}

/// The answer of a key that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// Whether it failed for good, rather than succeeded.
    pub failed: bool,
    /// What the work answered; `None` if it completed without a response.
    pub response: Option<Response>,
    /// When it completed, by the store's clock.
    pub completed_at: SystemTime,
    /// The fence under which it completed.
    pub fence: u64,
    /// When the answer will be removed, by the store's clock.
    pub expires_at: SystemTime,
    /// The body is not stored because it was over the node's limit.
    pub omitted_too_large: bool,
    /// The body is stored, but this batch had no room for it: ask for it with
    /// [`replay`](crate::Client::replay).
    pub body_left_out: bool,
}

impl StoredAnswer {
    pub(super) fn from_wire(given: Option<v1::Completion>) -> Result<Self, Error> {
        let given = given
            .ok_or_else(|| Error::NotUnderstood("a replay without its completion".to_owned()))?;
        let failed = match given.outcome() {
            v1::Outcome::Succeeded => false,
            v1::Outcome::FailedFinal => true,
            other => return Err(Error::NotUnderstood(format!("a replay of {other:?}"))),
        };
        Ok(Self {
            failed,
            response: given.response.map(Response::from_wire).transpose()?,
            completed_at: wire::moment(given.completed_at, "completed_at")?,
            fence: given.fence,
            expires_at: wire::moment(given.expires_at, "expires_at")?,
            omitted_too_large: given.omitted_too_large,
            body_left_out: given.body_left_out,
        })
    }
}
