//! How breakers are shown: stable objects for scripts, a few lines for people.
//!
//! Names are those of the contract; enum values lose their prefix. What is absent is left out.

use std::io;

use anstyle::Style;
use semel_proto::v1::{self, BreakerCondition, BreakerOverride};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{BAD, CAUTION, GOOD, Page};
use crate::policies::show_version;
use crate::values::{named, show_ms, show_per_mille, tame, time, to_ms};

/// A breaker at one moment.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct BreakerView {
    #[serde(skip)]
    raw_condition: i32,
    tenant: String,
    /// Whose breaker it is.
    pub(crate) dependency: String,
    condition: String,
    generation: u64,
    admitted_per_mille: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    look_again_ms: Option<i64>,
    counts: CountsView,
    reporters: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#override: Option<OverrideView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    policy_version: u64,
    probe_due: bool,
}

/// Outcomes of calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct CountsView {
    succeeded: u64,
    failed: u64,
    slow: u64,
    ignored: u64,
}

/// An operator's force.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct OverrideView {
    kind: String,
    actor: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<v1::BreakerSnapshot> for BreakerView {
    fn from(breaker: v1::BreakerSnapshot) -> Self {
        let counts = breaker.counts.unwrap_or_default();
        Self {
            raw_condition: breaker.condition,
            tenant: breaker.tenant,
            dependency: breaker.dependency,
            condition: named!(BreakerCondition, breaker.condition, "BREAKER_CONDITION_"),
            generation: breaker.generation,
            admitted_per_mille: breaker.admitted_per_mille,
            look_again_ms: breaker.look_again.as_ref().map(to_ms),
            counts: CountsView {
                succeeded: counts.succeeded,
                failed: counts.failed,
                slow: counts.slow,
                ignored: counts.ignored,
            },
            reporters: breaker.reporters,
            r#override: breaker.r#override.map(OverrideView::from),
            since: time(breaker.since.as_ref()),
            policy_version: breaker.policy_version,
            probe_due: breaker.probe_due,
        }
    }
}

impl From<v1::OverrideView> for OverrideView {
    fn from(force: v1::OverrideView) -> Self {
        Self {
            kind: named!(BreakerOverride, force.kind, "BREAKER_OVERRIDE_"),
            actor: force.actor,
            reason: force.reason,
            since: time(force.since.as_ref()),
            expires_at: time(force.expires_at.as_ref()),
        }
    }
}

impl CountsView {
    fn text(&self) -> String {
        let calls = self.succeeded.saturating_add(self.failed);
        format!("{} of {calls} failed", self.failed)
    }
}

impl BreakerView {
    /// The headings of [`Self::row`].
    pub(crate) const HEADINGS: [&str; 7] =
        ["DEPENDENCY", "CONDITION", "ADMITTED", "GENERATION", "CALLS", "FORCED", "SINCE"];

    /// The breaker as a row of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let style = self.style();
        vec![
            self.dependency.clone(),
            format!("{style}{}{style:#}", self.condition),
            show_per_mille(self.admitted_per_mille),
            self.generation.to_string(),
            self.counts.text(),
            self.r#override.as_ref().map_or_else(|| "no".to_owned(), |force| force.kind.clone()),
            self.since.clone().unwrap_or_default(),
        ]
    }

    /// Writes everything that is known, for a person.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.title(self.style(), &self.condition, &self.dependency)?;
        page.field("tenant", &self.tenant)?;
        page.field("admitted", show_per_mille(self.admitted_per_mille))?;
        page.field("generation", self.generation)?;
        page.field_if("since", self.since.as_ref())?;
        let calls = self.counts.text();
        let (slow, ignored) = (self.counts.slow, self.counts.ignored);
        page.field("calls", format!("{calls}; {slow} slow, {ignored} not counted"))?;
        page.field("reporters", self.reporters)?;
        if let Some(force) = &self.r#override {
            let until = force.expires_at.as_deref().unwrap_or("it is taken away");
            page.field("forced", format!("{} until {until}", force.kind))?;
            page.field("by", format!("{}: {}", force.actor, force.reason))?;
        }
        page.field_if("look again in", self.look_again_ms.map(show_ms))?;
        if self.probe_due {
            page.field("probe", "due")?;
        }
        page.field("policy", show_version(self.policy_version))
    }

    /// Writes what a watcher wants to know, on one line.
    pub(crate) fn write_line(&self, page: &mut Page<'_>) -> io::Result<()> {
        let style = self.style();
        let since = self.since.as_deref().unwrap_or("never left it");
        let forced = self.r#override.as_ref();
        let forced = forced.map_or_else(String::new, |force| {
            format!(", {} by {}: {}", force.kind, force.actor, force.reason)
        });
        let (name, condition) = (&self.dependency, &self.condition);
        let admitted = show_per_mille(self.admitted_per_mille);
        let rest = format!("{admitted} admitted, generation {}{forced}", self.generation);
        page.line(format!(
            "{since}  {name}  {style}{condition}{style:#}  {}",
            tame(&rest).replace('\n', " ")
        ))
    }

    /// Whether a watcher sees no difference: counts and remaining times alone are none.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        let of = |view: &Self| (view.generation, view.raw_condition, view.admitted_per_mille);
        of(self) == of(other) && self.r#override == other.r#override
    }

    fn style(&self) -> Style {
        match BreakerCondition::try_from(self.raw_condition) {
            Ok(BreakerCondition::Closed) if self.admitted_per_mille >= 1_000 => GOOD,
            Ok(BreakerCondition::Open) => BAD,
            _ => CAUTION,
        }
    }
}

/// What an answer without a breaker is worth.
pub(crate) fn no_breaker() -> Failure {
    Failure::broken("the node's answer has no breaker")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> v1::BreakerSnapshot {
        v1::BreakerSnapshot {
            dependency: "stripe".into(),
            condition: BreakerCondition::Open.into(),
            generation: 7,
            counts: Some(v1::OutcomeCounts { succeeded: 4, failed: 16, ..Default::default() }),
            r#override: Some(v1::OverrideView {
                kind: BreakerOverride::ForcedOpen.into(),
                actor: "ops".into(),
                reason: "mainte\u{1b}[2Jnance\nnow".into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn scripts_get_names_without_prefix() {
        let json = serde_json::to_value(BreakerView::from(snapshot())).unwrap();
        assert_eq!(json["condition"], "OPEN");
        assert_eq!(json["override"]["kind"], "FORCED_OPEN");
        assert_eq!(json["counts"]["failed"], 16);
        assert_eq!(json.get("look_again_ms"), None);
    }

    #[test]
    fn a_watchers_line_is_one_line_and_steers_no_terminal() {
        let mut written = Vec::new();
        BreakerView::from(snapshot()).write_line(&mut Page(&mut written)).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains("\u{1b}[2J"), "{text}");
        assert!(text.contains("FORCED_OPEN by ops"), "{text}");
    }

    #[test]
    fn counts_alone_are_no_change_to_a_watcher() {
        let view = BreakerView::from(snapshot());
        let counted = v1::BreakerSnapshot { counts: None, reporters: 3, ..snapshot() };
        assert!(view.looks_like(&counted.into()));
        let moved = v1::BreakerSnapshot { generation: 8, ..snapshot() };
        assert!(!view.looks_like(&moved.into()));
        let freed = v1::BreakerSnapshot { r#override: None, ..snapshot() };
        assert!(!view.looks_like(&freed.into()));
    }
}
