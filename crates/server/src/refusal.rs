//! Every error that a node answers: its reason, its gRPC code and its details, in one place.
//!
//! Expected answers are dispositions in OK replies and never come here. Reasons are stable: programs
//! branch on them. Messages are for people and safe to show: they repeat the caller's own words at
//! the most.

use std::collections::HashMap;
use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of every `google.rpc.ErrorInfo` of Semel.
pub(crate) const ERROR_DOMAIN: &str = "semel.v1";

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal => $code:ident;)*) => {
        /// Why a call was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            pub(crate) const fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }
        }
    };
}

reasons! {
    TenantInvalid = "TENANT_INVALID" => InvalidArgument;
    OperationInvalid = "OPERATION_INVALID" => InvalidArgument;
    KeyInvalid = "KEY_INVALID" => InvalidArgument;
    FingerprintInvalid = "FINGERPRINT_INVALID" => InvalidArgument;
    OwnerIdInvalid = "OWNER_ID_INVALID" => InvalidArgument;
    FenceInvalid = "FENCE_INVALID" => InvalidArgument;
    DurationInvalid = "DURATION_INVALID" => InvalidArgument;
    FirstSentInvalid = "FIRST_SENT_INVALID" => InvalidArgument;
    LabelInvalid = "LABEL_INVALID" => InvalidArgument;
    OutcomeInvalid = "OUTCOME_INVALID" => InvalidArgument;
    ResponseInvalid = "RESPONSE_INVALID" => InvalidArgument;
    CheckpointInvalid = "CHECKPOINT_INVALID" => InvalidArgument;
    RenewalInvalid = "RENEWAL_INVALID" => InvalidArgument;
    BatchInvalid = "BATCH_INVALID" => InvalidArgument;
    PageInvalid = "PAGE_INVALID" => InvalidArgument;
    AuditInvalid = "AUDIT_INVALID" => InvalidArgument;
    EnumInvalid = "ENUM_INVALID" => InvalidArgument;
    DependencyInvalid = "DEPENDENCY_INVALID" => InvalidArgument;
    RequestIdInvalid = "REQUEST_ID_INVALID" => InvalidArgument;
    FailureInvalid = "FAILURE_INVALID" => InvalidArgument;
    AttemptInvalid = "ATTEMPT_INVALID" => InvalidArgument;
    RootInvalid = "ROOT_INVALID" => InvalidArgument;
    LayerInvalid = "LAYER_INVALID" => InvalidArgument;
    ReporterInvalid = "REPORTER_INVALID" => InvalidArgument;
    NodeInvalid = "NODE_INVALID" => InvalidArgument;
    CountInvalid = "COUNT_INVALID" => InvalidArgument;
    PolicyInvalid = "POLICY_INVALID" => InvalidArgument;
    TokenInvalid = "TOKEN_INVALID" => InvalidArgument;
    PermitInvalid = "PERMIT_INVALID" => InvalidArgument;
    OverrideInvalid = "OVERRIDE_INVALID" => InvalidArgument;
    KeyPayloadMismatch = "KEY_PAYLOAD_MISMATCH" => FailedPrecondition;
    FingerprintIncomparable = "FINGERPRINT_INCOMPARABLE" => FailedPrecondition;
    KeyExpired = "KEY_EXPIRED" => FailedPrecondition;
    CompletionConflict = "COMPLETION_CONFLICT" => FailedPrecondition;
    Fenced = "FENCED" => FailedPrecondition;
    KeyNotCompleted = "KEY_NOT_COMPLETED" => FailedPrecondition;
    ClaimLive = "CLAIM_LIVE" => FailedPrecondition;
    PolicyConflict = "POLICY_CONFLICT" => FailedPrecondition;
    KeyUnknown = "KEY_UNKNOWN" => NotFound;
    BodyDenied = "BODY_DENIED" => PermissionDenied;
    WaitersFull = "WAITERS_FULL" => ResourceExhausted;
    WatchersFull = "WATCHERS_FULL" => ResourceExhausted;
    Overloaded = "OVERLOADED" => ResourceExhausted;
    StoreUnavailable = "STORE_UNAVAILABLE" => Unavailable;
    ShuttingDown = "SHUTTING_DOWN" => Unavailable;
    DeadlineTooShort = "DEADLINE_TOO_SHORT" => DeadlineExceeded;
    RecordUnreadable = "RECORD_UNREADABLE" => Internal;
}

/// A refusal, before it becomes a gRPC status.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    message: String,
    field: Option<String>,
    retry_after: Option<Duration>,
    metadata: HashMap<String, String>,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            field: None,
            retry_after: None,
            metadata: HashMap::new(),
        }
    }

    /// A field that is malformed: what is wrong with it reads on from its name.
    pub(crate) fn field(reason: Reason, field: &str, problem: impl std::fmt::Display) -> Self {
        let mut refusal = Self::new(reason, format!("{field}: {problem}"));
        refusal.field = Some(field.to_owned());
        refusal
    }

    /// Gives its field another name, if this is about a field.
    pub(crate) fn renamed(mut self, name: &str) -> Self {
        if let Some(field) = self.field.replace(name.to_owned()) {
            let problem = self.message.strip_prefix(&field).unwrap_or(&self.message);
            self.message = format!("{name}{problem}");
        }
        self
    }

    /// Names the item of a batch that a field belongs to, if this is about a field.
    pub(crate) fn in_item(mut self, list: &str, position: usize) -> Self {
        if let Some(field) = self.field {
            self.field = Some(format!("{list}[{position}].{field}"));
            self.message = format!("{list}[{position}]: {}", self.message);
        }
        self
    }

    pub(crate) fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn store_unavailable(why: &str) -> Self {
        let message = format!(
            "the store gave no answer ({why}): repeat the request with the same ids, and it is \
             recognised if it was carried out"
        );
        Self::new(Reason::StoreUnavailable, message).retry_after(Duration::from_millis(500))
    }

    pub(crate) fn clock_off() -> Self {
        let message = "this node's clock is off from the store's by more than is allowed, and it \
                       decides nothing that depends on it: ask another node, or this one again once \
                       its clock is right";
        Self::new(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(Reason::ShuttingDown, "this node is shutting down: ask another, or again shortly")
            .retry_after(Duration::from_secs(1))
    }

    pub(crate) fn overloaded() -> Self {
        Self::new(Reason::Overloaded, "this node has more calls than it can queue: slow down")
            .retry_after(Duration::from_millis(250))
    }

    /// The status as a message, for results inside a batch.
    pub(crate) fn into_message(self) -> tonic_types::Status {
        let status = Status::from(self);
        tonic_types::Status::decode(status.details()).unwrap_or_else(|_| tonic_types::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: Vec::new(),
        })
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details =
            ErrorDetails::with_error_info(refusal.reason.as_str(), ERROR_DOMAIN, refusal.metadata);
        if refusal.retry_after.is_some() {
            details.set_retry_info(refusal.retry_after);
        }
        if let Some(field) = refusal.field {
            details.add_bad_request_violation(field, refusal.message.clone());
        }
        Self::with_error_details(refusal.reason.code(), refusal.message, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_carries_its_reason_its_field_and_when_to_come_back() {
        let refusal = Refusal::field(Reason::KeyInvalid, "key", "must not be empty")
            .in_item("claims", 3)
            .retry_after(Duration::from_millis(20))
            .with("fence", "7");
        let message = refusal.clone().into_message();
        assert_eq!(message.code, i32::from(Code::InvalidArgument));
        assert_eq!(message.details.len(), 3);
        let details = Status::from(refusal).get_error_details();
        let info = details.error_info().expect("error info");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("KEY_INVALID", ERROR_DOMAIN));
        assert_eq!(info.metadata.get("fence").map(String::as_str), Some("7"));
        let violation = &details.bad_request().expect("bad request").field_violations[0];
        assert_eq!(violation.field, "claims[3].key");
        let retry = details.retry_info().expect("retry info").retry_delay;
        assert_eq!(retry, Some(Duration::from_millis(20)));
    }
}
