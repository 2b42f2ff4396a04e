//! What a failed attempt looked like, and what that says about the work.

/// What a failed attempt looked like to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// It never left: name lookup, connection or TLS failed, or no connection was free in time.
    NotSent,
    /// Turned away by the service itself: 429, 503 with Retry-After, RESOURCE_EXHAUSTED.
    Throttled,
    /// No answer in time, or the connection was lost after sending; 502 or 504 of a proxy.
    UnknownOutcome,
    /// 500, INTERNAL, UNKNOWN.
    ServerError,
    /// Refused for what it is: 400, 401, 403, 404, 422.
    Rejected,
    /// Another attempt of the same key is at work: 409.
    InProgress,
    /// The caller lost interest.
    Cancelled,
}

/// Whether the work of a failed attempt may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkDone {
    /// It was not: sending it again is the first time, whatever the request is.
    No,
    /// Perhaps: only a request that may be repeated may be sent again.
    Perhaps,
    /// It does not matter: no retry mends this.
    Irrelevant,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::NotSent,
        Self::Throttled,
        Self::UnknownOutcome,
        Self::ServerError,
        Self::Rejected,
        Self::InProgress,
        Self::Cancelled,
    ];

    /// Whether the work may have been done. An attempt in progress has a key, so that asking again
    /// starts nothing.
    #[must_use]
    pub const fn work_done(self) -> WorkDone {
        match self {
            Self::NotSent | Self::Throttled | Self::InProgress => WorkDone::No,
            Self::UnknownOutcome | Self::ServerError => WorkDone::Perhaps,
            Self::Rejected | Self::Cancelled => WorkDone::Irrelevant,
        }
    }
}
