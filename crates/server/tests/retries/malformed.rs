//! What is malformed is refused by the name of its field, and nothing is counted or charged.

use bytes::Bytes;
use prost_types::Duration as WireDuration;
use semel_proto::v1;

use crate::support::*;
use crate::words::*;

type Spoil<R> = fn(&mut R);

const BELOW_ZERO: Option<WireDuration> = Some(WireDuration { seconds: 0, nanos: -1 });
const TOO_NANO: Option<WireDuration> = Some(WireDuration { seconds: 0, nanos: 1_000_000_000 });

fn failure(request: &mut v1::AcquireRetryTokenRequest) -> &mut v1::Failure {
    request.failure.get_or_insert_default()
}

fn reported(request: &mut v1::AcquireRetryTokenRequest) -> &mut v1::Deposits {
    request.deposits.get_or_insert_with(|| deposits(1, 1, 10))
}

fn root(request: &mut v1::AcquireRetryTokenRequest) -> &mut v1::RootRequest {
    let id = Bytes::from_static(b"root");
    request.root.get_or_insert_with(|| v1::RootRequest { id, attempt: 1, retries: None })
}

#[rustfmt::skip]
#[tokio::test]
async fn a_malformed_question_is_answered() {
    let node = TestNode::start().await;
    let table: [(&str, &str, Spoil<v1::AcquireRetryTokenRequest>); 32] = [
        ("TENANT_INVALID",     "tenant",                |ask| ask.tenant.clear()),
        ("TENANT_INVALID",     "tenant",                |ask| ask.tenant = "a".repeat(129)),
        ("DEPENDENCY_INVALID", "dependency",            |ask| ask.dependency.clear()),
        ("DEPENDENCY_INVALID", "dependency",            |ask| ask.dependency = "a b".to_owned()),
        ("REQUEST_ID_INVALID", "request_id",            |ask| ask.request_id = Bytes::new()),
        ("REQUEST_ID_INVALID", "request_id",            |ask| ask.request_id = vec![1; 65].into()),
        ("ATTEMPT_INVALID",    "attempt",               |ask| ask.attempt = 0),
        ("FAILURE_INVALID",    "failure",               |ask| ask.failure = None),
        ("FAILURE_INVALID",    "failure.kind",          |ask| failure(ask).kind = 0),
        ("ENUM_INVALID",       "failure.kind",          |ask| failure(ask).kind = 8),
        ("FAILURE_INVALID",    "failure.server_delay",  |ask| failure(ask).server_delay = Some(milliseconds(3_600_001))),
        ("DURATION_INVALID",   "failure.server_delay",  |ask| failure(ask).server_delay = BELOW_ZERO),
        ("DURATION_INVALID",   "remaining",             |ask| ask.remaining = BELOW_ZERO),
        ("DURATION_INVALID",   "remaining",             |ask| ask.remaining = TOO_NANO),
        ("DURATION_INVALID",   "expected_attempt_time", |ask| ask.expected_attempt_time = BELOW_ZERO),
        ("LAYER_INVALID",      "layer",                 |ask| ask.layer = "a".repeat(129)),
        ("LAYER_INVALID",      "layer",                 |ask| ask.layer = "ä".to_owned()),
        ("ENUM_INVALID",       "kind",                  |ask| ask.kind = 3),
        ("ENUM_INVALID",       "criticality",           |ask| ask.criticality = 4),
        ("ROOT_INVALID",       "root.id",               |ask| root(ask).id = Bytes::new()),
        ("ROOT_INVALID",       "root.id",               |ask| root(ask).id = vec![1; 65].into()),
        ("ROOT_INVALID",       "root.attempt",          |ask| root(ask).attempt = 0),
        ("REPORTER_INVALID",   "deposits.reporter",     |ask| reported(ask).reporter = Bytes::new()),
        ("REPORTER_INVALID",   "deposits.reporter",     |ask| reported(ask).reporter = vec![1; 17].into()),
        ("COUNT_INVALID",      "deposits.seq",          |ask| reported(ask).seq = 0),
        ("COUNT_INVALID",      "deposits.requests",     |ask| reported(ask).requests = 1_000_000_001),
        ("COUNT_INVALID",      "deposits.requests",     |ask| reported(ask).requests = u64::MAX),
        ("COUNT_INVALID",      "deposits.successes",    |ask| reported(ask).successes = 11),
        ("COUNT_INVALID",      "deposits.spent_milli",  |ask| reported(ask).spent_milli = 1_000_000_001),
        ("NODE_INVALID",       "deposits.node",         |ask| reported(ask).node = vec![1; 15].into()),
        ("NODE_INVALID",       "deposits.node",         |ask| reported(ask).node = vec![1; 17].into()),
        ("ENUM_INVALID",       "kind",                  |ask| ask.kind = -1),
    ];
    for (reason, field, spoil) in table {
        let mut request = ask("r").with(deposits(1, 1, 10));
        spoil(&mut request);
        let refused = node.retries.acquire(request).await.expect_err(field);
        assert_eq!(refused.named(), (reason, Some(field)), "{}", refused.message);
    }
    let here = node.budget().await.node.expect("a node");
    assert_eq!((here.requests, here.granted, here.denials.len()), (0, 0, 0), "nothing was counted");
    let reply = node.ask(ask("r").with(deposits(1, 1, 10))).await;
    assert_eq!((reply.verdict(), reply.deposits_counted), (Verdict::Granted, true));
}

#[rustfmt::skip]
#[tokio::test]
async fn a_malformed_lease_or_refund_is_answered() {
    let node = TestNode::start().await;
    let table: [(&str, &str, Spoil<v1::LeaseRetryTokensRequest>); 7] = [
        ("TENANT_INVALID",     "tenant",       |lease| lease.tenant.clear()),
        ("DEPENDENCY_INVALID", "dependency",   |lease| lease.dependency.clear()),
        ("REPORTER_INVALID",   "lessee",       |lease| lease.lessee = Bytes::new()),
        ("REPORTER_INVALID",   "lessee",       |lease| lease.lessee = vec![1; 17].into()),
        ("COUNT_INVALID",      "seq",          |lease| lease.seq = 0),
        ("COUNT_INVALID",      "want",         |lease| lease.want = 100_001),
        ("COUNT_INVALID",      "deposits.seq", |lease| lease.deposits = Some(deposits(1, 0, 1))),
    ];
    for (reason, field, spoil) in table {
        let mut request = lease(7, 1, 1);
        spoil(&mut request);
        let refused = node.retries.lease(request).await.expect_err(field);
        assert_eq!(refused.named(), (reason, Some(field)), "{}", refused.message);
    }
    let granted = node.ask(ask("r")).await;
    let table: [(&str, &str, Spoil<v1::RefundRetryTokenRequest>); 6] = [
        ("TENANT_INVALID",     "tenant",     |refund| refund.tenant.clear()),
        ("DEPENDENCY_INVALID", "dependency", |refund| refund.dependency.clear()),
        ("TOKEN_INVALID",      "token",      |refund| refund.token = Bytes::new()),
        ("TOKEN_INVALID",      "token",      |refund| refund.token = vec![1; 17].into()),
        ("NODE_INVALID",       "node",       |refund| refund.node = Bytes::new()),
        ("NODE_INVALID",       "node",       |refund| refund.node = vec![1; 15].into()),
    ];
    for (reason, field, spoil) in table {
        let mut request = refund(&granted);
        spoil(&mut request);
        let refused = node.retries.refund(request).await.expect_err(field);
        assert_eq!(refused.named(), (reason, Some(field)), "{}", refused.message);
    }
}

#[rustfmt::skip]
#[tokio::test]
async fn a_malformed_report_is_counted() {
    let node = TestNode::start().await;
    let table: [(&str, &str, Spoil<v1::ReportRequestsRequest>); 5] = [
        ("TENANT_INVALID",     "tenant",                |report| report.tenant.clear()),
        ("DEPENDENCY_INVALID", "reports[0].dependency", |report| report.reports[0].dependency.clear()),
        ("COUNT_INVALID",      "reports[0].deposits",   |report| report.reports[0].deposits = None),
        ("COUNT_INVALID",      "reports[0].deposits.seq", |report| report.reports[0].deposits = Some(deposits(1, 0, 1))),
        ("REPORTER_INVALID",   "reports[0].deposits.reporter", |report| report.reports[0].deposits = Some(v1::Deposits { reporter: Bytes::new(), ..deposits(1, 1, 1) })),
    ];
    for (reason, field, spoil) in table {
        let mut request = report(deposits(1, 1, 10));
        spoil(&mut request);
        let refused = node.retries.report(request).await.expect_err(field);
        let named = refused.named();
        assert!(named.0 == reason && (named.1 == Some(field) || reason == "TENANT_INVALID"), "{named:?}");
    }
    let here = node.budget().await.node.expect("a node");
    assert_eq!(here.requests, 0);
}
