//! What is shared among threads, and what tasks may drive.

use crate::breakers::{Breaker, BreakerSettings, Breakers, Ticket};
use crate::connection::{StickyChannel, Tls};
use crate::consumer::Consumer;
use crate::layers::{Grpc, Http, Retries, Stack, Stacked};
use crate::once::{Held, Once};
use crate::recovery::Recovery;
use crate::tokens::{Budget, RetryTokenSettings, RetryTokens};
use crate::{Client, Deadline, Dice, Error, Metrics, Root};

fn shared<T: Send + Sync + std::fmt::Debug + 'static>() {}
fn sent<T: Send>(_: &T) {}

#[tokio::test]
async fn the_main_types_are_for_all_threads_and_their_futures_for_tasks() {
    shared::<(Client, StickyChannel, Error, Deadline, Dice, Metrics, Root)>();
    shared::<(Tls, Once, Held, Consumer, Recovery)>();
    shared::<(RetryTokens, Budget, Breakers, Breaker, Ticket, Retries)>();
    shared::<(Stack<Http>, Stack<Grpc>, Stacked<StickyChannel, Http>)>();
    let semel = Client::connect("acme", ["http://127.0.0.1:1"]).unwrap();
    let tokens = semel.retry_tokens(RetryTokenSettings::default());
    sent(&tokens.run(std::future::pending()));
    let breakers = semel.breakers(BreakerSettings::default());
    sent(&breakers.run(std::future::pending()));
    sent(&breakers.breaker("stripe").unwrap().enter());
}
