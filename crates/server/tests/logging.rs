//! What a node writes to its log: the acts of operators, and never a body. In a program of its own,
//! since a process has one log.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use semel_proto::v1;
use semel_proto::v1::reconcile_key_request::Resolution;
use semel_store::memory::Fault;
use support::*;
use tracing_subscriber::fmt::MakeWriter;

/// All that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_body_is_found_in_the_log_or_an_act_of_an_operator_is_not() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("the only one");

    let node = TestNode::with(|options| options.keys.grant_bodies = true).await;
    let secret = |text: &str| format!("SECRET-{text}").repeat(300);
    let (request, stuck) = (claim("done"), claim("stuck"));
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let saved = v1::RenewKeyRequest {
        checkpoint: Some(secret("CHECKPOINT").into()),
        ..renew(&request, fence, 1)
    };
    node.keys.renew(saved).await.expect("renewed");
    node.store.faults().script([Fault::Unavailable, Fault::Unknown { committed: true }]);
    let done = succeed(&request, fence, secret("BODY"));
    node.keys.complete(done.clone()).await.expect_err("unavailable");
    node.keys.complete(done).await.expect("completed");
    node.keys.complete(succeed(&request, fence, secret("OTHER"))).await.expect_err("conflict");
    node.keys.claim(request.clone().owner(2)).await.expect("answered");
    node.keys.replay(replay(&request)).await.expect("answered");
    let look = v1::GetKeyRequest { include_body: true, ..get(&request) };
    node.keys.get(look).await.expect("shown");

    let fence = node.keys.claim(stuck.clone()).await.expect("granted").fence;
    let unknown = complete(&stuck, fence, v1::Outcome::Indeterminate);
    node.keys.complete(unknown).await.expect("declared");
    node.keys.list(list()).await.expect("listed");
    node.keys.list_stuck(list_stuck()).await.expect("listed");
    let settled = v1::ReconcileKeyRequest {
        response: Some(response(secret("SETTLED"))),
        ..reconcile(&stuck, fence, Resolution::Succeeded)
    };
    node.keys.reconcile(settled).await.expect("settled");
    let refused = reconcile(&stuck, fence, Resolution::FailedFinal);
    node.keys.reconcile(refused).await.expect_err("the first stands");
    node.keys.forget(forget(&request)).await.expect("erased");
    node.shutdown().await;

    let log = String::from_utf8(log.0.lock().expect("unpoisoned").clone()).expect("text");
    assert!(log.contains("TRACE"), "all that can be logged is");
    if let Some(place) = log.find("SECRET") {
        panic!("{}", log.get(place.saturating_sub(300)..place + 20).unwrap_or_default());
    }
    let audited: Vec<&str> = log.lines().filter(|line| line.contains("semel::audit")).collect();
    let expected: [&[&str]; 6] = [
        &["action=\"get\"", "tenant=acme", "operation=payments.charge", "key=done", "body=true"],
        &["action=\"list\"", "tenant=acme"],
        &["action=\"list-stuck\"", "tenant=acme"],
        &["action=\"reconcile\"", "key=stuck", "actor=olga", "resolution=\"SUCCEEDED\""],
        &["action=\"reconcile\"", "key=stuck", "refused=\"COMPLETION_CONFLICT\""],
        &["action=\"forget\"", "key=done", "actor=olga", "reason=asked for by the customer"],
    ];
    assert_eq!(audited.len(), expected.len(), "{audited:#?}");
    for (line, words) in audited.iter().zip(expected) {
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
}
