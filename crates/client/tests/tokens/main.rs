//! The client against a server in the same process: leases, lost answers, threads, and the end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod node;

use std::time::Duration;

use semel_client::NotFollowed;
use semel_client::tokens::{Denied, RetryTokenSettings, RetryTokens};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::node::{Node, channel};

fn tokens(channel: Channel, at_hand: u32) -> RetryTokens {
    let mut settings = RetryTokenSettings::default();
    (settings.at_hand, settings.budgets_max) = (at_hand, 2);
    RetryTokens::new(channel, [9; 16], settings)
}

/// Drives the client while `work` is done, closes it, and waits for its end.
async fn driven<T>(tokens: &RetryTokens, work: impl Future<Output = T>) -> T {
    let closing = CancellationToken::new();
    let work = async {
        let done = work.await;
        closing.cancel();
        done
    };
    let both = async { tokio::join!(work, tokens.run(closing.cancelled())) };
    timeout(Duration::from_secs(20), both).await.expect("the client hangs").0
}

#[tokio::test]
async fn what_was_leased_is_spent_or_given_back() {
    let (node, channel, _serving) = Node::start().await;
    let tokens = tokens(channel, 50);
    let budget = tokens.budget("acme", "stripe").unwrap();
    let spent = driven(&tokens, async {
        (0..3).for_each(|_| budget.first_attempt());
        node.was_asked(1).await;
        let mut spent = 0;
        while spent < 30 {
            spent += u64::from(budget.try_spend().is_ok());
            tokio::task::yield_now().await;
        }
        spent
    })
    .await;
    let book = node.book.lock().unwrap();
    assert_eq!(book.granted, spent + book.returned);
    assert_eq!(book.attempts, 3);
    assert_eq!(budget.try_spend(), Err(Denied::Closed));
    assert_eq!(budget.in_hand(), 0);
}

#[tokio::test]
async fn a_lost_answer_doubles_neither_attempts_nor_tokens() {
    let (node, channel, _serving) = Node::start_with_leases_of(4).await;
    let tokens = tokens(channel, 20);
    let budget = tokens.budget("acme", "stripe").unwrap();
    driven(&tokens, async {
        budget.first_attempt();
        node.was_asked(1).await;
        node.book.lock().unwrap().answers_to_lose = 1;
        budget.first_attempt();
        node.was_asked(3).await;
    })
    .await;
    let book = node.book.lock().unwrap();
    assert_eq!(book.requests[1], book.requests[2]);
    assert_eq!(book.requests[1].seq, 2);
    assert_eq!(book.attempts, 2);
    assert_eq!(book.granted, book.returned);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_spend_no_more_than_was_granted() {
    let (node, channel, _serving) = Node::start().await;
    let tokens = tokens(channel, 1_000);
    // A thread that spins on would keep a test from failing.
    let over = CancellationToken::new();
    let _over = over.clone().drop_guard();
    let spender = |tokens: RetryTokens| {
        let over = over.clone();
        move || {
            let mut spent = 0_u64;
            while spent < 20_000 && !over.is_cancelled() {
                match tokens.budget("acme", "stripe").unwrap().try_spend() {
                    Ok(()) => spent += 1,
                    // Only then: on a busy machine each costs a turn of everybody else.
                    Err(_) => std::thread::yield_now(),
                }
            }
            spent
        }
    };
    let spent = driven(&tokens, async {
        tokens.budget("acme", "stripe").unwrap().first_attempt();
        let mut threads = tokio::task::JoinSet::new();
        for _ in 0..2 {
            threads.spawn_blocking(spender(tokens.clone()));
        }
        threads.join_all().await.into_iter().sum::<u64>()
    })
    .await;
    let book = node.book.lock().unwrap();
    assert_eq!(book.granted, spent + book.returned);
    let numbers: Vec<u64> = book.requests.iter().map(|request| request.seq).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[tokio::test]
async fn under_steady_demand_tokens_never_run_out() {
    let (node, channel, _serving) = Node::start().await;
    let tokens = tokens(channel, 10);
    let budget = tokens.budget("acme", "stripe").unwrap();
    let denied = driven(&tokens, async {
        budget.first_attempt();
        node.was_asked(1).await;
        let mut beat = tokio::time::interval(Duration::from_millis(10));
        beat.tick().await;
        let mut denied = 0;
        // Over two leases and more, at 100 tokens a second.
        for _ in 0..250 {
            beat.tick().await;
            denied += u32::from(budget.try_spend().is_err());
        }
        denied
    })
    .await;
    assert_eq!(denied, 0);
    let book = node.book.lock().unwrap();
    assert!(book.requests.len() < 20, "{} calls", book.requests.len());
}

#[tokio::test]
async fn without_a_node_every_retry_is_denied_and_closing_is_prompt() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tokens = tokens(channel(free), 10);
    let budget = tokens.budget("acme", "stripe").unwrap();
    let denied = driven(&tokens, async {
        budget.first_attempt();
        let denied = budget.try_spend();
        tokio::task::yield_now().await;
        denied
    });
    assert_eq!(timeout(Duration::from_secs(2), denied).await, Ok(Err(Denied::NotLeased)));
}

#[tokio::test]
async fn a_node_that_never_answers_holds_up_nothing() {
    // Accepts connections by its backlog, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tokens = tokens(channel(silent.local_addr().unwrap()), 10);
    let budget = tokens.budget("acme", "stripe").unwrap();
    budget.first_attempt();
    let run = tokens.run(tokio::time::sleep(Duration::from_millis(50)));
    timeout(Duration::from_secs(3), run).await.expect("closing hangs");
    assert_eq!(budget.try_spend(), Err(Denied::Closed));
}

#[tokio::test]
async fn budgets_are_bounded_and_told_apart() {
    let (_node, channel, _serving) = Node::start().await;
    let tokens = tokens(channel, 1);
    tokens.budget("a", "bc").unwrap();
    tokens.budget("ab", "c").unwrap();
    tokens.budget("a", "bc").expect("it is known");
    let refused = tokens.budget("a", "b").unwrap_err();
    assert!(matches!(refused, NotFollowed::Limit { what: "budgets", limit: 2, .. }));
}

#[tokio::test]
async fn a_malformed_name_is_refused_and_takes_no_place() {
    let (_node, channel, _serving) = Node::start().await;
    let tokens = tokens(channel, 1);
    for (tenant, dependency, at_fault) in
        [("acme", "my api", "dependency"), ("acme", "", "dependency"), ("ä", "stripe", "tenant")]
    {
        let refused = tokens.budget(tenant, dependency).unwrap_err();
        assert!(matches!(refused, NotFollowed::Name { what, .. } if what == at_fault));
    }
    tokens.budget("a", "one").unwrap();
    tokens.budget("a", "two").unwrap();
}
