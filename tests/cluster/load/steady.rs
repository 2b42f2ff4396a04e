//! A client as it should be: when a call ends without an answer, or the node says that it can't, it sends
//! the same again, with the same ids, to the next node.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use semel_proto::v1::claim_key_response::Disposition;
use tonic::{Response, Status};

use crate::call::{Client, is_unknown, now_us, timed, within};
use crate::support::ask::{Owner, claim, complete, reason};

/// How often a call is sent at the most.
const TRIES: usize = 12;

/// A client, and what it met.
#[derive(Debug)]
pub(crate) struct Steady {
    nodes: Vec<Client>,
    /// The node that it asks first.
    at: usize,
    /// How long it waits for one node.
    patience: Duration,
    pub(crate) met: Met,
}

/// What clients met.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Calls that were answered in the end.
    pub(crate) answered: u64,
    /// The longest from the first sending to the answer.
    pub(crate) slowest_us: u64,
    /// Why calls were sent again, and how often.
    pub(crate) repeated: BTreeMap<String, u64>,
    /// Calls that had been carried out when they were sent again: their replies were lost.
    pub(crate) replies_lost: u64,
    /// Calls that failed for good.
    pub(crate) failed: Vec<String>,
}

impl Met {
    pub(crate) fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.slowest_us = self.slowest_us.max(other.slowest_us);
        for (why, count) in other.repeated {
            *self.repeated.entry(why).or_default() += count;
        }
        self.replies_lost += other.replies_lost;
        self.failed.extend(other.failed);
    }
}

impl std::fmt::Display for Met {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} calls answered, {} failed, {} replies lost, the slowest after {} ms; repeated after {:?}",
            self.answered,
            self.failed.len(),
            self.replies_lost,
            self.slowest_us / 1_000,
            self.repeated,
        )
    }
}

impl Steady {
    pub(crate) fn new(nodes: Vec<Client>, at: usize, patience: Duration) -> Self {
        Self { nodes, at, patience, met: Met::default() }
    }

    /// Makes a call until it is answered; `None`, and a note, if it failed.
    pub(crate) async fn call<R, F>(&mut self, make: impl Fn(Client, Duration) -> F) -> Option<R>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let began_us = now_us();
        for _ in 0..TRIES {
            let node = self.nodes[self.at].clone();
            match timed(self.patience, make(node, self.patience)).await.result {
                Ok(reply) => {
                    self.met.answered += 1;
                    self.met.slowest_us = self.met.slowest_us.max(now_us() - began_us);
                    return Some(reply);
                }
                Err(status) if is_unknown(&status) => {
                    let why = match reason(&status) {
                        reason if reason.is_empty() => {
                            format!("{:?}: {}", status.code(), whole(&status))
                        }
                        reason => reason,
                    };
                    *self.met.repeated.entry(why).or_default() += 1;
                    self.at = (self.at + 1) % self.nodes.len();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(status) => {
                    self.met.failed.push(format!("{status:?}"));
                    return None;
                }
            }
        }
        self.met.failed.push(format!("{TRIES} tries within {} ms", (now_us() - began_us) / 1_000));
        None
    }

    /// Claims a key that nobody else wants, and completes it with its own name.
    pub(crate) async fn do_once(&mut self, key: &str, owner: Owner) {
        let request = claim(key, owner);
        let claimed = self
            .call(|mut node, patience| {
                let request = request.clone();
                async move { node.keys.claim_key(within(patience, request)).await }
            })
            .await;
        let Some(claimed) = claimed else { return };
        if claimed.disposition() != Disposition::Claimed {
            self.met.failed.push(format!("{key}: {claimed:?}"));
            return;
        }
        let request = complete(key, owner, claimed.fence, key.as_bytes());
        let completed = self
            .call(|mut node, patience| {
                let request = request.clone();
                async move { node.keys.complete_key(within(patience, request)).await }
            })
            .await;
        let already = completed.is_some_and(|it| it.already_completed);
        self.met.replies_lost += u64::from(claimed.resumed) + u64::from(already);
    }
}

/// An error with all that caused it.
fn whole(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
