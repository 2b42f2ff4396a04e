//! The calls of services. Those of operators have a file of their own.

use std::sync::Arc;

use semel_domain::limits::BATCH_MAX;
use semel_domain::retry::Token;
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_proto::v1::retries_server::Retries;
use semel_store::Store;
use tonic::{Request, Response, Status};

use super::budgets::Budgets;
use super::{parse, reply};
use crate::breakers::Breakers;
use crate::deadline::Deadline;
use crate::jitter::Jitter;
use crate::refusal::{Reason, Refusal};
use crate::wire::{check_batch, downstream, incarnation};

/// The Retries service on one serving thread.
pub(crate) struct RetriesService<S> {
    pub(super) store: Arc<S>,
    pub(super) budgets: Arc<Budgets>,
    pub(super) breakers: Arc<Breakers<S>>,
    jitter: Jitter,
}

impl<S: Store> RetriesService<S> {
    pub(crate) const fn new(
        store: Arc<S>,
        budgets: Arc<Budgets>,
        breakers: Arc<Breakers<S>>,
        jitter: Jitter,
    ) -> Self {
        Self { store, budgets, breakers, jitter }
    }

    async fn acquire(
        &self,
        request: v1::AcquireRetryTokenRequest,
        until: Timestamp,
    ) -> Result<v1::AcquireRetryTokenResponse, Refusal> {
        let ask = parse::ask(request)?;
        let gate = || self.breakers.gate(&ask.downstream);
        if ask.breaker_generation > gate().generation {
            self.breakers.look(&ask.downstream);
        }
        self.budgets.acquire(&ask, gate, self.jitter.roll(), until).await
    }

    /// One after another: what one is granted, the next finds gone.
    async fn acquire_all(
        &self,
        requests: Vec<v1::AcquireRetryTokenRequest>,
        until: Timestamp,
    ) -> Result<v1::AcquireRetryTokensResponse, Refusal> {
        use v1::acquire_retry_token_result::Result as Item;
        check_batch("requests", requests.len(), BATCH_MAX)?;
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            let position = results.len();
            let error = |refusal: Refusal| {
                Item::Error(refusal.in_item("requests", position).into_message())
            };
            let result = self.acquire(request, until).await.map_or_else(error, Item::Response);
            results.push(v1::AcquireRetryTokenResult { result: Some(result) });
        }
        Ok(v1::AcquireRetryTokensResponse { results })
    }

    async fn lease(
        &self,
        request: v1::LeaseRetryTokensRequest,
        until: Timestamp,
    ) -> Result<v1::LeaseRetryTokensResponse, Refusal> {
        let ask = parse::lease(request)?;
        let gate = || self.breakers.gate(&ask.downstream);
        self.budgets.lease(&ask, gate, until).await
    }

    fn refund(
        &self,
        request: &v1::RefundRetryTokenRequest,
    ) -> Result<v1::RefundRetryTokenResponse, Refusal> {
        use v1::refund_retry_token_response::Disposition;
        let of = downstream(&request.tenant, &request.dependency)?;
        let token = Token(incarnation(Reason::TokenInvalid, "token", &request.token)?.0);
        let node = incarnation(Reason::NodeInvalid, "node", &request.node)?;
        let known = (node == self.budgets.node).then(|| self.budgets.tokens.get(&token)).flatten();
        let disposition = match known {
            None => Disposition::UnknownToken,
            Some(granted) => {
                let account = self.budgets.account(&of)?;
                let mut state = account.lock();
                match granted.charge {
                    _ if granted.of != account.key => Disposition::UnknownToken,
                    _ if granted.had_come_back() => Disposition::AlreadyRefunded,
                    Some(charge) if !state.share.refund(&charge) => Disposition::UnknownToken,
                    _ => {
                        granted.give_back();
                        Disposition::Refunded
                    }
                }
            }
        };
        Ok(v1::RefundRetryTokenResponse { disposition: disposition.into() })
    }

    fn report(
        &self,
        request: v1::ReportRequestsRequest,
    ) -> Result<v1::ReportRequestsResponse, Refusal> {
        check_batch("reports", request.reports.len(), BATCH_MAX)?;
        let mut checked = Vec::with_capacity(request.reports.len());
        for (position, given) in request.reports.into_iter().enumerate() {
            let item = |refusal: Refusal| refusal.in_item("reports", position);
            let of = downstream(&request.tenant, &given.dependency).map_err(item)?;
            let deposits = given.deposits.ok_or_else(|| {
                let problem = "say how many first attempts there were";
                Refusal::field(Reason::CountInvalid, "deposits", problem)
            });
            let report = deposits.and_then(|given| parse::report(&given)).map_err(item)?;
            checked.push((self.budgets.account(&of)?, report));
        }
        let now = self.budgets.now();
        let receipt = |(account, report)| {
            let account: Arc<super::account::Account> = account;
            let mut state = account.lock();
            let counted = state.report(&report, self.budgets.node, now);
            self.budgets.nudge(&account, &mut state, now);
            v1::RequestReceipt { counted, policy_version: state.policy_version.unwrap_or_default() }
        };
        let receipts = checked.into_iter().map(receipt).collect();
        Ok(v1::ReportRequestsResponse { receipts, node: reply::id(self.budgets.node) })
    }

    fn deadline_of<T>(&self, request: &Request<T>) -> Deadline {
        Deadline::of_call(request.metadata(), &*self.budgets.clock)
    }

    fn answer<T>(&self, deadline: Deadline, result: Result<T, Refusal>) -> Answer<T> {
        deadline.answer(result, &*self.budgets.clock)
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl<S: Store> Retries for RetriesService<S> {
    async fn acquire_retry_token(
        &self,
        request: Request<v1::AcquireRetryTokenRequest>,
    ) -> Answer<v1::AcquireRetryTokenResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(
            deadline,
            self.acquire(request.into_inner(), self.budgets.patience(deadline)).await,
        )
    }

    async fn acquire_retry_tokens(
        &self,
        request: Request<v1::AcquireRetryTokensRequest>,
    ) -> Answer<v1::AcquireRetryTokensResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(
            deadline,
            self.acquire_all(request.into_inner().requests, self.budgets.patience(deadline)).await,
        )
    }

    async fn lease_retry_tokens(
        &self,
        request: Request<v1::LeaseRetryTokensRequest>,
    ) -> Answer<v1::LeaseRetryTokensResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(
            deadline,
            self.lease(request.into_inner(), self.budgets.patience(deadline)).await,
        )
    }

    async fn refund_retry_token(
        &self,
        request: Request<v1::RefundRetryTokenRequest>,
    ) -> Answer<v1::RefundRetryTokenResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.refund(request.get_ref()))
    }

    async fn report_requests(
        &self,
        request: Request<v1::ReportRequestsRequest>,
    ) -> Answer<v1::ReportRequestsResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.report(request.into_inner()))
    }

    async fn get_budget(
        &self,
        request: Request<v1::GetBudgetRequest>,
    ) -> Answer<v1::GetBudgetResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.get(request.get_ref(), deadline).await)
    }

    async fn list_budgets(
        &self,
        request: Request<v1::ListBudgetsRequest>,
    ) -> Answer<v1::ListBudgetsResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.list(request.get_ref()).await)
    }

    async fn set_retry_policy(
        &self,
        request: Request<v1::SetRetryPolicyRequest>,
    ) -> Answer<v1::SetRetryPolicyResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.set_policy(request.into_inner(), deadline).await)
    }

    async fn get_retry_policy(
        &self,
        request: Request<v1::GetRetryPolicyRequest>,
    ) -> Answer<v1::GetRetryPolicyResponse> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.policy(request.get_ref(), deadline).await)
    }
}
