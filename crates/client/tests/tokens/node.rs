//! A node that does what the contract says about leases, and can be told to be difficult.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use semel_proto::v1::retries_server::{Retries, RetriesServer};
use semel_proto::v1::{self, LeaseRetryTokensRequest, LeaseRetryTokensResponse};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// What a node was asked, and how it is to answer.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) requests: Vec<LeaseRetryTokensRequest>,
    pub(crate) granted: u64,
    pub(crate) returned: u64,
    pub(crate) attempts: u64,
    /// So many of the next answers are lost on their way.
    pub(crate) answers_to_lose: u32,
    /// How long a lease lasts: so long that on no machine one ends before its rest goes back.
    lease_seconds: i64,
    /// The answers that were given, by lessee and number.
    answers: HashMap<(Bytes, u64), LeaseRetryTokensResponse>,
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) book: Arc<Mutex<Book>>,
    asked: Arc<Notify>,
}

impl Node {
    /// A node that listens, and a connection to it.
    pub(crate) async fn start() -> (Self, Channel, Serving) {
        Self::start_with_leases_of(60).await
    }

    pub(crate) async fn start_with_leases_of(lease_seconds: i64) -> (Self, Channel, Serving) {
        let book = Book { lease_seconds, ..Book::default() };
        let node = Self { book: Arc::new(Mutex::new(book)), asked: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = RetriesServer::new(node.clone());
        let server = Server::builder().add_service(service);
        let incoming = TcpListenerStream::new(listener);
        #[allow(clippy::disallowed_methods, reason = "ended with the handle")]
        let task = tokio::spawn(async move {
            server.serve_with_incoming(incoming).await.unwrap();
        });
        (node, channel(address), Serving(task))
    }

    /// Waits until the node was asked `count` times.
    pub(crate) async fn was_asked(&self, count: usize) {
        while self.book.lock().unwrap().requests.len() < count {
            self.asked.notified().await;
        }
    }
}

/// Ends the server when it is dropped.
pub(crate) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

impl Book {
    fn answer(&mut self, request: &LeaseRetryTokensRequest) -> LeaseRetryTokensResponse {
        let number = (request.lessee.clone(), request.seq);
        if let Some(before) = self.answers.get(&number) {
            return before.clone();
        }
        self.granted += u64::from(request.want);
        self.returned += u64::from(request.returned);
        self.attempts += request.deposits.as_ref().map_or(0, |deposits| deposits.requests);
        let answer = LeaseRetryTokensResponse {
            lease: request.seq,
            granted: request.want,
            expires_in: Some(prost_types::Duration { seconds: self.lease_seconds, nanos: 0 }),
            node: Bytes::from_static(&[7; 16]),
            ..LeaseRetryTokensResponse::default()
        };
        self.answers.insert(number, answer.clone());
        answer
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Retries for Node {
    async fn lease_retry_tokens(
        &self,
        request: Request<LeaseRetryTokensRequest>,
    ) -> Answer<LeaseRetryTokensResponse> {
        let request = request.into_inner();
        let mut book = self.book.lock().unwrap();
        let answer = book.answer(&request);
        book.requests.push(request);
        self.asked.notify_one();
        if book.answers_to_lose > 0 {
            book.answers_to_lose -= 1;
            return Err(Status::unavailable("the connection broke"));
        }
        Ok(Response::new(answer))
    }

    async fn acquire_retry_token(
        &self,
        _: Request<v1::AcquireRetryTokenRequest>,
    ) -> Answer<v1::AcquireRetryTokenResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn acquire_retry_tokens(
        &self,
        _: Request<v1::AcquireRetryTokensRequest>,
    ) -> Answer<v1::AcquireRetryTokensResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn refund_retry_token(
        &self,
        _: Request<v1::RefundRetryTokenRequest>,
    ) -> Answer<v1::RefundRetryTokenResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn report_requests(
        &self,
        _: Request<v1::ReportRequestsRequest>,
    ) -> Answer<v1::ReportRequestsResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn get_budget(&self, _: Request<v1::GetBudgetRequest>) -> Answer<v1::GetBudgetResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn list_budgets(
        &self,
        _: Request<v1::ListBudgetsRequest>,
    ) -> Answer<v1::ListBudgetsResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn set_retry_policy(
        &self,
        _: Request<v1::SetRetryPolicyRequest>,
    ) -> Answer<v1::SetRetryPolicyResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }

    async fn get_retry_policy(
        &self,
        _: Request<v1::GetRetryPolicyRequest>,
    ) -> Answer<v1::GetRetryPolicyResponse> {
        Err(Status::unimplemented("not a matter of leases"))
    }
}
