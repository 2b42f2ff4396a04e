//! Callers of the Retries service: first attempts that fail, and then every way to pay for a retry: a
//! token, a lease, and the share that was not handed over yet.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::retries_server::Retries as _;
use tonic::Request;

use super::{Caller, TENANT, micros};
use crate::node::Services;
use crate::oracle::Span;
use crate::oracle::budgets::{Budgets, Terms, Unsettled};
use crate::plant::Plant;

/// How often a call is sent before its caller gives up.
const SENDS_MAX: u32 = 3;
/// After a caller gave up, a copy of its report may still be carried out within this time.
const LATE_US: u64 = 12_000_000;
/// The budgets of a run.
pub(crate) const DEPENDENCIES: [&str; 2] = ["stripe", "ledger"];

/// One caller of the Retries service.
pub(crate) struct BudgetsCaller {
    pub(crate) caller: Caller,
    pub(crate) oracle: Rc<RefCell<Budgets>>,
    pub(crate) plant: Option<Plant>,
    incarnation: Bytes,
    /// What was heard of each node's id, by its number.
    nodes: BTreeMap<usize, Bytes>,
    accounts: BTreeMap<&'static str, Account>,
    ratio_per_mille: BTreeMap<&'static str, u64>,
}

/// What a caller has not yet handed over.
#[derive(Default)]
struct Account {
    seq: u64,
    lease_seq: u64,
    requests: u64,
    spent: u64,
    unsettled: Unsettled,
    /// The lease whose rest goes back with the next request, the node that gave it, and the rest.
    rest: Option<(u64, usize, u32)>,
}

/// A report that is under way.
struct Report {
    node: Bytes,
    requests: u64,
    unsettled: Unsettled,
    deposits: v1::Deposits,
}

impl BudgetsCaller {
    pub(crate) fn new(
        mut caller: Caller,
        oracle: Rc<RefCell<Budgets>>,
        terms: &[(&'static str, Terms)],
        plant: Option<Plant>,
    ) -> Self {
        Self {
            incarnation: caller.random.id(),
            caller,
            oracle,
            plant,
            nodes: BTreeMap::new(),
            accounts: BTreeMap::new(),
            ratio_per_mille: terms
                .iter()
                .map(|(name, terms)| (*name, u64::from(terms.ratio_per_mille)))
                .collect(),
        }
    }

    /// Works for ever.
    pub(crate) async fn work(mut self) {
        loop {
            self.turn().await;
            self.caller.pause(150).await;
        }
    }

    async fn turn(&mut self) {
        let of = *self.caller.random.pick(&DEPENDENCIES).unwrap_or(&"stripe");
        let node = self.caller.any_node();
        if !self.nodes.contains_key(&node) {
            return self.greet(of, node).await;
        }
        self.attempt(of);
        match self.caller.random.between(0, 9) {
            0 => self.report(of, node).await,
            1 => self.look(of, node).await,
            2 | 3 => self.lease(of, node).await,
            4 => self.spend_own(of),
            _ => {
                for _ in 0..self.caller.random.between(1, 4) {
                    self.acquire(of, node).await;
                }
            }
        }
    }

    fn account(&mut self, of: &'static str) -> &mut Account {
        self.accounts.entry(of).or_default()
    }

    fn now_us(&self) -> u64 {
        self.caller.world.time.now_us()
    }

    fn note(&self, event: std::fmt::Arguments<'_>) {
        self.caller.world.log.note(event);
    }

    /// Some first attempts.
    fn attempt(&mut self, of: &'static str) {
        let (count, now_us) = (self.caller.random.between(0, 8), self.now_us());
        let account = self.accounts.entry(of).or_default();
        account.requests += count;
        self.oracle.borrow_mut().attempted(of, count, now_us, &mut account.unsettled);
    }

    /// A retry that is paid from what was not handed over yet.
    fn spend_own(&mut self, of: &'static str) {
        let ratio = self.ratio_per_mille.get(of).copied().unwrap_or_default();
        let now_us = self.now_us();
        let account = self.account(of);
        if account.requests * ratio >= (account.spent + 1) * 1_000 {
            account.spent += 1;
            self.oracle.borrow_mut().spent(of, now_us);
            self.note(format_args!("{} spends its own for {of}", self.caller.number));
        }
    }

    /// Learns a node's id, before anything is entrusted to it.
    async fn greet(&mut self, of: &'static str, node: usize) {
        self.ask_lease(of, node, 0, None, None).await;
    }

    /// Takes what is to be reported to a node whose id is known. From here on it can't be spent.
    fn prepare(&mut self, of: &'static str, node: usize) -> Option<Report> {
        let (node, reporter) = (self.nodes.get(&node)?.clone(), self.incarnation.clone());
        let account = self.account(of);
        let requests = std::mem::take(&mut account.requests);
        let spent = std::mem::take(&mut account.spent);
        let unsettled = std::mem::take(&mut account.unsettled);
        account.seq += 1;
        let deposits = v1::Deposits {
            reporter,
            seq: account.seq,
            requests,
            successes: requests,
            spent_milli: spent * 1_000,
            node: node.clone(),
        };
        self.oracle.borrow_mut().reporting(&node, of, requests);
        Some(Report { node, requests, unsettled, deposits })
    }

    fn settle(&self, of: &str, report: Option<&Report>, counted: Option<bool>, span: Span) {
        let Some(report) = report else { return };
        let mut oracle = self.oracle.borrow_mut();
        if counted == Some(true) {
            oracle.counted(&report.node, of, report.requests);
        }
        let last_us = match counted {
            Some(_) => span.answered_us,
            None => span.answered_us.saturating_add(LATE_US),
        };
        oracle.settled(of, &report.unsettled, last_us);
    }

    async fn report(&mut self, of: &'static str, node: usize) {
        let report = self.prepare(of, node);
        let sent = v1::ReportRequestsRequest {
            tenant: TENANT.to_owned(),
            reports: vec![v1::RequestReport {
                dependency: of.to_owned(),
                deposits: report.as_ref().map(|report| report.deposits.clone()),
            }],
        };
        let plant = self.plant;
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move {
                let copy = Plant::count_again(plant, &sent);
                let reply = services.retries().report_requests(Request::new(sent)).await;
                if let Some(copy) = copy {
                    drop(services.retries().report_requests(Request::new(copy)).await);
                }
                reply
            }
        };
        let (answer, span) = self.persist(node, ask).await;
        self.note(format_args!("{} reports to {node} for {of}: {answer:?}", self.caller.number));
        let counted = answer.map(|reply| {
            self.nodes.insert(node, reply.node);
            reply.receipts.first().is_some_and(|receipt| receipt.counted)
        });
        self.settle(of, report.as_ref(), counted, span);
    }

    /// Sends the same to the same node until it answers, or patience ends.
    async fn persist<R: 'static, F>(
        &mut self,
        node: usize,
        ask: impl Fn(Rc<Services>) -> F + Clone + 'static,
    ) -> (Option<R>, Span)
    where
        F: Future<Output = Result<tonic::Response<R>, tonic::Status>> + 'static,
    {
        let sent_us = self.now_us();
        for _ in 0..SENDS_MAX {
            let patience = self.caller.random.millis(50, 800);
            let (answer, span) = self.caller.call(node, patience, ask.clone()).await;
            if let Ok(reply) = answer {
                return (Some(reply), Span { sent_us, ..span });
            }
            self.caller.pause(200).await;
        }
        // It may be another process by now.
        self.nodes.remove(&node);
        (None, Span { sent_us, answered_us: self.now_us() })
    }

    async fn acquire(&mut self, of: &'static str, node: usize) {
        let report = if self.caller.random.happens(500) { self.prepare(of, node) } else { None };
        let (request_id, attempt) = (self.caller.random.id(), 1);
        let kind = *self
            .caller
            .random
            .pick(&[
                v1::FailureKind::NotSent,
                v1::FailureKind::Throttled,
                v1::FailureKind::UnknownOutcome,
                v1::FailureKind::ServerError,
            ])
            .unwrap_or(&v1::FailureKind::NotSent);
        let sent = v1::AcquireRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: of.to_owned(),
            request_id: request_id.clone(),
            failure: Some(v1::Failure { kind: kind.into(), server_delay: None }),
            repeatable: true,
            attempt,
            deposits: report.as_ref().map(|report| report.deposits.clone()),
            ..Default::default()
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.retries().acquire_retry_token(Request::new(sent)).await }
        };
        let (mut answer, mut span) = self.persist(node, ask.clone()).await;
        let counted = answer.as_ref().map(|reply| reply.deposits_counted);
        self.settle(of, report.as_ref(), counted, span);
        let mut granting = node;
        if answer.is_none() || self.caller.random.happens(50) {
            // Another node may charge for it again, and must give the same token.
            granting = self.caller.any_node();
            let known = answer.take();
            self.granted(of, &request_id, attempt, known, span);
            let second = self.caller.call(granting, Duration::from_millis(500), ask.clone()).await;
            answer = second.0.ok();
            span = Span { sent_us: span.sent_us, ..second.1 };
        }
        let (who, said) =
            (self.caller.number, answer.as_ref().map(v1::AcquireRetryTokenResponse::verdict));
        self.note(format_args!("{who} asks {granting} for {of}: {said:?}"));
        let token = answer.as_ref().map(|reply| (reply.token.clone(), reply.node.clone()));
        if !self.granted(of, &request_id, attempt, answer, span) {
            return;
        }
        if let Some((token, id)) = token
            && self.caller.random.happens(150)
        {
            let came_back = self.refund(of, granting, token, id).await;
            if came_back && self.caller.random.happens(300) {
                self.note(format_args!("{who} asks {granting} for {of} after the refund"));
                let (answer, span) = self.persist(granting, ask).await;
                self.granted(of, &request_id, attempt, answer, span);
            }
        }
    }

    /// Tells the oracle of an answer. Whether a retry may be sent.
    fn granted(
        &self,
        of: &str,
        request_id: &Bytes,
        attempt: u32,
        answer: Option<v1::AcquireRetryTokenResponse>,
        span: Span,
    ) -> bool {
        let Some(reply) = answer else { return false };
        let granted = reply.verdict() == v1::RetryVerdict::Granted;
        if granted {
            let asked = (request_id.clone(), attempt);
            self.oracle.borrow_mut().granted(of, asked, reply.token, span);
        }
        granted
    }

    /// Gives a token back. Whether it surely came back.
    async fn refund(&mut self, of: &'static str, node: usize, token: Bytes, id: Bytes) -> bool {
        use v1::refund_retry_token_response::Disposition;
        self.oracle.borrow_mut().refunding(of, &token);
        let sent = v1::RefundRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: of.to_owned(),
            token: token.clone(),
            node: id,
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.retries().refund_retry_token(Request::new(sent)).await }
        };
        let sent_us = self.now_us();
        let (first, _) = self.caller.call(node, Duration::from_millis(500), ask.clone()).await;
        let is_first = first.is_ok();
        let answer = match first {
            Ok(reply) => Some(reply),
            Err(_) => self.persist(node, ask).await.0,
        };
        let said = answer.map(|reply: v1::RefundRetryTokenResponse| reply.disposition());
        self.note(format_args!("{} refunds to {node} for {of}: {said:?}", self.caller.number));
        let came_back = match said {
            Some(Disposition::Refunded | Disposition::AlreadyRefunded) => true,
            // What had no answer may have come back before it was forgotten.
            Some(_) if is_first => false,
            _ => return false,
        };
        self.oracle.borrow_mut().refunded(of, &token, came_back, sent_us);
        came_back
    }

    async fn ask_lease(
        &mut self,
        of: &'static str,
        node: usize,
        want: u32,
        returned: Option<(u64, u32)>,
        report: Option<Report>,
    ) -> Option<(v1::LeaseRetryTokensResponse, Span)> {
        let lessee = self.incarnation.clone();
        let account = self.account(of);
        account.lease_seq += 1;
        let sent = v1::LeaseRetryTokensRequest {
            tenant: TENANT.to_owned(),
            dependency: of.to_owned(),
            lessee,
            seq: account.lease_seq,
            want,
            returned_lease: returned.map(|(lease, _)| lease),
            returned: returned.map_or(0, |(_, rest)| rest),
            deposits: report.as_ref().map(|report| report.deposits.clone()),
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.retries().lease_retry_tokens(Request::new(sent)).await }
        };
        let (answer, span) = self.persist(node, ask).await;
        let counted = answer.as_ref().map(|reply| reply.deposits_counted);
        self.settle(of, report.as_ref(), counted, span);
        let said = answer.as_ref().map(|reply| (reply.granted, reply.mode()));
        let who = self.caller.number;
        self.note(format_args!("{who} leases {want} of {node} for {of}: {said:?}"));
        let reply = answer?;
        self.nodes.insert(node, reply.node.clone());
        Some((reply, span))
    }

    /// Leases some tokens, spends some of them in time, and gives the rest back.
    async fn lease(&mut self, of: &'static str, node: usize) {
        let report = if self.caller.random.happens(500) { self.prepare(of, node) } else { None };
        let want = u32::try_from(self.caller.random.between(1, 12)).unwrap_or(1);
        let rest = self.account(of).rest.take_if(|(_, giver, _)| *giver == node);
        let returned = rest.map(|(lease, _, rest)| (lease, rest));
        let leased = self.ask_lease(of, node, want, returned, report).await;
        let Some((reply, span)) = leased else { return };
        let end_us = span.sent_us.saturating_add(micros(reply.expires_in.as_ref()));
        let mut left = reply.granted;
        while left > 0 && self.caller.random.happens(850) {
            self.caller.pause(120).await;
            if self.now_us() >= end_us {
                return;
            }
            left -= 1;
            let now_us = self.now_us();
            self.note(format_args!("{} spends what {node} leased for {of}", self.caller.number));
            self.oracle.borrow_mut().spent(of, now_us);
        }
        if reply.granted > 0 {
            self.account(of).rest = Some((reply.lease, node, left));
        }
    }

    /// What a node has counted is what it was told, once.
    async fn look(&mut self, of: &'static str, node: usize) {
        let asked = self.nodes.get(&node).cloned().unwrap_or_default();
        let least = self.oracle.borrow().acknowledged(&asked, of);
        let sent = v1::GetBudgetRequest { tenant: TENANT.to_owned(), dependency: of.to_owned() };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.retries().get_budget(Request::new(sent)).await }
        };
        let (answer, _) = self.caller.call(node, Duration::from_millis(500), ask).await;
        let said = answer.ok().and_then(|reply: v1::GetBudgetResponse| reply.node);
        if let Some(said) = said {
            let least = if said.node == asked { least } else { 0 };
            self.oracle.borrow().requests_said(&said.node, of, said.requests, least);
            self.note(format_args!("{node} counted {} for {of}", said.requests));
        }
    }
}

/// Asks every node for a token, once all is healed, until it decides with the store in reach.
pub(crate) async fn expect_answers(caller: &mut Caller, of: &'static str) {
    let sent = v1::AcquireRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: of.to_owned(),
        request_id: caller.random.id(),
        failure: Some(v1::Failure { kind: v1::FailureKind::Rejected.into(), server_delay: None }),
        attempt: 1,
        ..Default::default()
    };
    let ask = move |services: Rc<Services>| {
        let sent = sent.clone();
        async move {
            let reply = services.retries().acquire_retry_token(Request::new(sent)).await?;
            match reply.get_ref().mode() {
                v1::Mode::Normal => Ok(reply),
                _ => Err(super::unavailable("its mode is not NORMAL")),
            }
        }
    };
    caller.expect_answers("a token", ask).await;
}
