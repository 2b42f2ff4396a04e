//! How budgets are shown: stable objects for scripts, a few lines for people.
//!
//! Names are those of the contract; enum values lose their prefix. Amounts are milli-tokens for scripts,
//! under names that end in `_milli`, and tokens for people. What is absent is left out.

use std::collections::BTreeMap;
use std::io;

use anstyle::Style;
use semel_proto::v1::{self, Mode, RetryVerdict};
use serde::Serialize;

use crate::output::{CAUTION, GOOD, Page};
use crate::policies::show_version;
use crate::values::{named, show_milli, time};

/// A budget as the store has it.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetView {
    tenant: String,
    dependency: String,
    deposited_milli: u64,
    floor_milli: u64,
    spent_milli: u64,
    outstanding_milli: u64,
    available_milli: u64,
    policy_version: u64,
    members: Vec<MemberView>,
}

/// A node that holds a part of a budget.
#[derive(Debug, Serialize)]
struct MemberView {
    node: String,
    outstanding_milli: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<v1::BudgetView> for BudgetView {
    fn from(budget: v1::BudgetView) -> Self {
        let members = budget.members.into_iter().map(|member| MemberView {
            node: hex::encode(&member.node),
            outstanding_milli: member.outstanding_milli,
            expires_at: time(member.expires_at.as_ref()),
        });
        Self {
            tenant: budget.tenant,
            dependency: budget.dependency,
            deposited_milli: budget.deposited_milli,
            floor_milli: budget.floor_milli,
            spent_milli: budget.spent_milli,
            outstanding_milli: budget.outstanding_milli,
            available_milli: budget.available_milli,
            policy_version: budget.policy_version,
            members: members.collect(),
        }
    }
}

impl BudgetView {
    /// The headings of [`Self::row`].
    pub(crate) const HEADINGS: [&str; 8] = [
        "DEPENDENCY",
        "AVAILABLE",
        "DEPOSITED",
        "FLOOR",
        "SPENT",
        "OUTSTANDING",
        "NODES",
        "POLICY",
    ];

    /// The budget as a row of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let style = self.style();
        vec![
            self.dependency.clone(),
            format!("{style}{}{style:#}", show_milli(self.available_milli)),
            show_milli(self.deposited_milli),
            show_milli(self.floor_milli),
            show_milli(self.spent_milli),
            show_milli(self.outstanding_milli),
            self.members.len().to_string(),
            show_version(self.policy_version),
        ]
    }

    /// Writes everything that is known, for a person.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let word = format!("{} AVAILABLE", show_milli(self.available_milli));
        page.title(self.style(), &word, &self.dependency)?;
        page.field("tenant", &self.tenant)?;
        page.field("deposited", show_milli(self.deposited_milli))?;
        page.field("floor", show_milli(self.floor_milli))?;
        page.field("spent", show_milli(self.spent_milli))?;
        page.field("outstanding", show_milli(self.outstanding_milli))?;
        page.field("policy", show_version(self.policy_version))?;
        for member in &self.members {
            let until = member.expires_at.as_deref().unwrap_or("?");
            let held = show_milli(member.outstanding_milli);
            page.field("held", format!("{held} by {} until {until}", member.node))?;
        }
        Ok(())
    }

    const fn style(&self) -> Style {
        if self.available_milli == 0 { CAUTION } else { GOOD }
    }
}

/// What the node that answered knows by itself.
#[derive(Debug, Serialize)]
pub(crate) struct NodeView {
    node: String,
    balance_milli: u64,
    granted: u64,
    requests: u64,
    denials: BTreeMap<String, u64>,
    mode: String,
}

impl From<v1::NodeBudget> for NodeView {
    fn from(node: v1::NodeBudget) -> Self {
        let denials = node.denials.iter();
        Self {
            node: hex::encode(&node.node),
            balance_milli: node.balance_milli,
            granted: node.granted,
            requests: node.requests,
            denials: denials
                .map(|denial| {
                    (named!(RetryVerdict, denial.verdict, "RETRY_VERDICT_"), denial.count)
                })
                .collect(),
            mode: named!(Mode, node.mode, "MODE_"),
        }
    }
}

impl NodeView {
    /// Writes it for a person.
    pub(crate) fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.field("node", &self.node)?;
        page.field("mode", &self.mode)?;
        page.field("balance", show_milli(self.balance_milli))?;
        page.field("granted", self.granted)?;
        page.field("first attempts", self.requests)?;
        for (verdict, count) in &self.denials {
            page.field("denied", format!("{count} {verdict}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_get_milli_tokens_and_people_get_tokens() {
        let member = v1::BudgetMember { node: vec![0xab; 2].into(), ..Default::default() };
        let budget = v1::BudgetView {
            dependency: "stripe".into(),
            available_milli: 12_500,
            members: vec![member],
            ..Default::default()
        };
        let view = BudgetView::from(budget);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["available_milli"], 12_500);
        assert_eq!(json["members"][0]["node"], "abab");
        let mut written = Vec::new();
        view.write(&mut Page(&mut written)).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&written).into_vec()).unwrap();
        assert!(text.starts_with("12.5 AVAILABLE  stripe\n"), "{text}");
        assert_eq!(view.row().len(), BudgetView::HEADINGS.len());
    }

    #[test]
    fn denials_are_named_by_their_verdict() {
        let verdict = RetryVerdict::BudgetExhausted.into();
        let denials = vec![v1::DenialCount { verdict, count: 3 }];
        let node =
            v1::NodeBudget { denials, mode: Mode::LocalBounded.into(), ..Default::default() };
        let json = serde_json::to_value(NodeView::from(node)).unwrap();
        assert_eq!(json["denials"]["BUDGET_EXHAUSTED"], 3);
        assert_eq!(json["mode"], "LOCAL_BOUNDED");
    }
}
