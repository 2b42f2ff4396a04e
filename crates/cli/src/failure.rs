//! Why a command could not do what was asked, as a person and as a script can use it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;

use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::advice::advice;
use crate::config::Problem;
use crate::exit::Exit;
use crate::invocation::Invocation;

/// A command's error: what was wrong, and what to do about it. Boxed, so that results stay small.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Failure(Box<Details>);

/// What a [`Failure`] holds.
#[derive(Debug, Serialize)]
pub(crate) struct Details {
    /// How the command ends.
    #[serde(skip)]
    pub(crate) exit: Exit,
    /// The gRPC code by its name, or `UNREACHABLE`, `USAGE`, `STORE_REFUSED`, `BROKEN`.
    pub(crate) code: String,
    /// The stable reason that the node gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What was wrong.
    pub(crate) message: String,
    /// Which fields of the request were wrong, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<FieldProblem>,
    /// What is wrong with a file of settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<Problem>,
    /// More about the reason, as the node gave it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    /// When to try again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
    /// The command that asks the same again, where that is safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repeat: Option<String>,
}

/// What was wrong with one field.
#[derive(Debug, Serialize)]
pub(crate) struct FieldProblem {
    /// The field's name in the contract.
    pub(crate) field: String,
    /// What was wrong with it.
    pub(crate) description: String,
}

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl Failure {
    fn new(exit: Exit, code: &str, message: String) -> Self {
        Self(Box::new(Details {
            exit,
            code: code.to_owned(),
            reason: None,
            message,
            fields: Vec::new(),
            problems: Vec::new(),
            metadata: BTreeMap::new(),
            retry_after_ms: None,
            advice: None,
            repeat: None,
        }))
    }

    /// The request makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message.into())
    }

    /// Nobody answers at `target`.
    pub(crate) fn unreachable(target: &str, cause: &str) -> Self {
        let message = format!("no node answers at {target} ({cause})");
        let start = Invocation::new(["serve"]);
        Self::new(Exit::NoAnswer, "UNREACHABLE", message).advise(format!(
            "start one with `{start}`, or name another with --target or SEMEL_TARGET"
        ))
    }

    /// The store at `path` would not open.
    pub(crate) fn store_refused(path: &str, cause: &dyn std::error::Error) -> Self {
        let message = format!("the store in {path} would not open: {}", whole(cause));
        Self::new(Exit::StoreRefused, "STORE_REFUSED", message)
    }

    /// A file, a terminal or a process failed.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(Exit::Broken, "BROKEN", message.into())
    }

    /// Adds what to do next.
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds what is wrong with a file of settings.
    pub(crate) fn with_problems(mut self, problems: Vec<Problem>) -> Self {
        self.0.problems = problems;
        self
    }

    /// Adds the command that asks the same again, if there was no answer.
    pub(crate) fn repeat_with(mut self, command: &Invocation) -> Self {
        if self.exit == Exit::NoAnswer {
            self.0.repeat = Some(command.to_string());
        }
        self
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let Self(mut failure) =
            Self::new(exit_of(status.code()), &name_of(status.code()), status.message().to_owned());
        if let Some(info) = details.error_info() {
            failure.reason = Some(info.reason.clone());
            failure.metadata = info.metadata.clone().into_iter().collect();
        }
        failure.fields = details.bad_request().map_or_else(Vec::new, |bad| {
            bad.field_violations
                .iter()
                .map(|violation| FieldProblem {
                    field: violation.field.clone(),
                    description: violation.description.clone(),
                })
                .collect()
        });
        failure.retry_after_ms = details
            .retry_info()
            .and_then(|info| info.retry_delay)
            .map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        failure.advice = advice(failure.reason.as_deref(), status.code()).map(str::to_owned);
        Self(failure)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // Whoever read the output has seen enough, as in `semel keys list | head`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "CLOSED", String::new());
        }
        Self::broken(format!("writing the output failed: {error}"))
    }
}

const fn exit_of(code: Code) -> Exit {
    match code {
        Code::Ok => Exit::Done,
        Code::InvalidArgument | Code::OutOfRange => Exit::Usage,
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Cancelled
        | Code::Aborted => Exit::NoAnswer,
        Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated => Exit::No,
        Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => Exit::Broken,
    }
}

/// `FailedPrecondition` as the protocol writes it: `FAILED_PRECONDITION`.
fn name_of(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// An error with all of its causes.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// What lies at the bottom of an error.
pub(crate) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut bottom = error;
    while let Some(cause) = bottom.source() {
        bottom = cause;
    }
    bottom.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_keeps_its_reason_fields_and_delay() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("KEY_INVALID", "semel.v1", HashMap::from([("a".into(), "b".into())]))
            .add_bad_request_violation("key", "is blank")
            .set_retry_info(Some(Duration::from_millis(250)));
        let status = Status::with_error_details(Code::InvalidArgument, "the key is blank", details);

        let failure = Failure::from(status);

        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.code, "INVALID_ARGUMENT");
        assert_eq!(failure.reason.as_deref(), Some("KEY_INVALID"));
        assert_eq!(failure.retry_after_ms, Some(250));
        let json = serde_json::to_value(&failure).unwrap();
        assert_eq!(json["fields"][0]["field"], "key");
        assert_eq!(json["metadata"]["a"], "b");
    }

    #[test]
    fn only_a_missing_answer_offers_to_ask_again() {
        let again = Invocation::new(["keys", "claim"]);
        let lost = Failure::from(Status::unavailable("gone")).repeat_with(&again);
        assert_eq!(lost.exit, Exit::NoAnswer);
        assert!(lost.repeat.as_ref().is_some_and(|repeat| repeat.ends_with("keys claim")));

        let refused = Failure::from(Status::failed_precondition("no")).repeat_with(&again);
        assert_eq!(refused.exit, Exit::No);
        assert_eq!(refused.repeat, None);
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit, Exit::Done);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).exit, Exit::Broken);
    }

    #[test]
    fn codes_are_named_as_the_protocol_names_them() {
        assert_eq!(name_of(Code::DeadlineExceeded), "DEADLINE_EXCEEDED");
        assert_eq!(name_of(Code::Internal), "INTERNAL");
    }
}
