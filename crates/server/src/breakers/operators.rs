//! The calls of operators: force, set policies, list. Each leaves a line in the audit log (target
//! `semel::audit`), and what changes a breaker is kept with it as well.

use semel_domain::breaker::layout::{from_record_key, records_of};
use semel_domain::breaker::{Command, Outcome, decode, snapshot};
use semel_domain::downstream::Downstream;
use semel_proto::v1;
use semel_store::{Scan, Space, Store};

use super::shared::Breakers;
use super::{parse, reply};
use crate::audit::audit;
use crate::deadline::Deadline;
use crate::pages::{EXAMINED_MAX, EXAMINED_MAX_BYTES, next_token, page_size, resume_after};
use crate::refusal::{Reason, Refusal};
use crate::settle::refuse;
use crate::wire;

impl<S: Store> Breakers<S> {
    pub(super) async fn force(
        &self,
        request: v1::OverrideBreakerRequest,
        deadline: Deadline,
    ) -> Result<v1::OverrideBreakerResponse, Refusal> {
        let of = wire::downstream(&request.tenant, &request.dependency)?;
        let force = parse::force(&request, self.random_id())?;
        let view = self.view(&of)?;
        let (actor, reason) = (force.actor.clone(), force.reason.clone());
        let result = self.decide(&view, Command::Override(force), deadline).await;
        let (Downstream { tenant, dependency }, kind) = (&of, request.r#override().as_str_name());
        let refused = result.as_ref().err().map(|refusal| refusal.reason.as_str());
        audit!("override", %tenant, %dependency, %actor, %reason, kind, refused);
        result?;
        let breaker = reply::breaker(&of, &view.snapshot(self.now()));
        Ok(v1::OverrideBreakerResponse { breaker: Some(breaker) })
    }

    pub(super) async fn set_policy(
        &self,
        request: v1::SetBreakerPolicyRequest,
        deadline: Deadline,
    ) -> Result<v1::SetBreakerPolicyResponse, Refusal> {
        let of = wire::downstream(&request.tenant, &request.dependency)?;
        let command = parse::set_policy(&request)?;
        let view = self.view(&of)?;
        let actor = command.actor.clone();
        let result = match self.decide(&view, Command::SetPolicy(command), deadline).await {
            Ok(Outcome::SetPolicy(outcome)) => reply::set_policy(outcome),
            Ok(_) => Err(mixed_up()),
            Err(refusal) => Err(refusal),
        };
        let Downstream { tenant, dependency } = &of;
        let refused = result.as_ref().err().map(|refusal| refusal.reason.as_str());
        audit!("set-breaker-policy", %tenant, %dependency, %actor, refused);
        result
    }

    pub(super) async fn get_policy(
        &self,
        request: v1::GetBreakerPolicyRequest,
        deadline: Deadline,
    ) -> Result<v1::GetBreakerPolicyResponse, Refusal> {
        let of = wire::downstream(&request.tenant, &request.dependency)?;
        let view = self.view(&of)?;
        match self.decide(&view, Command::Get, deadline).await? {
            Outcome::Get(record) => Ok(reply::policy(record.as_deref())),
            _ => Err(mixed_up()),
        }
    }

    pub(super) async fn list(
        &self,
        request: v1::ListBreakersRequest,
    ) -> Result<v1::ListBreakersResponse, Refusal> {
        let tenant = wire::tenant(&request.tenant)?;
        let wanted = parse::condition_filter(request.condition)?;
        let size = page_size(request.page_size)?;
        let (mut start, end) = records_of(&tenant);
        if !request.page_token.is_empty() {
            start = resume_after(&request.page_token, &start, &end)?;
        }
        let scan = Scan {
            space: Space::Records,
            start,
            end,
            limit: EXAMINED_MAX,
            max_bytes: EXAMINED_MAX_BYTES,
        };
        let page = self.store.scan(scan).await.map_err(|error| refuse(&error))?;
        audit!("list-breakers", %tenant);
        let (now, mut breakers, mut last) = (self.now(), Vec::new(), None);
        let mut rows = page.rows.into_iter().peekable();
        while breakers.len() < size
            && let Some(row) = rows.next()
        {
            if let Some(of) = from_record_key(&row.key) {
                match decode(&row.value) {
                    Ok(record) => {
                        let seen = snapshot(Some(&record), now);
                        if wanted.is_none_or(|wanted| wanted == seen.standing.condition) {
                            breakers.push(reply::breaker(&of, &seen));
                        }
                    }
                    // It must not hide, nor hide those behind it.
                    Err(error) => {
                        tracing::error!(%error, %tenant, dependency = %of.dependency, "a breaker can't be read");
                        breakers.push(reply::unreadable(&of));
                    }
                }
            }
            last = Some(row.key);
        }
        let more = page.more || rows.peek().is_some();
        let next_page_token = next_token(more, last.as_ref());
        Ok(v1::ListBreakersResponse { breakers, next_page_token })
    }
}

/// An outcome of another kind than its command: unreachable, and refused rather than trusted.
pub(super) fn mixed_up() -> Refusal {
    Refusal::new(Reason::RecordUnreadable, "the store answered another command than was asked")
}
