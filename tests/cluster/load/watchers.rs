//! Clients that watch breakers, each by one node, and watch again when their stream ends.

use std::time::Duration;

use semel_proto::v1::{BreakerSnapshot, WatchBreakersRequest, WatchBreakersResponse};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::breakers::BREAKERS;
use super::{Caller, DEADLINE, refusal};
use crate::call::{is_unknown, now_us, timed};
use crate::checker::breakers::{Told, Watch};
use crate::support::ask::TENANT;

/// A client that watches.
#[derive(Debug)]
pub(crate) struct Watcher {
    caller: Caller,
    node: usize,
}

impl Watcher {
    pub(crate) fn new(caller: Caller, node: usize) -> Self {
        Self { caller, node }
    }

    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.open().await {
                Ok(changes) => self.watch(changes, &stop).await,
                Err(status) => self.note_end(&status),
            }
            self.caller.pause(Duration::from_millis(200)).await;
        }
    }

    async fn open(&self) -> Result<Streaming<WatchBreakersResponse>, Status> {
        let request = WatchBreakersRequest {
            tenant: TENANT.to_owned(),
            dependencies: BREAKERS.map(str::to_owned).to_vec(),
        };
        let mut breakers = self.caller.nodes[self.node].breakers.clone();
        // The stream has no deadline, only its beginning has.
        let timed = timed(DEADLINE, breakers.watch_breakers(request)).await;
        self.caller.records.count(&timed);
        timed.result
    }

    /// Records what it is told until the stream ends.
    async fn watch(&self, mut changes: Streaming<WatchBreakersResponse>, stop: &CancellationToken) {
        let records = &self.caller.records;
        let places = BREAKERS.map(|dependency| {
            let mut place = 0;
            records.breaker(dependency, |history| {
                place = history.watches.len();
                history.watches.push(Watch::of(&self.node.to_string()));
            });
            (dependency, place)
        });
        let ended = loop {
            let change = tokio::select! {
                change = changes.message() => change,
                () = stop.cancelled() => break None,
            };
            match change {
                Ok(Some(WatchBreakersResponse { breaker: Some(breaker), degraded: false })) => {
                    self.told(&places, &breaker);
                }
                // The last that the node knew is nothing new.
                Ok(Some(_)) => {}
                Ok(None) => break Some(Status::unavailable("it ended")),
                Err(status) => break Some(status),
            }
        };
        if let Some(status) = ended {
            for (dependency, place) in places {
                records.breaker(dependency, |history| history.watches[place].open = false);
            }
            self.note_end(&status);
        }
    }

    fn told(&self, places: &[(&'static str, usize)], breaker: &BreakerSnapshot) {
        let told = Told {
            generation: breaker.generation,
            condition: breaker.condition(),
            at_us: now_us(),
        };
        let place = places.iter().find(|(dependency, _)| *dependency == breaker.dependency);
        let Some((dependency, place)) = place else { panic!("not watched: {breaker:?}") };
        let records = &self.caller.records;
        records.breaker(dependency, |history| history.watches[*place].told.push(told));
    }

    fn note_end(&self, status: &Status) {
        if !is_unknown(status) {
            let refused = refusal(status, &"a watch");
            let records = &self.caller.records;
            records.breaker(BREAKERS[0], |history| history.refused.push(refused));
        }
    }
}
