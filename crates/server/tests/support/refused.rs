//! An error of a node, with its details read and held against the contract.

use std::collections::HashMap;
use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The error of a batch's item as that of a call.
pub(crate) fn status_of(error: &tonic_types::Status) -> Status {
    let code = Code::from_i32(error.code);
    Status::with_details(code, &error.message, error.encode_to_vec().into())
}

/// What a node says when it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The malformed field.
    pub(crate) field: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) metadata: HashMap<String, String>,
}

impl Refused {
    /// Reads a status. Each refusal has the domain, and with its reason the code and the details that
    /// the contract names.
    pub(crate) fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().unwrap_or_else(|| panic!("no error info: {status:?}"));
        assert_eq!(info.domain, "semel.v1");
        let violations = details.bad_request().map(|request| request.field_violations.clone());
        let field = violations.map(|violations| {
            assert_eq!(violations.len(), 1, "{status:?}");
            assert_eq!(violations[0].description, status.message());
            violations[0].field.clone()
        });
        let refused = Self {
            code: status.code(),
            reason: info.reason.clone(),
            message: status.message().to_owned(),
            field,
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
            metadata: info.metadata.clone(),
        };
        refused.check();
        refused
    }

    /// Reads the error of a batch's item.
    pub(crate) fn of_item(error: &tonic_types::Status) -> Self {
        Self::of(&status_of(error))
    }

    /// The reason and, where there is one, the field.
    pub(crate) fn named(&self) -> (&str, Option<&str>) {
        (&self.reason, self.field.as_deref())
    }

    fn check(&self) {
        assert_eq!(Some(self.code), code_of(&self.reason), "{self:?}");
        assert!(!self.message.is_empty());
        assert_eq!(self.field.is_some(), self.code == Code::InvalidArgument, "{self:?}");
        let come_back = matches!(self.code, Code::ResourceExhausted | Code::Unavailable)
            || self.reason == "CLAIM_LIVE";
        assert_eq!(self.retry_after.is_some(), come_back, "{self:?}");
        assert!(self.retry_after.is_none_or(|after| !after.is_zero()), "{self:?}");
    }
}

/// The table of reasons of the contract.
fn code_of(reason: &str) -> Option<Code> {
    Some(match reason {
        "TENANT_INVALID"
        | "OPERATION_INVALID"
        | "KEY_INVALID"
        | "FINGERPRINT_INVALID"
        | "OWNER_ID_INVALID"
        | "FENCE_INVALID"
        | "DURATION_INVALID"
        | "FIRST_SENT_INVALID"
        | "LABEL_INVALID"
        | "OUTCOME_INVALID"
        | "RESPONSE_INVALID"
        | "CHECKPOINT_INVALID"
        | "RENEWAL_INVALID"
        | "BATCH_INVALID"
        | "PAGE_INVALID"
        | "AUDIT_INVALID"
        | "ENUM_INVALID"
        | "DEPENDENCY_INVALID"
        | "REQUEST_ID_INVALID"
        | "FAILURE_INVALID"
        | "ATTEMPT_INVALID"
        | "ROOT_INVALID"
        | "LAYER_INVALID"
        | "REPORTER_INVALID"
        | "NODE_INVALID"
        | "COUNT_INVALID"
        | "POLICY_INVALID"
        | "TOKEN_INVALID"
        | "PERMIT_INVALID"
        | "OVERRIDE_INVALID" => Code::InvalidArgument,
        "KEY_PAYLOAD_MISMATCH"
        | "FINGERPRINT_INCOMPARABLE"
        | "KEY_EXPIRED"
        | "COMPLETION_CONFLICT"
        | "FENCED"
        | "KEY_NOT_COMPLETED"
        | "CLAIM_LIVE"
        | "POLICY_CONFLICT" => Code::FailedPrecondition,
        "KEY_UNKNOWN" => Code::NotFound,
        "BODY_DENIED" => Code::PermissionDenied,
        "WAITERS_FULL" | "WATCHERS_FULL" | "OVERLOADED" => Code::ResourceExhausted,
        "STORE_UNAVAILABLE" | "SHUTTING_DOWN" => Code::Unavailable,
        "DEADLINE_TOO_SHORT" => Code::DeadlineExceeded,
        "RECORD_UNREADABLE" => Code::Internal,
        _ => return None,
    })
}
