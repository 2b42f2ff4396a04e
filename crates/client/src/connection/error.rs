//! What a call can fail with.
//!
//! Expected answers, such as "somebody is at it" or "it is done", are no errors: they are in the replies.

use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, RpcStatusExt, StatusExt};

/// The domain of every reason of Semel.
pub(crate) const DOMAIN: &str = "semel.v1";

/// Why a call brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A node refused it, and said why.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// No node answered before the deadline. Perhaps the request was carried out: send it again with the
    /// same ids, and it is recognised.
    #[non_exhaustive]
    #[error("no node answered in time, after {attempts} attempts: {last}")]
    Unanswered {
        /// How often a node was asked.
        attempts: u32,
        /// What the last attempt met.
        last: String,
    },
    /// The client was set up with something that can't be. Nothing was sent.
    #[error("the client's settings: {0}")]
    Settings(String),
    /// A node answered what the contract does not know, as a much newer one might.
    #[error("a node's answer is not understood: {0}")]
    NotUnderstood(String),
}

/// A node's refusal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {message}", .reason.as_str())]
#[non_exhaustive]
pub struct Refusal {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people. Safe to show: it repeats the caller's own words at the most.
    pub message: String,
    /// The field at fault, by its name in the contract, if it is about one.
    pub field: Option<String>,
    /// When to come again, if coming again makes sense.
    pub retry_after: Option<Duration>,
}

macro_rules! reasons {
    ($($name:ident = $text:literal: $doc:literal;)*) => {
        /// Why a node refused. The texts are stable.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $(#[doc = $doc] $name,)*
            /// One that this version of the client does not know, by its text; or, if somebody in between
            /// refused, the name of its gRPC code.
            Unknown(String),
        }

        impl Reason {
            /// Its stable text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(Self::$name => $text,)* Self::Unknown(text) => text }
            }

            fn of(text: &str) -> Self {
                match text { $($text => Self::$name,)* other => Self::Unknown(other.to_owned()) }
            }
        }
    };
}

reasons! {
    TenantInvalid = "TENANT_INVALID": "The tenant's name is malformed.";
    OperationInvalid = "OPERATION_INVALID": "The operation's name is malformed.";
    KeyInvalid = "KEY_INVALID": "The key is malformed.";
    FingerprintInvalid = "FINGERPRINT_INVALID": "A fingerprint is missing or malformed.";
    OwnerIdInvalid = "OWNER_ID_INVALID": "An owner id is not 16 bytes.";
    FenceInvalid = "FENCE_INVALID": "A fence is missing.";
    DurationInvalid = "DURATION_INVALID": "A duration is out of its range.";
    FirstSentInvalid = "FIRST_SENT_INVALID": "The intent is said to come from the future.";
    LabelInvalid = "LABEL_INVALID": "A label is malformed.";
    OutcomeInvalid = "OUTCOME_INVALID": "The outcome is not one that may be sent.";
    ResponseInvalid = "RESPONSE_INVALID": "The response is malformed, or does not go with its outcome.";
    CheckpointInvalid = "CHECKPOINT_INVALID": "The checkpoint is too long.";
    RenewalInvalid = "RENEWAL_INVALID": "The number of the renewal is missing.";
    BatchInvalid = "BATCH_INVALID": "The batch is empty or too long.";
    PageInvalid = "PAGE_INVALID": "The page's token or size is not one that was given.";
    AuditInvalid = "AUDIT_INVALID": "The actor or the reason is missing or too long.";
    EnumInvalid = "ENUM_INVALID": "The node does not know one of the enum values.";
    KeyPayloadMismatch = "KEY_PAYLOAD_MISMATCH": "The key was used for another intent.";
    FingerprintIncomparable = "FINGERPRINT_INCOMPARABLE": "The first claim had none of these algorithms.";
    KeyExpired = "KEY_EXPIRED": "The key's answer is no longer kept, so nobody can tell whether it was done.";
    CompletionConflict = "COMPLETION_CONFLICT": "It was completed otherwise before, and that stands.";
    Fenced = "FENCED": "Another took over: this claim is void.";
    KeyNotCompleted = "KEY_NOT_COMPLETED": "The key has to be settled first.";
    ClaimLive = "CLAIM_LIVE": "Its owner is at work.";
    KeyUnknown = "KEY_UNKNOWN": "There is no such key, or it is another's.";
    BodyDenied = "BODY_DENIED": "The node shows no bodies.";
    TenantDenied = "TENANT_DENIED": "The caller may not act for this tenant.";
    TenantQuota = "TENANT_QUOTA": "The tenant has used up its share.";
    WaitersFull = "WAITERS_FULL": "As many wait as may.";
    WatchersFull = "WATCHERS_FULL": "As many watch this node as may.";
    Overloaded = "OVERLOADED": "The node has more calls than it can queue.";
    StoreUnavailable = "STORE_UNAVAILABLE": "The store gave no answer: perhaps it was carried out.";
    ShuttingDown = "SHUTTING_DOWN": "The node is shutting down.";
    DeadlineTooShort = "DEADLINE_TOO_SHORT": "The time that was left could not be enough.";
    RecordUnreadable = "RECORD_UNREADABLE": "The stored record is damaged, or of a newer version.";
}

impl Reason {
    /// Whether the same request with the same ids may be answered otherwise shortly.
    pub(crate) const fn passes(&self) -> bool {
        matches!(
            self,
            Self::StoreUnavailable
                | Self::ShuttingDown
                | Self::Overloaded
                | Self::WaitersFull
                | Self::WatchersFull
                | Self::TenantQuota
                | Self::DeadlineTooShort
        )
    }
}

impl Error {
    /// The refusal's reason, if a node refused.
    #[must_use]
    pub const fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Refused(refusal) => Some(&refusal.reason),
            _ => None,
        }
    }

    /// The field at fault, by its name in the contract.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.field.as_deref(),
            _ => None,
        }
    }

    /// When to come again, if a node said so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Whether it is right to send the same request again with the same ids, later or with more time. If
    /// not, repeating it is answered in the same way.
    #[must_use]
    pub const fn is_repeatable(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.reason.passes(),
            Self::Unanswered { .. } => true,
            Self::Settings(_) | Self::NotUnderstood(_) => false,
        }
    }

    /// Whether this means that the claim is void: another has it, or it is settled.
    pub(crate) const fn voids_claim(&self) -> bool {
        matches!(
            self.reason(),
            Some(
                Reason::Fenced
                    | Reason::CompletionConflict
                    | Reason::KeyUnknown
                    | Reason::KeyExpired
            )
        )
    }

    /// Whether a node has more to do than it can.
    pub(crate) const fn is_of_load(&self) -> bool {
        matches!(
            self.reason(),
            Some(Reason::Overloaded | Reason::TenantQuota | Reason::WaitersFull)
        )
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }

    /// The error of one item of a batch.
    pub(crate) fn of_item(status: &tonic_types::Status) -> Self {
        let details = status.get_error_details();
        Self::refused(Refusal::new(Code::from(status.code), &status.message, &details))
    }
}

impl Refusal {
    pub(crate) fn of(status: &Status) -> Self {
        Self::new(status.code(), status.message(), &status.get_error_details())
    }

    fn new(code: Code, message: &str, details: &ErrorDetails) -> Self {
        let ours = details.error_info().filter(|info| info.domain == DOMAIN);
        let field = details.bad_request().and_then(|bad| bad.field_violations.first());
        Self {
            reason: ours
                .map_or_else(|| Reason::Unknown(name(code)), |info| Reason::of(&info.reason)),
            message: message.to_owned(),
            field: field.map(|violation| violation.field.clone()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }
    }

    /// Whether a node of Semel said it, rather than something on the way.
    pub(crate) fn is_semels(status: &Status) -> bool {
        status.get_error_details().error_info().is_some_and(|info| info.domain == DOMAIN)
    }
}

/// A code as gRPC writes it: `PERMISSION_DENIED`.
fn name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_refusal_is_read_with_all_that_it_says() {
        let mut details = ErrorDetails::with_error_info("OVERLOADED", DOMAIN, HashMap::new());
        details.set_retry_info(Some(Duration::from_millis(250)));
        details.add_bad_request_violation("claims[3].key", "must not be empty");
        let status = Status::with_error_details(Code::ResourceExhausted, "slow down", details);
        let error = Error::refused(Refusal::of(&status));
        assert_eq!(error.reason(), Some(&Reason::Overloaded));
        assert_eq!(error.field(), Some("claims[3].key"));
        assert_eq!(error.retry_after(), Some(Duration::from_millis(250)));
        assert!(error.is_repeatable());
        assert_eq!(error.to_string(), "OVERLOADED: slow down");
    }

    #[test]
    fn what_others_refuse_goes_by_its_code_and_a_new_reason_by_its_text() {
        let foreign = Refusal::of(&Status::permission_denied("no"));
        assert_eq!(foreign.reason, Reason::Unknown("PERMISSION_DENIED".to_owned()));
        let details = ErrorDetails::with_error_info("A_NEW_ONE", DOMAIN, HashMap::new());
        let newer = Status::with_error_details(Code::FailedPrecondition, "no", details);
        assert_eq!(Refusal::of(&newer).reason, Reason::Unknown("A_NEW_ONE".to_owned()));
        assert!(!Error::refused(Refusal::of(&newer)).is_repeatable());
    }
}
