//! The stored answer of a piece of work.

use bytes::Bytes;

/// A response, as it is kept with a completed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The caller's own status code.
    pub status: i32,
    /// The content type; may be empty.
    pub content_type: Box<str>,
    /// Headers, in order.
    pub metadata: Vec<(Box<str>, Box<str>)>,
    /// The body.
    pub body: Body,
}

impl Response {
    /// Whether both say the same to a caller. How a body is stored does not matter, only what it is:
    /// a repeated completion may find it compressed, or left out.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.status == other.status
            && self.content_type == other.content_type
            && self.metadata == other.metadata
            && self.body.length == other.body.length
            && self.body.sha256 == other.body.sha256
    }
}

/// A body, or the proof of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Its length in bytes, before compression.
    pub length: u64,
    /// SHA-256 of its bytes, before compression.
    pub sha256: [u8; 32],
    /// What is stored of it.
    pub content: Content,
}

/// What is stored of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// All of it, as it came.
    Plain(Bytes),
    /// All of it, as one zstd frame.
    Zstd(Bytes),
    /// Nothing: the caller kept it.
    OmittedByCaller,
    /// Nothing: it was over the node's limit.
    OmittedTooLarge,
}
