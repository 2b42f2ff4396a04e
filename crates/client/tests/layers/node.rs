//! A node that keeps one budget and one breaker by the plain words of the contract, reached through a pipe in
//! memory, and can be cut off.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::breakers_server::{Breakers, BreakersServer};
use semel_proto::v1::retries_server::{Retries, RetriesServer};
use semel_proto::v1::{self, BreakerCondition, BreakerSnapshot, ProbeOutcome};
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::support::now;

pub(crate) type Answer<T> = Result<Response<T>, Status>;
type Watcher = mpsc::Sender<Result<v1::WatchBreakersResponse, Status>>;

/// What a node knows, and what it was asked.
pub(crate) struct Book {
    /// Its incarnation.
    pub(crate) node: Bytes,
    pub(crate) leases: Vec<v1::LeaseRetryTokensRequest>,
    pub(crate) questions: Vec<v1::AcquireRetryTokenRequest>,
    pub(crate) refunds: Vec<v1::RefundRetryTokenRequest>,
    pub(crate) states: Vec<v1::BreakerStateRequest>,
    pub(crate) reports: Vec<v1::ReportOutcomesRequest>,
    /// Tokens that a lease may still give.
    pub(crate) to_lease: u32,
    /// What a question is answered.
    pub(crate) answer: v1::AcquireRetryTokenResponse,
    /// A budget in the place of the two before.
    pub(crate) budget: Option<Budget>,
    /// Opens and closes the breaker by what is reported.
    pub(crate) judges: bool,
    pub(crate) permits: u32,
    pub(crate) isolated_for: Option<prost_types::Duration>,
    pub(crate) breaker: BreakerSnapshot,
    /// No place for a watcher: come back after so long.
    pub(crate) full_for: Option<Duration>,
    /// So many answers to reports are lost.
    pub(crate) reports_lost: u32,
    /// How long the state of a breaker takes to be told, and its policy.
    pub(crate) state_takes: Duration,
    pub(crate) policy_takes: Duration,
    watchers: Vec<Watcher>,
    failed: u64,
    succeeded: u64,
    probes_in_a_row: u32,
    opened_at: Option<Instant>,
}

/// A tenth of the first attempts of the last 10 s, and 10 a second.
#[derive(Default)]
pub(crate) struct Budget {
    deposits: Vec<(Instant, u64)>,
    granted: Vec<(Instant, u64)>,
}

impl Budget {
    fn deposit(&mut self, given: Option<&v1::Deposits>) {
        self.deposits.extend(given.map(|given| (now(), given.requests)));
    }

    fn grant(&mut self, want: u32) -> u32 {
        let live = |all: &[(Instant, u64)]| {
            let recent = all.iter().filter(|(at, _)| now() - *at < Duration::from_secs(10));
            recent.map(|(_, count)| count).sum::<u64>()
        };
        let left = (live(&self.deposits) / 10 + 100).saturating_sub(live(&self.granted));
        let granted = left.min(want.into());
        self.granted.push((now(), granted));
        u32::try_from(granted).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) book: Arc<Mutex<Book>>,
    task: Arc<Mutex<Option<JoinHandle<()>>>>,
    pipes: Arc<Mutex<Option<mpsc::Sender<std::io::Result<DuplexStream>>>>>,
}

pub(crate) fn seconds(seconds: u64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: i64::try_from(seconds).unwrap(), nanos: 0 })
}

impl Node {
    /// A node, and a channel to it.
    pub(crate) fn start() -> (Self, Channel) {
        let breaker = BreakerSnapshot {
            tenant: "acme".into(),
            dependency: "stripe".into(),
            condition: BreakerCondition::Closed.into(),
            admitted_per_mille: 1_000,
            ..BreakerSnapshot::default()
        };
        let book = Book {
            node: Bytes::from_static(&[7; 16]),
            leases: Vec::new(),
            questions: Vec::new(),
            refunds: Vec::new(),
            states: Vec::new(),
            reports: Vec::new(),
            to_lease: 0,
            answer: v1::AcquireRetryTokenResponse::default(),
            budget: None,
            judges: false,
            permits: 0,
            isolated_for: None,
            breaker,
            full_for: None,
            reports_lost: 0,
            state_takes: Duration::ZERO,
            policy_takes: Duration::ZERO,
            watchers: Vec::new(),
            failed: 0,
            succeeded: 0,
            probes_in_a_row: 0,
            opened_at: None,
        };
        let node =
            Self { book: Arc::new(Mutex::new(book)), task: Arc::default(), pipes: Arc::default() };
        node.serve();
        let pipes = Arc::clone(&node.pipes);
        let connect = tower::service_fn(move |_: http::Uri| {
            let sender = pipes.lock().unwrap().clone();
            async move {
                let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                let (ours, theirs) = duplex(1 << 16);
                let sender = sender.ok_or_else(refused)?;
                sender.send(Ok(theirs)).await.map_err(|_| refused())?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(ours))
            }
        });
        let channel = Endpoint::from_static("http://node").connect_with_connector_lazy(connect);
        (node, channel)
    }

    /// Serves until it is cut off.
    pub(crate) fn serve(&self) {
        let (sender, receiver) = mpsc::channel(4);
        *self.pipes.lock().unwrap() = Some(sender);
        let server = Server::builder()
            .add_service(BreakersServer::new(self.clone()))
            .add_service(RetriesServer::new(self.clone()));
        #[expect(clippy::disallowed_methods, reason = "ended with the node")]
        let task = tokio::spawn(async move {
            let _ = server.serve_with_incoming(ReceiverStream::new(receiver)).await;
        });
        *self.task.lock().unwrap() = Some(task);
    }

    /// An address of it, for as long as the tasks live: what arrives there goes into the pipe.
    pub(crate) async fn listen(&self, tasks: &mut JoinSet<()>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let pipes = Arc::clone(&self.pipes);
        tasks.spawn(async move {
            let mut relays = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(sender) = pipes.lock().unwrap().clone() else { continue };
                let (mut ours, theirs) = duplex(1 << 16);
                if sender.send(Ok(theirs)).await.is_ok() {
                    relays.spawn(async move {
                        let _ = copy_bidirectional(&mut stream, &mut ours).await;
                    });
                }
            }
        });
        address
    }

    /// Every connection breaks, and none comes about any more.
    pub(crate) async fn cut_off(&self) {
        self.pipes.lock().unwrap().take();
        let task = self.task.lock().unwrap().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.book.lock().unwrap().watchers.clear();
    }

    /// Tells all watchers where the breaker stands.
    pub(crate) fn say(&self, change: impl FnOnce(&mut BreakerSnapshot)) {
        let mut book = self.book.lock().unwrap();
        change(&mut book.breaker);
        book.tell();
    }

    pub(crate) fn book<T>(&self, look: impl FnOnce(&mut Book) -> T) -> T {
        look(&mut self.book.lock().unwrap())
    }
}

impl Book {
    fn tell(&mut self) {
        let told =
            v1::WatchBreakersResponse { breaker: Some(self.breaker.clone()), degraded: false };
        self.watchers.retain(|watcher| watcher.try_send(Ok(told.clone())).is_ok());
    }

    fn turn(&mut self, condition: BreakerCondition, look_again: Option<prost_types::Duration>) {
        self.breaker.condition = condition.into();
        self.breaker.generation += 1;
        let is_closed = condition == BreakerCondition::Closed;
        self.breaker.admitted_per_mille = if is_closed { 1_000 } else { 0 };
        self.breaker.look_again = look_again;
        self.opened_at = (condition == BreakerCondition::Open).then(now);
        (self.failed, self.succeeded, self.probes_in_a_row) = (0, 0, 0);
        self.tell();
    }

    /// The rule of the breaker, but for its window: it is forgotten with each change only.
    fn judge(&mut self, outcomes: &[v1::OutcomeReport]) {
        for outcome in outcomes {
            for probe in &outcome.probes {
                match probe.outcome() {
                    ProbeOutcome::Succeeded => self.probes_in_a_row += 1,
                    ProbeOutcome::Failed => self.turn(BreakerCondition::Open, seconds(30)),
                    _ => {}
                }
            }
            if let Some(counts) =
                outcome.counts.filter(|_| outcome.generation == self.breaker.generation)
            {
                self.failed += counts.failed;
                self.succeeded += counts.succeeded;
            }
        }
        let is_closed = self.breaker.condition() == BreakerCondition::Closed;
        let calls = self.failed + self.succeeded;
        if is_closed && calls >= 20 && self.failed * 2 >= calls {
            self.turn(BreakerCondition::Open, seconds(30));
        } else if self.probes_in_a_row >= 3 {
            self.turn(BreakerCondition::Closed, None);
        }
    }

    fn permit(&mut self) -> Option<v1::ProbePermit> {
        if self.judges {
            let cooled = self.opened_at.is_some_and(|at| now() - at >= Duration::from_secs(30));
            if cooled {
                self.turn(BreakerCondition::HalfOpen, None);
                self.breaker.probe_due = true;
            }
            self.permits = u32::from(self.breaker.condition() == BreakerCondition::HalfOpen);
        }
        self.permits = self.permits.checked_sub(1)?;
        let (id, generation) = (Bytes::from_static(b"a permit of 16 b"), self.breaker.generation);
        Some(v1::ProbePermit { id, expires_in: seconds(10), generation })
    }
}

#[tonic::async_trait]
impl Breakers for Node {
    async fn breaker_state(
        &self,
        request: Request<v1::BreakerStateRequest>,
    ) -> Answer<v1::BreakerStateResponse> {
        let request = request.into_inner();
        tokio::time::sleep(self.book(|book| book.state_takes)).await;
        self.book(|book| {
            let permit = if request.want_probe { book.permit() } else { None };
            book.states.push(request);
            Ok(Response::new(v1::BreakerStateResponse {
                breaker: Some(book.breaker.clone()),
                isolated_for: book.isolated_for,
                permit,
                degraded: false,
            }))
        })
    }

    async fn report_outcomes(
        &self,
        request: Request<v1::ReportOutcomesRequest>,
    ) -> Answer<v1::ReportOutcomesResponse> {
        let request = request.into_inner();
        self.book(|book| {
            if book.judges {
                book.judge(&request.outcomes);
            }
            book.reports.push(request);
            if let Some(left) = book.reports_lost.checked_sub(1) {
                book.reports_lost = left;
                return Err(Status::unavailable("the answer is lost"));
            }
            let (node, breakers) = (book.node.clone(), vec![book.breaker.clone()]);
            Ok(Response::new(v1::ReportOutcomesResponse { counted: true, node, breakers }))
        })
    }

    type StreamOutcomesStream = ReceiverStream<Result<v1::ReportOutcomesResponse, Status>>;

    async fn stream_outcomes(
        &self,
        _: Request<tonic::Streaming<v1::ReportOutcomesRequest>>,
    ) -> Answer<Self::StreamOutcomesStream> {
        Err(Status::unimplemented("not used"))
    }

    type WatchBreakersStream = ReceiverStream<Result<v1::WatchBreakersResponse, Status>>;

    async fn watch_breakers(
        &self,
        _: Request<v1::WatchBreakersRequest>,
    ) -> Answer<Self::WatchBreakersStream> {
        let (sender, receiver) = mpsc::channel(16);
        if let Some(wait) = self.book(|book| book.full_for) {
            let mut details = ErrorDetails::with_retry_info(Some(wait));
            details.set_error_info("WATCHERS_FULL", "semel.v1", HashMap::new());
            let code = Code::ResourceExhausted;
            return Err(Status::with_error_details(code, "no place", details));
        }
        self.book(|book| {
            book.watchers.push(sender);
            book.tell();
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn override_breaker(
        &self,
        _: Request<v1::OverrideBreakerRequest>,
    ) -> Answer<v1::OverrideBreakerResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn set_breaker_policy(
        &self,
        _: Request<v1::SetBreakerPolicyRequest>,
    ) -> Answer<v1::SetBreakerPolicyResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn get_breaker_policy(
        &self,
        _: Request<v1::GetBreakerPolicyRequest>,
    ) -> Answer<v1::GetBreakerPolicyResponse> {
        tokio::time::sleep(self.book(|book| book.policy_takes)).await;
        let policy = Some(v1::BreakerPolicy::default());
        Ok(Response::new(v1::GetBreakerPolicyResponse { policy, ..Default::default() }))
    }

    async fn list_breakers(
        &self,
        _: Request<v1::ListBreakersRequest>,
    ) -> Answer<v1::ListBreakersResponse> {
        Err(Status::unimplemented("not used"))
    }
}

#[tonic::async_trait]
impl Retries for Node {
    async fn lease_retry_tokens(
        &self,
        request: Request<v1::LeaseRetryTokensRequest>,
    ) -> Answer<v1::LeaseRetryTokensResponse> {
        let request = request.into_inner();
        self.book(|book| {
            let granted = match &mut book.budget {
                Some(budget) => {
                    budget.deposit(request.deposits.as_ref());
                    budget.grant(request.want)
                }
                None => request.want.min(book.to_lease),
            };
            book.to_lease = book.to_lease.saturating_sub(granted);
            let answer = v1::LeaseRetryTokensResponse {
                lease: request.seq,
                granted,
                expires_in: seconds(1),
                policy: Some(v1::RetryPolicy::default()),
                node: book.node.clone(),
                ..v1::LeaseRetryTokensResponse::default()
            };
            book.leases.push(request);
            Ok(Response::new(answer))
        })
    }

    async fn acquire_retry_token(
        &self,
        request: Request<v1::AcquireRetryTokenRequest>,
    ) -> Answer<v1::AcquireRetryTokenResponse> {
        self.book(|book| {
            let mut answer = book.answer.clone();
            if let Some(budget) = &mut book.budget {
                let is_granted = budget.grant(1) == 1;
                let denied = v1::RetryVerdict::BudgetExhausted;
                answer.set_verdict(if is_granted { v1::RetryVerdict::Granted } else { denied });
                answer.delay = Some(prost_types::Duration { seconds: 0, nanos: 20_000_000 });
                answer.root_retries_left = 3;
            }
            book.questions.push(request.into_inner());
            Ok(Response::new(answer))
        })
    }

    async fn acquire_retry_tokens(
        &self,
        _: Request<v1::AcquireRetryTokensRequest>,
    ) -> Answer<v1::AcquireRetryTokensResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn refund_retry_token(
        &self,
        request: Request<v1::RefundRetryTokenRequest>,
    ) -> Answer<v1::RefundRetryTokenResponse> {
        self.book(|book| book.refunds.push(request.into_inner()));
        Ok(Response::new(v1::RefundRetryTokenResponse::default()))
    }

    async fn report_requests(
        &self,
        _: Request<v1::ReportRequestsRequest>,
    ) -> Answer<v1::ReportRequestsResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn get_budget(&self, _: Request<v1::GetBudgetRequest>) -> Answer<v1::GetBudgetResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn list_budgets(
        &self,
        _: Request<v1::ListBudgetsRequest>,
    ) -> Answer<v1::ListBudgetsResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn set_retry_policy(
        &self,
        _: Request<v1::SetRetryPolicyRequest>,
    ) -> Answer<v1::SetRetryPolicyResponse> {
        Err(Status::unimplemented("not used"))
    }

    async fn get_retry_policy(
        &self,
        _: Request<v1::GetRetryPolicyRequest>,
    ) -> Answer<v1::GetRetryPolicyResponse> {
        Err(Status::unimplemented("not used"))
    }
}
