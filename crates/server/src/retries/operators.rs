//! The calls of operators: look at budgets, list them, set their policies. Each leaves a line in the
//! audit log.

use std::sync::Arc;

use semel_domain::budget::layout::{from_record_key, record_key, records_of};
use semel_domain::budget::{Command, Outcome, Record, ReplacePolicy, SetPolicyOutcome, decode};
use semel_domain::downstream::Downstream;
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_store::{Scan, Space, Store};

use super::service::RetriesService;
use super::transition::{BudgetTransition, Decided};
use super::{policy, reply};
use crate::audit::audit;
use crate::deadline::Deadline;
use crate::pages::{EXAMINED_MAX_BYTES, next_token, page_size, resume_after};
use crate::refusal::{Reason, Refusal};
use crate::settle;
use crate::wire::{actor, downstream, tenant, wire_time};

impl<S: Store> RetriesService<S> {
    pub(super) async fn get(
        &self,
        request: &v1::GetBudgetRequest,
        deadline: Deadline,
    ) -> Result<v1::GetBudgetResponse, Refusal> {
        let of = downstream(&request.tenant, &request.dependency)?;
        let record = self.record(&of, deadline).await?;
        audit!("get-budget", tenant = %of.tenant, dependency = %of.dependency);
        let account = self.budgets.account(&of)?;
        let gate = self.breakers.gate(&of);
        let mut state = account.lock();
        Ok(v1::GetBudgetResponse {
            budget: Some(reply::view(&of, &record)),
            policy: Some(policy::reply(&record.policy())),
            node: Some(reply::node_view(&mut state, gate, self.budgets.node, self.budgets.now())),
        })
    }

    pub(super) async fn list(
        &self,
        request: &v1::ListBudgetsRequest,
    ) -> Result<v1::ListBudgetsResponse, Refusal> {
        let tenant = tenant(&request.tenant)?;
        let limit = page_size(request.page_size)?;
        audit!("list-budgets", %tenant);
        let (mut start, end) = records_of(&tenant);
        if !request.page_token.is_empty() {
            start = resume_after(&request.page_token, &start, &end)?;
        }
        let scan = Scan { space: Space::Records, start, end, limit, max_bytes: EXAMINED_MAX_BYTES };
        let page = self.store.scan(scan).await.map_err(|error| settle::refuse(&error))?;
        let now = self.budgets.clock_guard.store_time();
        let mut budgets = Vec::with_capacity(page.rows.len());
        for row in &page.rows {
            let Some(of) = from_record_key(&row.key) else { continue };
            match decode(&row.value) {
                Ok(record) => budgets.push(reply::view(&of, &current(&record, now))),
                Err(error) => tracing::error!(budget = ?of, %error, "a budget can't be read"),
            }
        }
        let last = page.rows.last().map(|row| &row.key);
        Ok(v1::ListBudgetsResponse { budgets, next_page_token: next_token(page.more, last) })
    }

    pub(super) async fn set_policy(
        &self,
        request: v1::SetRetryPolicyRequest,
        deadline: Deadline,
    ) -> Result<v1::SetRetryPolicyResponse, Refusal> {
        let of = downstream(&request.tenant, &request.dependency)?;
        let actor = actor(&request.actor)?;
        let policy = policy::parse(&request.policy.unwrap_or_default())?;
        let replace = ReplacePolicy {
            policy,
            expected_version: request.expected_version,
            actor: actor.clone().into(),
        };
        let asked_at = self.budgets.now();
        let decided = self.decide(&of, Command::SetPolicy(replace), deadline).await?;
        let Outcome::SetPolicy(outcome) = decided.outcome else { return Err(mixed_up()) };
        let (tenant, dependency) = (&of.tenant, &of.dependency);
        audit!("set-retry-policy", %tenant, %dependency, %actor, ?outcome);
        // This node need not wait for its next sync to hear of it.
        let now = self.budgets.now();
        self.budgets.account(&of)?.lock().learn(decided.news, asked_at, now);
        match outcome {
            SetPolicyOutcome::Replaced { version } | SetPolicyOutcome::Unchanged { version } => {
                Ok(v1::SetRetryPolicyResponse { version })
            }
            SetPolicyOutcome::Conflict { current } => {
                let message = format!(
                    "version {current} is in force, not the one to be replaced: look at it, then \
                     decide again"
                );
                let refusal = Refusal::new(Reason::PolicyConflict, message);
                Err(refusal.with("current_version", current.to_string()))
            }
        }
    }

    pub(super) async fn policy(
        &self,
        request: &v1::GetRetryPolicyRequest,
        deadline: Deadline,
    ) -> Result<v1::GetRetryPolicyResponse, Refusal> {
        let of = downstream(&request.tenant, &request.dependency)?;
        let record = self.record(&of, deadline).await?;
        let set = record.policy.as_ref();
        Ok(v1::GetRetryPolicyResponse {
            policy: Some(policy::reply(&record.policy())),
            version: record.policy_version(),
            actor: set.map(|set| set.actor.to_string()).unwrap_or_default(),
            set_at: set.map(|set| wire_time(set.set_at)),
        })
    }

    async fn record(&self, of: &Downstream, deadline: Deadline) -> Result<Record, Refusal> {
        match self.decide(of, Command::Get, deadline).await?.outcome {
            Outcome::Get(record) => Ok(*record),
            _ => Err(mixed_up()),
        }
    }

    async fn decide(
        &self,
        of: &Downstream,
        command: Command,
        deadline: Deadline,
    ) -> Result<Decided, Refusal> {
        let transition = BudgetTransition { command: Arc::new(command), known_version: None };
        let update = transition.into_update(record_key(of));
        let decided = settle::update(&*self.store, &*self.budgets.clock, deadline, update).await?;
        decided.map_err(|error| Refusal::new(Reason::RecordUnreadable, error.to_string()))
    }
}

/// A record as it stands now: what has left its window is out of it.
fn current(record: &Record, now: Timestamp) -> Record {
    match semel_domain::budget::decide(Some(record), &Command::Get, now) {
        (_, Outcome::Get(record)) => *record,
        _ => record.clone(),
    }
}

/// An outcome of another kind than its command: unreachable, and refused rather than trusted.
fn mixed_up() -> Refusal {
    Refusal::new(Reason::RecordUnreadable, "the store answered another command than was asked")
}
