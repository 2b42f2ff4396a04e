//! How keys and answers are shown: stable objects for scripts, a few lines for people.
//!
//! Names are those of the contract; enum values lose their prefix (`SUCCEEDED`, not
//! `KEY_STATE_SUCCEEDED`); times are RFC 3339, ids and digests hexadecimal, durations milliseconds
//! under a name that ends in `_ms`. Text is given as it is, other bytes under a name that ends in
//! `_base64`. What is absent is left out.

use std::collections::BTreeMap;
use std::io;

use anstyle::Style;
use bytes::Bytes;
use semel_proto::v1::response::Content;
use semel_proto::v1::{self, KeyState, OnOwnerLost, Outcome, attempt};
use serde::Serialize;

use super::fingerprint;
use crate::output::{BAD, CAUTION, GOOD, Page};
use crate::values::{id, named, show_base64, tame, time};

/// The name of a key's state.
pub(crate) fn state_name(state: i32) -> String {
    named!(KeyState, state, "KEY_STATE_")
}

/// How a state looks at a glance.
pub(crate) fn state_style(state: i32) -> Style {
    match KeyState::try_from(state) {
        Ok(KeyState::Succeeded) => GOOD,
        Ok(KeyState::FailedFinal) => BAD,
        Ok(KeyState::Lapsed | KeyState::Indeterminate) => CAUTION,
        _ => Style::new(),
    }
}

/// Bytes as text if they are text, else in base64.
pub(crate) fn text_or_base64(bytes: &Bytes) -> (Option<String>, Option<String>) {
    std::str::from_utf8(bytes)
        .map_or_else(|_| (None, Some(show_base64(bytes))), |text| (Some(text.to_owned()), None))
}

/// A stored response.
#[derive(Debug, Serialize)]
pub(crate) struct ResponseView {
    status: i32,
    content_type: String,
    metadata: Vec<HeaderView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<OmittedView>,
}

#[derive(Debug, Serialize)]
struct HeaderView {
    name: String,
    value: String,
}

#[derive(Debug, Serialize)]
struct OmittedView {
    sha256: String,
    length: u64,
}

impl From<v1::Response> for ResponseView {
    fn from(response: v1::Response) -> Self {
        let mut view = Self {
            status: response.status,
            content_type: response.content_type,
            metadata: response
                .metadata
                .into_iter()
                .map(|entry| HeaderView { name: entry.name, value: entry.value })
                .collect(),
            body: None,
            body_base64: None,
            omitted: None,
        };
        match response.content {
            Some(Content::Body(body)) => (view.body, view.body_base64) = text_or_base64(&body),
            Some(Content::Omitted(omitted)) => {
                view.omitted = Some(OmittedView {
                    sha256: hex::encode(&omitted.sha256),
                    length: omitted.length,
                });
            }
            None => {}
        }
        view
    }
}

impl ResponseView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.field("status", self.status)?;
        if !self.content_type.is_empty() {
            page.field("content type", &self.content_type)?;
        }
        for header in &self.metadata {
            page.field("header", format!("{}: {}", header.name, header.value))?;
        }
        if let Some(omitted) = &self.omitted {
            page.field("body", format!("{} bytes, not included", omitted.length))?;
            page.field("sha256", &omitted.sha256)?;
        }
        page.field_if("body, base64", self.body_base64.as_ref())?;
        self.body.as_ref().map_or(Ok(()), |body| page.line(format!("\n{}", tame(body))))
    }
}

/// A completed key's answer.
#[derive(Debug, Serialize)]
pub(crate) struct CompletionView {
    outcome: String,
    fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    omitted_too_large: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<ResponseView>,
}

impl From<v1::Completion> for CompletionView {
    fn from(completion: v1::Completion) -> Self {
        Self {
            outcome: named!(Outcome, completion.outcome, "OUTCOME_"),
            fence: completion.fence,
            completed_at: time(completion.completed_at.as_ref()),
            expires_at: time(completion.expires_at.as_ref()),
            omitted_too_large: completion.omitted_too_large,
            response: completion.response.map(ResponseView::from),
        }
    }
}

impl CompletionView {
    /// Writes it for a person.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.field("outcome", &self.outcome)?;
        page.field_if("completed at", self.completed_at.as_ref())?;
        page.field("under fence", self.fence)?;
        page.field_if("kept until", self.expires_at.as_ref())?;
        match &self.response {
            Some(response) => response.write(page),
            None => page.field("response", "none was given"),
        }
    }
}

/// One execution that held the claim.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptView {
    fence: u64,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    end: String,
}

impl From<v1::Attempt> for AttemptView {
    fn from(attempt: v1::Attempt) -> Self {
        Self {
            fence: attempt.fence,
            owner: hex::encode(&attempt.owner_id),
            claimed_at: time(attempt.claimed_at.as_ref()),
            ended_at: time(attempt.ended_at.as_ref()),
            end: named!(attempt::End, attempt.end, "END_"),
        }
    }
}

impl AttemptView {
    /// Writes it for a person, on one line.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let (from, to) = (self.claimed_at.as_deref(), self.ended_at.as_deref());
        let span = format!("{} to {}", from.unwrap_or("?"), to.unwrap_or("now"));
        page.field("earlier", format!("{} {span}, fence {}", self.end, self.fence))
    }
}

/// What an operator did to a key.
#[derive(Debug, Serialize)]
struct AuditView {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    actor: String,
    action: String,
    reason: String,
}

/// One key as an operator sees it.
#[derive(Debug, Serialize)]
pub(crate) struct KeyView {
    #[serde(skip)]
    raw_state: i32,
    tenant: String,
    operation: String,
    key: String,
    state: String,
    fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    attempts: u32,
    on_owner_lost: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    touched_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sent: Option<String>,
    fingerprints: Vec<String>,
    labels: BTreeMap<String, String>,
    derived_key: String,
    checkpoint_bytes: u32,
    history: Vec<AttemptView>,
    audit: Vec<AuditView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<CompletionView>,
}

impl From<v1::KeyView> for KeyView {
    fn from(key: v1::KeyView) -> Self {
        Self {
            raw_state: key.state,
            state: state_name(key.state),
            tenant: key.tenant,
            operation: key.operation,
            key: key.key,
            fence: key.fence,
            owner: id(&key.owner_id),
            attempts: key.attempts,
            on_owner_lost: named!(OnOwnerLost, key.on_owner_lost, "ON_OWNER_LOST_"),
            lease_expires_at: time(key.lease_expires_at.as_ref()),
            expires_at: time(key.expires_at.as_ref()),
            created_at: time(key.created_at.as_ref()),
            touched_at: time(key.touched_at.as_ref()),
            first_sent: time(key.first_sent.as_ref()),
            fingerprints: key.fingerprints.iter().map(fingerprint::show).collect(),
            labels: key.labels.into_iter().collect(),
            derived_key: key.derived_key,
            checkpoint_bytes: key.checkpoint_bytes,
            history: key.history.into_iter().map(AttemptView::from).collect(),
            audit: key.audit.into_iter().map(AuditView::from).collect(),
            completion: key.completion.map(CompletionView::from),
        }
    }
}

impl From<v1::AuditEntry> for AuditView {
    fn from(entry: v1::AuditEntry) -> Self {
        Self {
            at: time(entry.at.as_ref()),
            actor: entry.actor,
            action: entry.action,
            reason: entry.reason,
        }
    }
}

impl KeyView {
    /// The headings of [`Self::row`].
    pub(crate) const HEADINGS: [&str; 6] =
        ["OPERATION", "KEY", "STATE", "FENCE", "ATTEMPTS", "CHANGED AT"];

    /// The key as a row of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let style = state_style(self.raw_state);
        vec![
            self.operation.clone(),
            // A key holds no control characters, but a row must not trust that.
            tame(&self.key).replace(['\n', '\t'], " "),
            format!("{style}{}{style:#}", self.state),
            self.fence.to_string(),
            self.attempts.to_string(),
            self.touched_at.clone().unwrap_or_default(),
        ]
    }

    /// Writes everything that is known, for a person.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.title(state_style(self.raw_state), &self.state, &tame(&self.key))?;
        page.field("tenant", &self.tenant)?;
        page.field("operation", &self.operation)?;
        page.field("key", &self.key)?;
        page.field("fence", self.fence)?;
        page.field_if("owner", self.owner.as_ref())?;
        page.field("attempts", self.attempts)?;
        page.field_if("lease until", self.lease_expires_at.as_ref())?;
        page.field("if owner lost", &self.on_owner_lost)?;
        page.field_if("first sent", self.first_sent.as_ref())?;
        page.field_if("created at", self.created_at.as_ref())?;
        page.field_if("changed at", self.touched_at.as_ref())?;
        page.field_if("kept until", self.expires_at.as_ref())?;
        page.field("derived key", &self.derived_key)?;
        for fingerprint in &self.fingerprints {
            page.field("fingerprint", fingerprint)?;
        }
        for (name, value) in &self.labels {
            page.field("label", format!("{name}={value}"))?;
        }
        if self.checkpoint_bytes > 0 {
            page.field("checkpoint", format!("{} bytes", self.checkpoint_bytes))?;
        }
        for attempt in &self.history {
            attempt.write(page)?;
        }
        for entry in &self.audit {
            let at = entry.at.as_deref().unwrap_or("?");
            let what = format!("{} by {} at {at}: {}", entry.action, entry.actor, entry.reason);
            page.field("audit", what)?;
        }
        self.completion.as_ref().map_or(Ok(()), |completion| completion.write(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(content: Content) -> serde_json::Value {
        let response = v1::Response { status: 201, content: Some(content), ..Default::default() };
        serde_json::to_value(ResponseView::from(response)).unwrap()
    }

    #[test]
    fn text_stays_text_and_other_bytes_are_base64() {
        let text = response(Content::Body("grüß".into()));
        assert_eq!(text["body"], "grüß");
        assert_eq!(text.get("body_base64"), None);
        let bytes = response(Content::Body(vec![0xff, 0x00].into()));
        assert_eq!(bytes.get("body"), None);
        assert_eq!(bytes["body_base64"], "/wA=");
        let omitted = v1::OmittedBody { sha256: vec![0xab; 32].into(), length: 9 };
        let omitted = response(Content::Omitted(omitted));
        assert_eq!(omitted["omitted"]["length"], 9);
        assert_eq!(omitted["omitted"]["sha256"], "ab".repeat(32));
    }

    #[test]
    fn names_lose_their_prefix_and_unknown_ones_stay_numbers() {
        assert_eq!(state_name(KeyState::FailedFinal.into()), "FAILED_FINAL");
        assert_eq!(state_name(99), "99");
        let attempt = AttemptView::from(v1::Attempt {
            end: attempt::End::FailedRetryable.into(),
            ..Default::default()
        });
        assert_eq!(attempt.end, "FAILED_RETRYABLE");
    }

    #[test]
    fn a_key_that_steers_the_terminal_is_tamed() {
        let view = KeyView::from(v1::KeyView { key: "a\u{1b}[2J".into(), ..Default::default() });
        assert!(view.row().iter().all(|cell| !cell.contains("\u{1b}[2J")));
        let mut written = Vec::new();
        view.write(&mut Page(&mut written)).unwrap();
        assert!(!String::from_utf8(written).unwrap().contains("\u{1b}[2J"));
    }
}
