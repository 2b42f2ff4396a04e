//! The calls of operators: look, list, settle, erase. Each leaves a line in the audit log (target
//! `semel::audit`), and what changes a key is kept with it as well. Bodies never enter a log.

use std::collections::BTreeMap;

use semel_domain::keys::layout::{Address, Range, records_of, stuck_until};
use semel_domain::keys::{Command, Outcome, Record, Stage, decode};
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_store::{Page, Scan, Space, Store};

use super::engine::Call;
use super::service::{KeysService, mixed_up};
use super::{parse, reply};
use crate::audit::audit;
use crate::deadline::Deadline;
use crate::pages::{EXAMINED_MAX, EXAMINED_MAX_BYTES, next_token, page_size, resume_after};
use crate::refusal::{Reason, Refusal};
use crate::settle::refuse;
use crate::wire::tenant;

impl<S: Store> KeysService<S> {
    pub(super) async fn get(
        &self,
        request: v1::GetKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::GetKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        if request.include_body && !self.options.grant_bodies {
            return Err(Refusal::new(
                Reason::BodyDenied,
                "this node does not show stored bodies: ask without include_body, or start it \
                 with --grant-bodies",
            ));
        }
        let call = Call::new(address, deadline);
        let decided = self.engine.decide(&call, Command::Get).await?;
        let Outcome::Get(record) = decided.outcome else { return Err(mixed_up()) };
        let record = record.ok_or_else(|| Refusal::new(Reason::KeyUnknown, "no such key"))?;
        let Address { tenant, operation, key } = &*call.address;
        audit!("get", %tenant, %operation, %key, body = request.include_body);
        let view = reply::view(&call.address, &record, decided.now, request.include_body)?;
        Ok(v1::GetKeyResponse { key: Some(view) })
    }

    pub(super) async fn list(
        &self,
        request: v1::ListKeysRequest,
    ) -> Result<v1::ListKeysResponse, Refusal> {
        let tenant = tenant(&request.tenant)?;
        let operation = parse::operation_filter(&request.operation)?;
        let filter = Filter {
            stage: parse::stage_filter(request.state)?,
            labels: parse::labels(request.labels)?,
            now: self.engine.clock_guard.store_time(),
        };
        let size = page_size(request.page_size)?;
        let range = records_of(&tenant, operation.as_ref());
        let page = self.scan(Space::Records, range, &request.page_token, EXAMINED_MAX).await?;
        audit!("list", %tenant, operation = request.operation);
        let mut keys = Vec::new();
        let mut last = None;
        let mut rows = page.rows.into_iter().peekable();
        while keys.len() < size
            && let Some(row) = rows.next()
        {
            if let Some(address) = Address::from_record_key(&row.key) {
                match decode(&row.value) {
                    Ok(record) if filter.fits(&record) => {
                        keys.push(reply::row(&address, &record, filter.now));
                    }
                    Ok(_) => {}
                    // It must not hide, nor hide the keys behind it.
                    Err(error) => {
                        tracing::error!(%error, %tenant, key = %address.key, "a record can't be read");
                        keys.push(reply::unreadable_row(&address));
                    }
                }
            }
            last = Some(row.key);
        }
        let more = page.more || rows.peek().is_some();
        Ok(v1::ListKeysResponse { keys, next_page_token: next_token(more, last.as_ref()) })
    }

    pub(super) async fn list_stuck(
        &self,
        request: v1::ListStuckKeysRequest,
        deadline: Deadline,
    ) -> Result<v1::ListStuckKeysResponse, Refusal> {
        let tenant = tenant(&request.tenant)?;
        let operation = parse::operation_filter(&request.operation)?;
        let stuck_for = parse::stuck_for(request.stuck_for)?;
        let size = page_size(request.page_size)?;
        // A page is as many looks as a batch has items, and may hold as much in memory.
        let Ok(_place) = self.batches.try_acquire() else { return Err(Refusal::overloaded()) };
        let now = self.engine.clock_guard.store_time();
        let range = stuck_until(&tenant, now.before(stuck_for));
        let page = self.scan(Space::Index, range, &request.page_token, size).await?;
        audit!("list-stuck", %tenant, operation = request.operation);
        let last = page.rows.last().map(|row| row.key.clone());
        let addresses: Vec<Address> = page
            .rows
            .iter()
            .filter_map(|row| Address::from_stuck_entry(&row.key))
            .filter(|address| operation.as_ref().is_none_or(|wanted| *wanted == address.operation))
            .collect();
        let looks = addresses.iter().map(|address| (address.clone(), Command::Get)).collect();
        let mut keys = Vec::with_capacity(addresses.len());
        let decided = self.engine.decide_all(deadline, looks).await;
        for (address, decided) in addresses.iter().zip(decided) {
            let decided = match decided {
                // As in a list: one such record must not hide the stuck keys behind it.
                Err(refusal) if refusal.reason == Reason::RecordUnreadable => {
                    keys.push(reply::unreadable_row(address));
                    continue;
                }
                decided => decided?,
            };
            let Outcome::Get(record) = decided.outcome else { return Err(mixed_up()) };
            // The index was read a moment before the records: some may have moved on.
            let stuck = |record: &Record| {
                matches!(record.stage(decided.now), Stage::Lapsed | Stage::Indeterminate)
            };
            if let Some(record) = record.filter(|record| stuck(record)) {
                keys.push(reply::row(address, &record, decided.now));
            }
        }
        let next_page_token = next_token(page.more, last.as_ref());
        Ok(v1::ListStuckKeysResponse { keys, next_page_token })
    }

    pub(super) async fn reconcile(
        &self,
        request: v1::ReconcileKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::ReconcileKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let resolution = request.resolution().as_str_name();
        let reconcile = parse::reconcile(request, &self.options)?;
        let call = Call::new(address, deadline);
        let Address { tenant, operation, key } = &*call.address;
        let (actor, reason) = (reconcile.actor.clone(), reconcile.reason.clone());
        let decided = self.engine.decide(&call, Command::Reconcile(reconcile)).await?;
        let Outcome::Reconcile(outcome) = decided.outcome else { return Err(mixed_up()) };
        let result = reply::reconcile(outcome);
        let refused = result.as_ref().err().map(|refusal| refusal.reason.as_str());
        audit!("reconcile", %tenant, %operation, %key, %actor, %reason, resolution, refused);
        result
    }

    pub(super) async fn forget(
        &self,
        request: v1::ForgetKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::ForgetKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let forget = parse::forget(&request)?;
        let call = Call::new(address, deadline);
        let Address { tenant, operation, key } = &*call.address;
        let (actor, reason) = (forget.actor.clone(), forget.reason.clone());
        let decided = self.engine.decide(&call, Command::Forget(forget)).await?;
        let Outcome::Forget(outcome) = decided.outcome else { return Err(mixed_up()) };
        self.cache.forget(&call.record_key);
        let result = reply::forget(outcome);
        let refused = result.as_ref().err().map(|refusal| refusal.reason.as_str());
        audit!("forget", %tenant, %operation, %key, %actor, %reason, refused);
        result
    }

    async fn scan(
        &self,
        space: Space,
        (start, end): Range,
        token: &str,
        limit: usize,
    ) -> Result<Page, Refusal> {
        let start = if token.is_empty() { start } else { resume_after(token, &start, &end)? };
        let scan = Scan { space, start, end, limit, max_bytes: EXAMINED_MAX_BYTES };
        self.engine.store.scan(scan).await.map_err(|error| refuse(&error))
    }
}

/// What a listing shows.
struct Filter {
    stage: Option<Stage>,
    labels: BTreeMap<Box<str>, Box<str>>,
    now: Timestamp,
}

impl Filter {
    fn fits(&self, record: &Record) -> bool {
        !record.is_expired(self.now)
            && self.stage.is_none_or(|stage| record.stage(self.now) == stage)
            && self.labels.iter().all(|(name, value)| record.labels.get(name) == Some(value))
    }
}
