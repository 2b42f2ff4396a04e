//! Reports: each counts once, at one node, under its own generation.

use semel_proto::v1;
use tokio_stream::StreamExt;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn a_repeated_report_counts_twice() {
    let fleet = Fleet::start(2).await;
    let client = &fleet.clients[0];
    let node = client.report(report(1, 5, 0, counts(3, 0))).await.expect("reported").node;
    for (seq, counted) in [(5, true), (4, false), (5, true)] {
        let again = client.report(report(1, seq, 0, counts(3, 0))).await.expect("reported");
        assert_eq!(again.counted, counted);
        assert_eq!(again.node, node);
    }
    // Sent to another node since the first gave no answer: it names the first.
    let elsewhere = v1::ReportOutcomesRequest { node, ..report(1, 5, 0, counts(3, 0)) };
    assert!(!fleet.clients[1].report(elsewhere).await.expect("reported").counted);
    assert!(client.report(report(2, 1, 0, counts(10, 0))).await.expect("reported").counted);
    let seen = fleet.until_counts(|breaker| calls(breaker) >= 13).await;
    assert_eq!((calls(&seen), seen.reporters), (13, 2));
}

#[tokio::test]
async fn a_lost_answer_of_the_store_counts_outcomes_twice() {
    use semel_store::memory::Fault;
    let fleet = Fleet::start(1).await;
    fleet.clients[0].now().await;
    let store = &fleet.nodes[0].store;
    store.faults().script(vec![Fault::Unknown { committed: true }; 3]);
    fleet.clients[0].report(report(1, 1, 0, counts(2, 0))).await.expect("reported");
    fleet.until_counts(|breaker| calls(breaker) > 0).await;
    fleet.clients[0].report(report(1, 2, 0, counts(1, 0))).await.expect("reported");
    let seen = fleet.until_counts(|breaker| calls(breaker) != 2).await;
    assert_eq!(calls(&seen), 3);
}

#[tokio::test]
async fn a_report_of_an_older_generation_opens_it_again() {
    let fleet = Fleet::start(1).await;
    let client = &fleet.clients[0];
    fleet.open().await;
    client.force(force(Force::Reset, None)).await.expect("reset");
    assert_eq!(client.now().await.generation, 2);
    for generation in [0, 1] {
        let late = report(3, generation + 1, generation, counts(0, 1_000));
        assert!(client.report(late).await.expect("reported").counted);
    }
    client.report(report(3, 9, 2, counts(5, 0))).await.expect("reported");
    let seen = fleet.until_counts(|breaker| calls(breaker) > 0).await;
    assert_eq!((seen.condition(), seen.generation, calls(&seen)), (Condition::Closed, 2, 5));
}

/// Fault 11: 400s and cancellations open the breaker.
#[tokio::test]
async fn the_callers_own_mistakes_open_it() {
    let fleet = Fleet::start(1).await;
    let ignored = v1::OutcomeCounts { ignored: 10_000, succeeded: 1, ..Default::default() };
    for reporter in [1, 2] {
        fleet.clients[0].report(report(reporter, 1, 0, ignored)).await.expect("reported");
    }
    let seen = fleet.until_counts(|breaker| calls(breaker) == 2).await;
    assert_eq!((seen.condition(), seen.generation), (Condition::Closed, 0));
    assert_eq!(seen.counts.expect("counts").ignored, 20_000);
}

#[tokio::test]
async fn one_sick_reporter_opens_it_for_the_fleet() {
    let fleet = Fleet::start(2).await;
    fleet.clients[1].report(report(2, 1, 0, counts(40, 0))).await.expect("reported");
    fleet.until_counts(|breaker| calls(breaker) == 40).await;
    fleet.clients[0].report(report(1, 1, 0, counts(0, 1_000))).await.expect("reported");
    for client in &fleet.clients {
        let mut sick = client.state(ask_as(1)).await.expect("answered");
        while sick.isolated_for.is_none() {
            let node = &fleet.nodes[0];
            let used = node.store.seen().ended;
            node.store.until(|seen| seen.ended > used).await;
            sick = client.state(ask_as(1)).await.expect("answered");
        }
        let well = client.state(ask_as(2)).await.expect("answered");
        assert_eq!(well.isolated_for, None);
        let breaker = well.breaker.expect("a breaker");
        assert_eq!((breaker.condition(), breaker.generation), (Condition::Closed, 0));
    }
}

#[tokio::test]
async fn a_stream_of_reports_answers_out_of_order_or_not_each() {
    let fleet = Fleet::start(1).await;
    let mut reports: Vec<_> = (1..=50).map(|seq| report(1, seq, 0, counts(1, 0))).collect();
    reports.push(report(1, 7, 0, counts(1, 0)));
    let replies = fleet.clients[0]
        .0
        .clone()
        .stream_outcomes(tokio_stream::iter(reports))
        .await
        .expect("streams");
    let replies: Vec<_> = within(replies.into_inner().collect::<Vec<_>>()).await;
    let counted: Vec<_> =
        replies.into_iter().map(|reply| reply.expect("answered").counted).collect();
    assert_eq!(counted.len(), 51);
    assert_eq!(counted.iter().filter(|&&counted| !counted).count(), 1);
    assert!(!counted[50], "the late one is the last");
    fleet.until_counts(|breaker| calls(breaker) == 50).await;
}
