//! Clients that report first attempts, and ask for more retries than there are.

use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use semel_proto::v1::{
    AcquireRetryTokenRequest, BackoffStrategy, Deposits, Failure, FailureKind, GetBudgetRequest,
    LeaseRetryTokensRequest, RefundRetryTokenRequest, ReportRequestsRequest, RequestReport,
    RetryPolicy, RetryVerdict, SetRetryPolicyRequest,
};
use tokio_util::sync::CancellationToken;

use super::{Caller, DEADLINE, detached, insist, refusal};
use crate::call::{Client, Timed, is_unknown, proto_us, timed, within};
use crate::checker::budgets::{Deposit, Grant, Said, Terms};
use crate::support::ask::TENANT;

/// The budgets of the load, each with the terms that its policy means.
pub(crate) const BUDGETS: [(&str, Terms); 2] = [
    ("flat", Terms { ratio_per_mille: 100, floor_per_second: 2, lookback_us: 2_500_000 }),
    ("jittered", Terms { ratio_per_mille: 200, floor_per_second: 1, lookback_us: 5_000_000 }),
];

/// Sets the policies of all budgets.
pub(crate) async fn set_policies(client: &Client) {
    let [(flat, flat_terms), (jittered, jittered_terms)] = BUDGETS;
    let lasts = |ms: u64| Some(Duration::from_millis(ms).try_into().unwrap());
    let policy = |terms: Terms| RetryPolicy {
        ratio_per_mille: Some(terms.ratio_per_mille.try_into().unwrap()),
        floor_per_second: Some(terms.floor_per_second.try_into().unwrap()),
        ..RetryPolicy::default()
    };
    let flat_policy = RetryPolicy {
        window: lasts(2_000),
        lease: lasts(500),
        backoff: BackoffStrategy::None.into(),
        ..policy(flat_terms)
    };
    let jittered_policy = RetryPolicy {
        window: lasts(3_000),
        carry_over: lasts(1_000),
        lease: lasts(1_000),
        ..policy(jittered_terms)
    };
    for (dependency, policy) in [(flat, flat_policy), (jittered, jittered_policy)] {
        let request = SetRetryPolicyRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            policy: Some(policy),
            expected_version: None,
            actor: "load".to_owned(),
        };
        insist(async || client.retries.clone().set_retry_policy(request.clone()).await).await;
    }
}

/// A client of budgets.
#[derive(Debug)]
pub(crate) struct BudgetClient {
    caller: Caller,
    reporter: [u8; 16],
    seq: [u64; BUDGETS.len()],
    /// The node that it reports to, and the ids that nodes were last known by.
    home: usize,
    known: Vec<Bytes>,
    /// How often it leased tokens, and what is left of the last lease: where, its name, how many.
    leases: [u64; BUDGETS.len()],
    rest: [Option<(usize, u64, u32)>; BUDGETS.len()],
}

impl BudgetClient {
    pub(crate) fn new(mut caller: Caller) -> Self {
        let reporter = caller.ids();
        let home = caller.any_node();
        let known = vec![Bytes::new(); caller.nodes.len()];
        let (seq, leases) = ([0; BUDGETS.len()], [0; BUDGETS.len()]);
        Self { caller, reporter, seq, home, known, leases, rest: [None; BUDGETS.len()] }
    }

    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let budget = self.caller.random.random_range(0..BUDGETS.len());
            if self.caller.once_in(40) {
                self.home = self.caller.any_node();
            }
            if self.caller.once_in(25) {
                self.look(budget).await;
            }
            if self.caller.once_in(6) {
                self.lease(budget).await;
            }
            let requests = self.caller.random.random_range(1..=4);
            if self.caller.once_in(2) {
                self.report(budget, requests).await;
                self.ask(budget, 0).await;
            } else {
                self.ask(budget, requests).await;
            }
            self.caller.pause(Duration::from_millis(80)).await;
        }
    }

    /// A report of its own, repeated to the same node as long as nobody says that it counts.
    async fn report(&mut self, budget: usize, requests: u64) {
        let (dependency, _) = BUDGETS[budget];
        let node = self.home;
        let deposits = self.deposits(budget, requests);
        let noted = self.note_deposit(budget, &deposits);
        for _ in 0..4 {
            let report = RequestReport {
                dependency: dependency.to_owned(),
                deposits: Some(deposits.clone()),
            };
            let request =
                ReportRequestsRequest { tenant: TENANT.to_owned(), reports: vec![report] };
            let mut retries = self.caller.nodes[node].retries.clone();
            let timed = timed(DEADLINE, retries.report_requests(within(DEADLINE, request))).await;
            self.caller.records.count(&timed);
            match timed.result {
                Ok(reply) => {
                    if reply.receipts[0].counted {
                        self.counted(budget, noted, &reply.node, timed.ended_us);
                    }
                    self.known[node] = reply.node;
                    return;
                }
                Err(status) if !is_unknown(&status) => return self.refused(budget, &status),
                // It may have counted, and nobody knows where.
                Err(_) if deposits.node.is_empty() => return,
                Err(_) => self.caller.pause(Duration::from_millis(100)).await,
            }
        }
    }

    /// Asks for a token; asks again, with the same ids, if there is no answer, and sometimes if there is.
    async fn ask(&mut self, budget: usize, requests: u64) {
        let (dependency, _) = BUDGETS[budget];
        let mut node = self.home;
        let deposits = (requests > 0).then(|| self.deposits(budget, requests));
        let noted = deposits.as_ref().map(|deposits| self.note_deposit(budget, deposits));
        let mut request = AcquireRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            request_id: Bytes::copy_from_slice(&self.caller.ids()),
            failure: Some(Failure { kind: FailureKind::ServerError.into(), server_delay: None }),
            repeatable: true,
            attempt: 1,
            deposits,
            ..AcquireRetryTokenRequest::default()
        };
        for _ in 0..3 {
            let mut retries = self.caller.nodes[node].retries.clone();
            let asking = retries.acquire_retry_token(within(DEADLINE, request.clone()));
            let timed = timed(DEADLINE, asking).await;
            self.caller.records.count(&timed);
            let Timed { began_us, ended_us, result } = timed;
            let granted = match result {
                Ok(reply) => {
                    if let Some(noted) = noted.filter(|_| reply.deposits_counted) {
                        self.counted(budget, noted, &reply.node, ended_us);
                    }
                    self.known[node] = reply.node.clone();
                    (reply.verdict() == RetryVerdict::Granted).then_some(reply)
                }
                Err(status) if !is_unknown(&status) => return self.refused(budget, &status),
                Err(_) => {
                    // The deposits stay with the first node, the question goes on to the next.
                    request.deposits = None;
                    node = self.caller.next_node(node);
                    continue;
                }
            };
            let Some(reply) = granted else { return };
            let delay_us = proto_us(reply.delay);
            let grant = Grant {
                request: request.request_id.clone(),
                attempt: 1,
                token: detached(&reply.token),
                first_us: began_us + delay_us,
                last_us: ended_us + delay_us,
                refunded: false,
            };
            self.caller.records.budget(dependency, |history| history.grants.push(grant));
            if self.caller.once_in(20) {
                return self
                    .refund(budget, node, &request.request_id, reply.token, reply.node)
                    .await;
            }
            if !self.caller.once_in(4) {
                return;
            }
            request.deposits = None;
            node = self.caller.any_node();
        }
    }

    /// Leases tokens, spends some of them at once, and gives the rest back with the next lease there.
    async fn lease(&mut self, budget: usize) {
        let (dependency, _) = BUDGETS[budget];
        let node = self.home;
        self.leases[budget] += 1;
        let rest = self.rest[budget].take().filter(|(at, ..)| *at == node);
        let request = LeaseRetryTokensRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            lessee: Bytes::copy_from_slice(&self.reporter),
            seq: self.leases[budget],
            want: self.caller.random.random_range(1..=4),
            returned_lease: rest.map(|(_, lease, _)| lease),
            returned: rest.map_or(0, |(.., left)| left),
            deposits: None,
        };
        for _ in 0..2 {
            let mut retries = self.caller.nodes[node].retries.clone();
            let asking = retries.lease_retry_tokens(within(DEADLINE, request.clone()));
            let Timed { began_us, ended_us, result } = timed(DEADLINE, asking).await;
            match result {
                Ok(reply) => {
                    let in_time = ended_us < began_us + proto_us(reply.expires_in);
                    let most = if in_time { reply.granted } else { 0 };
                    let spent = self.caller.random.random_range(0..=most);
                    self.spend(budget, spent, ended_us);
                    self.rest[budget] = Some((node, reply.lease, reply.granted - spent));
                    return;
                }
                Err(status) if !is_unknown(&status) => return self.refused(budget, &status),
                // The same again is answered the same, by the same node.
                Err(_) => {}
            }
        }
    }

    /// Retries are sent with leased tokens, which have no names.
    fn spend(&self, budget: usize, tokens: u32, at_us: u64) {
        let lease = format!("{:?} {}", self.reporter, self.leases[budget]);
        self.caller.records.budget(BUDGETS[budget].0, |history| {
            history.leased += u64::from(tokens);
            history.grants.extend((0..tokens).map(|number| Grant {
                request: lease.clone().into(),
                attempt: number,
                token: format!("{lease} {number}").into(),
                first_us: at_us,
                last_us: at_us,
                refunded: false,
            }));
        });
    }

    async fn refund(
        &mut self,
        budget: usize,
        node: usize,
        request: &Bytes,
        token: Bytes,
        granted_by: Bytes,
    ) {
        let (dependency, _) = BUDGETS[budget];
        // From here on it may pay for another, and it is not used.
        self.caller.records.budget(dependency, |history| {
            let own = history.grants.iter_mut().rev().filter(|grant| grant.request == *request);
            own.for_each(|grant| grant.refunded = true);
        });
        let refund = RefundRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            token,
            node: granted_by,
        };
        let mut retries = self.caller.nodes[node].retries.clone();
        let timed = timed(DEADLINE, retries.refund_retry_token(within(DEADLINE, refund))).await;
        self.caller.records.count(&timed);
        if let Err(status) = timed.result.as_ref()
            && !is_unknown(status)
        {
            self.refused(budget, status);
        }
    }

    /// Asks a node what it counted.
    async fn look(&mut self, budget: usize) {
        let (dependency, _) = BUDGETS[budget];
        let node = self.caller.any_node();
        let request =
            GetBudgetRequest { tenant: TENANT.to_owned(), dependency: dependency.to_owned() };
        let mut retries = self.caller.nodes[node].retries.clone();
        let timed = timed(DEADLINE, retries.get_budget(within(DEADLINE, request))).await;
        self.caller.records.count(&timed);
        match timed.result {
            Ok(reply) => {
                let Some(own) = reply.node else { return };
                let said = Said {
                    node: detached(&own.node),
                    requests: own.requests,
                    began_us: timed.began_us,
                    ended_us: timed.ended_us,
                };
                self.caller.records.budget(dependency, |history| history.said.push(said));
            }
            Err(status) if is_unknown(&status) => {}
            Err(status) => self.refused(budget, &status),
        }
    }

    fn deposits(&mut self, budget: usize, requests: u64) -> Deposits {
        self.seq[budget] += 1;
        Deposits {
            reporter: Bytes::copy_from_slice(&self.reporter),
            seq: self.seq[budget],
            requests,
            node: self.known[self.home].clone(),
            ..Deposits::default()
        }
    }

    /// Records first attempts before they are reported; tells where.
    fn note_deposit(&self, budget: usize, deposits: &Deposits) -> usize {
        let deposit = Deposit {
            node: (!deposits.node.is_empty()).then(|| detached(&deposits.node)),
            count: deposits.requests,
            began_us: crate::call::now_us(),
            counted_us: None,
        };
        let mut position = 0;
        self.caller.records.budget(BUDGETS[budget].0, |history| {
            position = history.deposits.len();
            history.deposits.push(deposit);
        });
        position
    }

    fn counted(&self, budget: usize, position: usize, node: &Bytes, by_us: u64) {
        self.caller.records.budget(BUDGETS[budget].0, |history| {
            let deposit = &mut history.deposits[position];
            deposit.counted_us = Some(by_us);
            deposit.node = Some(detached(node));
        });
    }

    fn refused(&self, budget: usize, status: &tonic::Status) {
        let (dependency, _) = BUDGETS[budget];
        let refused = refusal(status, &dependency);
        self.caller.records.budget(dependency, |history| history.refused.push(refused));
    }
}
