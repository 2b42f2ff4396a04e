//! Many questions in one call.

use semel_proto::v1;
use v1::acquire_retry_token_result::Result as Item;

use crate::support::*;
use crate::words::*;

fn all(requests: Vec<v1::AcquireRetryTokenRequest>) -> v1::AcquireRetryTokensRequest {
    v1::AcquireRetryTokensRequest { requests }
}

#[tokio::test]
async fn one_malformed_question_spoils_the_others_or_their_order() {
    let node = TestNode::under(bare()).await;
    let requests = vec![
        ask("a").with(deposits(1, 1, 20)),
        ask(""),
        ask("b"),
        ask("a"),
        ask("c"),
        ask("d").failed(FailureKind::Rejected),
    ];
    let reply = node.retries.acquire_all(all(requests)).await.expect("answered");
    let results: Vec<_> = reply
        .results
        .into_iter()
        .map(|item| match item.result.expect("a result") {
            Item::Response(reply) => Ok((reply.verdict(), reply.repeated, reply.balance_milli)),
            Item::Error(error) => Err(Box::new(Refused::of_item(&error))),
        })
        .collect();
    let refused = results[1].as_ref().expect_err("malformed");
    assert_eq!(refused.named(), ("REQUEST_ID_INVALID", Some("requests[1].request_id")));
    for (at, expected) in [
        (0, (Verdict::Granted, false, 1_000)),
        (2, (Verdict::Granted, false, 0)),
        (3, (Verdict::Granted, true, 0)),
        (4, (Verdict::BudgetExhausted, false, 0)),
        (5, (Verdict::NotRetryable, false, 0)),
    ] {
        assert_eq!(results[at].as_ref(), Ok(&expected), "{at}");
    }
}

#[tokio::test]
async fn a_batch_of_none_or_of_too_many_is_taken() {
    let node = TestNode::start().await;
    for count in [0, 1_001] {
        let refused =
            node.retries.acquire_all(all(vec![ask("a"); count])).await.expect_err("refused");
        assert_eq!(refused.named(), ("BATCH_INVALID", Some("requests")));
        let reports = vec![report(deposits(1, 1, 1)).reports[0].clone(); count];
        let request = v1::ReportRequestsRequest { tenant: "acme".to_owned(), reports };
        let refused = node.retries.report(request).await.expect_err("refused");
        assert_eq!(refused.named(), ("BATCH_INVALID", Some("reports")));
    }
    let reply = node.retries.acquire_all(all(vec![ask("a"); 1_000])).await.expect("answered");
    assert_eq!(reply.results.len(), 1_000);
}
