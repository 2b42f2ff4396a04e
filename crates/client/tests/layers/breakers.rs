//! The client's breakers against a node: what it says, what it is told, and what happens without it.

use std::time::Duration;

use semel_client::NotFollowed;
use semel_client::breakers::{Breaker, Outcome};
use semel_client::layers::Refused;
use semel_proto::v1::{BreakerCondition, ProbeOutcome};
use tokio::time::sleep;

use crate::node::{Node, seconds};
use crate::support::Client;

const MS: Duration = Duration::from_millis(1);

/// A node, a client of it, and a breaker that the client is to follow.
fn following() -> (Node, Client, Breaker) {
    let (node, channel) = Node::start();
    let client = Client::new(channel);
    let breaker = client.breakers.breaker("stripe").unwrap();
    (node, client, breaker)
}

async fn call(breaker: &Breaker, outcome: Outcome) -> Result<(), Refused> {
    breaker.enter().await.map(|ticket| ticket.tell(outcome))
}

fn opened(node: &Node) {
    node.say(|breaker| {
        breaker.condition = BreakerCondition::Open.into();
        (breaker.generation, breaker.admitted_per_mille) = (1, 0);
        breaker.look_again = seconds(30);
    });
}

#[tokio::test(start_paused = true)]
async fn the_fleets_word_arrives_and_stands() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            assert!(!breaker.is_local());
            opened(&node);
            sleep(MS * 50).await;
            let refused = call(&breaker, Outcome::Succeeded).await;
            let Err(Refused::BreakerOpen { retry_after }) = refused else { panic!("{refused:?}") };
            assert!(retry_after > Duration::from_secs(29), "{retry_after:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_gathered_and_reported_with_their_generation_and_a_number() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            node.say(|breaker| breaker.generation = 5);
            sleep(MS * 50).await;
            for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::Failed, Outcome::Ignored]
            {
                call(&breaker, outcome).await.unwrap();
            }
            sleep(MS * 150).await;
            assert!(node.book(|book| book.reports.is_empty()), "they are gathered");
            sleep(MS * 100).await;
            call(&breaker, Outcome::Succeeded).await.unwrap();
        })
        .await;
    let reports = node.book(|book| book.reports.clone());
    assert_eq!(reports.len(), 2, "the last one is sent at the end");
    let counts = reports[0].outcomes[0].counts.unwrap();
    assert_eq!((counts.succeeded, counts.failed, counts.ignored), (1, 2, 1));
    assert_eq!((reports[0].seq, reports[0].outcomes[0].generation), (1, 5));
    assert_eq!((reports[1].seq, reports[1].node.len()), (2, 16));
}

#[tokio::test(start_paused = true)]
async fn one_call_probes_with_the_nodes_permit_and_its_end_is_told_at_once() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            opened(&node);
            sleep(Duration::from_secs(31)).await;
            node.book(|book| {
                (book.permits, book.breaker.probe_due) = (1, true);
            });
            let (first, second) = tokio::join!(breaker.enter(), breaker.enter());
            let ticket = first.unwrap();
            assert!(ticket.is_probe());
            second.unwrap_err();
            ticket.tell(Outcome::Ignored);
            sleep(MS * 10).await;
            let probes = node.book(|book| book.reports[0].outcomes[0].probes.clone());
            assert_eq!(probes[0].outcome(), ProbeOutcome::Succeeded, "a rejection proves life");
            sleep(MS * 200).await;
            breaker.enter().await.unwrap_err();
            let asked = node.book(|book| book.states.len());
            assert!((2..=3).contains(&asked), "{asked}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_is_told_as_inconclusive() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            opened(&node);
            sleep(Duration::from_secs(31)).await;
            node.book(|book| book.permits = 1);
            drop(breaker.enter().await.unwrap());
            sleep(MS * 10).await;
            let probes = node.book(|book| book.reports[0].outcomes[0].probes.clone());
            assert_eq!(probes[0].outcome(), ProbeOutcome::Inconclusive);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_node_each_process_decides_and_the_fleet_does_again_afterwards() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            node.cut_off().await;
            sleep(MS * 50).await;
            assert!(breaker.is_local());
            for _ in 0..20 {
                call(&breaker, Outcome::Failed).await.unwrap();
            }
            call(&breaker, Outcome::Failed).await.unwrap_err();
            node.serve();
            sleep(Duration::from_secs(5)).await;
            assert!(!breaker.is_local());
            call(&breaker, Outcome::Succeeded).await.unwrap();
        })
        .await;
    let reports = node.book(|book| book.reports.clone());
    assert_eq!(reports.len(), 1, "what came about meanwhile is not of now");
    assert_eq!(reports[0].outcomes[0].counts.unwrap().failed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_alone_fails_holds_back_by_itself() {
    let (node, client, breaker) = following();
    node.book(|book| book.isolated_for = seconds(5));
    client
        .driven(async {
            sleep(MS * 50).await;
            for _ in 0..20 {
                call(&breaker, Outcome::Failed).await.unwrap();
            }
            sleep(MS * 300).await;
            call(&breaker, Outcome::Failed).await.unwrap_err();
            sleep(Duration::from_secs(5)).await;
            call(&breaker, Outcome::Succeeded).await.unwrap();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_place_for_a_watcher_is_asked_for_the_state_until_it_has_one() {
    let (node, client, breaker) = following();
    node.book(|book| book.full_for = Some(Duration::from_secs(1)));
    client
        .driven(async {
            sleep(MS * 50).await;
            assert!(!breaker.is_local(), "a node is in reach");
            opened(&node);
            sleep(MS * 2_050).await;
            assert!(!breaker.is_local());
            call(&breaker, Outcome::Succeeded).await.unwrap_err();
            sleep(MS * 8_000).await;
            let asked = node.book(|book| book.states.len());
            assert!((5..=11).contains(&asked), "{asked} times in ten seconds");
            node.book(|book| book.full_for = None);
            sleep(MS * 2_050).await;
            node.say(|breaker| {
                breaker.condition = BreakerCondition::Closed.into();
                (breaker.generation, breaker.admitted_per_mille) = (2, 1_000);
            });
            sleep(MS * 10).await;
            call(&breaker, Outcome::Succeeded).await.expect("it watches again");
            node.cut_off().await;
            sleep(MS * 50).await;
            assert!(breaker.is_local());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_waits_for_its_answer_holds_up_no_report() {
    let (node, client, breaker) = following();
    node.book(|book| book.state_takes = MS * 450);
    client
        .driven(async {
            sleep(MS * 50).await;
            for _ in 0..20 {
                call(&breaker, Outcome::Failed).await.unwrap();
            }
            sleep(MS * 210).await;
            assert_eq!(node.book(|book| book.reports.len()), 1);
            call(&breaker, Outcome::Failed).await.unwrap();
            sleep(MS * 210).await;
            assert_eq!(node.book(|book| book.reports.len()), 2);
            assert!(node.book(|book| book.states.is_empty()), "the look goes on");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_takes_its_time_holds_up_no_change() {
    let (node, client, breaker) = following();
    node.book(|book| (book.policy_takes, book.breaker.policy_version) = (MS * 450, 1));
    client
        .driven(async {
            sleep(MS * 50).await;
            assert!(!breaker.is_local());
            opened(&node);
            sleep(MS * 50).await;
            call(&breaker, Outcome::Succeeded).await.unwrap_err();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_ended_without_a_node_silences_no_later_report() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            opened(&node);
            sleep(Duration::from_secs(31)).await;
            node.book(|book| book.permits = 1);
            let probe = breaker.enter().await.unwrap();
            node.cut_off().await;
            sleep(MS * 20).await;
            assert!(breaker.is_local());
            probe.tell(Outcome::Succeeded);
            sleep(MS * 10).await;
            node.serve();
            sleep(Duration::from_secs(5)).await;
            node.say(|breaker| {
                breaker.condition = BreakerCondition::Closed.into();
                (breaker.generation, breaker.admitted_per_mille) = (2, 1_000);
            });
            sleep(MS * 10).await;
            assert!(!breaker.is_local());
            call(&breaker, Outcome::Succeeded).await.unwrap();
            sleep(MS * 500).await;
            let reports = node.book(|book| book.reports.clone());
            let told = reports.iter().flat_map(|report| &report.outcomes);
            let counts: Vec<_> = told.filter_map(|outcome| outcome.counts).collect();
            assert_eq!(counts.iter().map(|counts| counts.succeeded).sum::<u64>(), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_while_a_lost_report_goes_out_again_is_reported_after_it() {
    let (node, client, breaker) = following();
    let reported = || {
        let reports = node.book(|book| book.reports.clone());
        let newest = reports.last().unwrap();
        (newest.seq, newest.outcomes[0].counts.unwrap().failed)
    };
    client
        .driven(async {
            sleep(MS * 50).await;
            for (number, lost) in [(1, 0), (2, 1)] {
                node.book(|book| book.reports_lost = lost);
                call(&breaker, Outcome::Failed).await.unwrap();
                sleep(MS * 210).await;
                assert_eq!(reported(), (number, 1));
            }
            call(&breaker, Outcome::Failed).await.unwrap();
            sleep(MS * 210).await;
            assert_eq!(reported(), (2, 1), "the same again");
            sleep(MS * 210).await;
            assert_eq!(reported(), (3, 1));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_older_generation_takes_nothing_from_those_of_the_present_one() {
    let (node, client, breaker) = following();
    client
        .driven(async {
            sleep(MS * 50).await;
            let straggler = breaker.enter().await.unwrap();
            node.say(|breaker| breaker.generation = 1);
            sleep(MS * 50).await;
            call(&breaker, Outcome::Failed).await.unwrap();
            straggler.tell(Outcome::Succeeded);
            sleep(MS * 250).await;
        })
        .await;
    let report = node.book(|book| book.reports[0].outcomes[0].clone());
    assert_eq!((report.generation, report.counts.unwrap().failed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_name_is_refused_here_and_is_not_sent_along_with_the_others() {
    let (node, client, breaker) = following();
    let refused = client.breakers.breaker("my api").unwrap_err();
    assert!(matches!(refused, NotFollowed::Name { what: "dependency", .. }), "{refused}");
    client
        .driven(async {
            sleep(MS * 50).await;
            assert!(!breaker.is_local(), "it is watched");
        })
        .await;
    drop(node);
}
