//! A token that a node granted for a retry that is not sent comes back to it: once, however often it is said.

use std::future::pending;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use semel_client::Client;
use semel_client::layers::{BoxError, Http, RetryLayer};
use semel_client::tokens::RetryTokenSettings;
use semel_proto::v1::refund_retry_token_response::Disposition;
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{
    AcquireRetryTokenRequest, Failure, FailureCost, FailureKind, GetBudgetRequest, NodeBudget,
    RefundRetryTokenRequest, RetryPolicy, RetryVerdict, SetRetryPolicyRequest,
};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::ask::TENANT;
use crate::support::node::Node;

const DEPENDENCY: &str = "stripe";
/// What a first attempt deposits, and what a retry costs: so much that it is asked for one by one.
const DEPOSIT_MILLI: u64 = 1_000;
const COST_MILLI: u64 = 2_000;
const REQUESTS: u64 = 10;

/// A node, and what is to be seen of its budget.
struct Budget {
    node: Node,
    retries: RetriesClient<Channel>,
}

impl Budget {
    /// Paid for by first attempts alone, all of them for longer than the test takes.
    async fn start() -> Self {
        let node = Node::start(&[]);
        let mut retries = RetriesClient::new(node.connect().await);
        let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let kinds = [FailureKind::NotSent, FailureKind::Throttled];
        let cost_milli = u32::try_from(COST_MILLI).unwrap();
        let policy = RetryPolicy {
            ratio_per_mille: Some(1_000),
            floor_per_second: Some(0),
            window: span(60),
            carry_over: span(60),
            costs: kinds.map(|kind| FailureCost { kind: kind.into(), cost_milli }).to_vec(),
            ..RetryPolicy::default()
        };
        let request = SetRetryPolicyRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            policy: Some(policy),
            actor: "tester".to_owned(),
            ..SetRetryPolicyRequest::default()
        };
        retries.set_retry_policy(request).await.unwrap();
        Self { node, retries }
    }

    async fn look(&self) -> NodeBudget {
        let (tenant, dependency) = (TENANT.to_owned(), DEPENDENCY.to_owned());
        let asked = GetBudgetRequest { tenant, dependency };
        self.retries.clone().get_budget(asked).await.unwrap().into_inner().node.unwrap()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&NodeBudget) -> bool) {
        let seen = async {
            while !is_so(&self.look().await) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = timeout(Duration::from_secs(30), seen).await;
        assert!(seen.is_ok(), "never {what}: {:?}", self.look().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_granted_for_a_retry_that_is_given_up_is_back_in_its_budget() {
    let budget = Budget::start().await;
    let semel = Client::connect(TENANT, [budget.node.url.as_str()]).unwrap();
    let mut settings = RetryTokenSettings::default();
    settings.at_hand = 0;
    let tokens = semel.retry_tokens(settings);
    let retries = semel.retries(&tokens, DEPENDENCY).unwrap();

    let given_up = async {
        // The second report is sent after the answer to the first, which brings the policy.
        for requests in [1, REQUESTS] {
            let reported = budget.look().await.requests;
            (reported..requests).for_each(|_| retries.budget().first_attempt());
            budget.until("reported", |seen| seen.requests == requests).await;
        }
        let before_milli = (REQUESTS + 1) * DEPOSIT_MILLI;
        let busy = service_fn(async |_: Request<String>| {
            let mut answer = Response::new(());
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            answer.headers_mut().insert("retry-after", "35".parse().unwrap());
            Ok::<_, BoxError>(answer)
        });
        let service = RetryLayer::new(Http::default(), retries.clone()).layer(busy);
        let call = service.oneshot(Request::get("http://stripe/").body(String::new()).unwrap());
        tokio::select! {
            ended = call => panic!("no retry was granted: {ended:?}"),
            () = budget.until("granted and charged", |seen| {
                (seen.granted, seen.balance_milli) == (1, before_milli - COST_MILLI)
            }) => {}
        }
        budget.until("given back", |seen| seen.balance_milli == before_milli).await;
    };
    tokio::select! {
        () = tokens.run(pending()) => panic!("it ended by itself"),
        () = given_up => {}
    }
    budget.node.assert_calm();
}

#[tokio::test]
async fn a_token_that_is_given_back_twice_is_credited_once() {
    let budget = Budget::start().await;
    let mut retries = budget.retries.clone();
    let deposits = semel_proto::v1::Deposits {
        reporter: vec![1; 16].into(),
        seq: 1,
        requests: REQUESTS,
        ..<_>::default()
    };
    let asked = AcquireRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: DEPENDENCY.to_owned(),
        request_id: vec![7; 16].into(),
        failure: Some(Failure { kind: FailureKind::NotSent.into(), server_delay: None }),
        attempt: 1,
        deposits: Some(deposits),
        ..AcquireRetryTokenRequest::default()
    };
    let granted = retries.acquire_retry_token(asked).await.unwrap().into_inner();
    assert_eq!(granted.verdict(), RetryVerdict::Granted);
    let before_milli = REQUESTS * DEPOSIT_MILLI;
    assert_eq!(granted.balance_milli, before_milli - COST_MILLI);

    let refund = RefundRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: DEPENDENCY.to_owned(),
        token: granted.token,
        node: granted.node,
    };
    for expected in [Disposition::Refunded, Disposition::AlreadyRefunded] {
        let answer = retries.refund_retry_token(refund.clone()).await.unwrap().into_inner();
        assert_eq!(answer.disposition(), expected);
        assert_eq!(budget.look().await.balance_milli, before_milli);
    }
    budget.node.assert_calm();
}
