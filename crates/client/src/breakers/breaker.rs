//! A breaker as its users hold it: calls are admitted, and their ends are told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::{BreakerStateRequest, ProbeOutcome, ProbeResult};
use tonic::Request;

use super::entry::Entry;
use super::gate::Admission;
use super::window::Outcome;
use crate::clock::Clock;
use crate::layers::Refused;
use crate::wire::{duration, millis};

/// What is said of when to look again if nobody knows.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The breaker of one dependency. Cheap to clone; all clones are the same breaker.
#[derive(Clone)]
pub struct Breaker(pub(super) Arc<Entry>);

/// What may be done at once.
pub(crate) enum Entrance {
    /// The call may be made.
    Open(Ticket),
    /// A node has to be asked first: [`Breaker::probe`].
    Ask(Asking),
    /// It may not.
    Shut(Refused),
}

impl Breaker {
    /// Asks for the right to make a call. Waits for nothing, but when the breaker is to be probed, for a
    /// node's permit. Tell the ticket what became of the call.
    ///
    /// # Errors
    ///
    /// [`Refused::BreakerOpen`]: the dependency is not worth calling, and when to look again.
    pub async fn enter(&self) -> Result<Ticket, Refused> {
        match self.entrance() {
            Entrance::Open(ticket) => Ok(ticket),
            Entrance::Ask(asking) => self.probe(asking).await,
            Entrance::Shut(refused) => Err(refused),
        }
    }

    /// The dependency's name.
    #[must_use]
    pub fn dependency(&self) -> &str {
        &self.0.dependency
    }

    /// Whether calls go through, at least some of them.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Whether this process decides by itself, since no node is in reach.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.is_local()
    }

    pub(crate) fn entrance(&self) -> Entrance {
        match self.0.admit() {
            Admission::Pass(generation) => Entrance::Open(self.ticket(generation, None)),
            Admission::Probe(generation) => {
                Entrance::Open(self.ticket(generation, Some(Probe::Own)))
            }
            Admission::Ask => Entrance::Ask(Asking(Arc::clone(&self.0))),
            Admission::Refuse { retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Entrance::Shut(Refused::BreakerOpen { retry_after })
            }
        }
    }

    /// Asks a node for the permit to probe.
    pub(crate) async fn probe(&self, asking: Asking) -> Result<Ticket, Refused> {
        let shared = &self.0.shared;
        let mut request = Request::new(BreakerStateRequest {
            tenant: shared.tenant.clone(),
            dependency: self.0.dependency.clone(),
            reporter: shared.reporter.clone(),
            want_probe: true,
            probe_id: Bytes::copy_from_slice(&shared.dice.id()),
        });
        request.set_timeout(shared.settings.call_timeout);
        let Ok(reply) = BreakersClient::new(shared.channel.clone()).breaker_state(request).await
        else {
            return Err(Refused::BreakerOpen { retry_after: LOOK_AGAIN });
        };
        let reply = reply.into_inner();
        // The question is answered: what the node says now decides who asks next.
        drop(asking);
        if let Some(told) = &reply.breaker {
            self.0.hear(told);
        }
        if let Some(permit) = reply.permit {
            let probe = Probe::Permitted(permit.id);
            return Ok(self.ticket(permit.generation, Some(probe)));
        }
        match self.0.plain() {
            Some(generation) => Ok(self.ticket(generation, None)),
            None => {
                let told = reply.breaker.and_then(|told| told.look_again);
                let retry_after = told.as_ref().map_or(LOOK_AGAIN, duration);
                Err(Refused::BreakerOpen { retry_after })
            }
        }
    }

    fn ticket(&self, generation: u64, probe: Option<Probe>) -> Ticket {
        let began_us = self.0.shared.clock.monotonic_us();
        Ticket {
            entry: Arc::clone(&self.0),
            generation,
            probe,
            began_us,
            took_us: None,
            is_told: false,
        }
    }

    /// Takes what a node says of a process that alone fails.
    pub(super) fn isolate(&self, isolated_for: Option<&prost_types::Duration>) {
        if let Some(isolated_for) = isolated_for {
            self.0.isolate(millis(duration(isolated_for)));
        }
    }
}

impl std::fmt::Debug for Breaker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Breaker")
            .field("dependency", &self.0.dependency)
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The question for a permit: while it lives, nobody else asks.
pub(crate) struct Asking(Arc<Entry>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.ask_again_later();
    }
}

enum Probe {
    /// No node was in reach to ask.
    Own,
    Permitted(Bytes),
}

/// The right to make one call. Dropped without a word, it says nothing of the dependency.
#[must_use = "a call is made with it, and it is told what became of the call"]
pub struct Ticket {
    entry: Arc<Entry>,
    generation: u64,
    probe: Option<Probe>,
    began_us: u64,
    /// Until the head of the answer came.
    took_us: Option<u64>,
    is_told: bool,
}

impl Ticket {
    /// Tells what became of the call.
    pub fn tell(mut self, outcome: Outcome) {
        self.end(Some(outcome));
    }

    /// Whether this call finds out if the dependency is worth calling again.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// The head of the answer is there: the call took until now, whenever its end is told.
    pub(crate) fn answered(&mut self) {
        self.took_us = Some(self.passed_us());
    }

    fn passed_us(&self) -> u64 {
        self.entry.shared.clock.monotonic_us().saturating_sub(self.began_us)
    }

    fn end(&mut self, outcome: Option<Outcome>) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let Some(probe) = self.probe.take() else {
            let took_us = self.took_us.unwrap_or_else(|| self.passed_us());
            let outcome = outcome.unwrap_or(Outcome::Ignored);
            return self.entry.record(outcome, took_us, self.generation);
        };
        // A rejection proves as well that the dependency lives.
        let succeeded = outcome.map(|outcome| outcome != Outcome::Failed);
        let permit = match probe {
            Probe::Own => None,
            Probe::Permitted(permit) => {
                let outcome = match succeeded {
                    Some(true) => ProbeOutcome::Succeeded,
                    Some(false) => ProbeOutcome::Failed,
                    None => ProbeOutcome::Inconclusive,
                };
                Some(ProbeResult { permit, outcome: outcome.into() })
            }
        };
        self.entry.probed(succeeded, permit);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ticket")
            .field("dependency", &self.entry.dependency)
            .field("generation", &self.generation)
            .field("is_probe", &self.is_probe())
            .finish_non_exhaustive()
    }
}
