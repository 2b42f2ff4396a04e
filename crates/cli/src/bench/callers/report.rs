//! Reports of first attempts and of outcomes, in turn.

use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{
    OutcomeCounts, OutcomeReport, ReportOutcomesRequest, ReportRequestsRequest, RequestReport,
};
use tonic::transport::Channel;

use super::spread::Spread;
use super::{TENANT, refused};
use crate::bench::crew::Caller;

/// How many calls to a dependency each report is about.
const CALLS: u64 = 100;

/// Reports first attempts, then outcomes, and so on.
pub(crate) struct ReportBoth {
    retries: RetriesClient<Channel>,
    breakers: BreakersClient<Channel>,
    spread: Spread,
    outcomes_next: bool,
}

impl ReportBoth {
    /// A caller over this connection.
    pub(crate) fn new(channel: Channel, spread: Spread) -> Self {
        Self {
            retries: RetriesClient::new(channel.clone()),
            breakers: BreakersClient::new(channel),
            spread,
            outcomes_next: false,
        }
    }

    async fn requests(&mut self) -> Result<(), String> {
        let report = RequestReport {
            dependency: self.spread.dependency(),
            deposits: Some(self.spread.deposits(CALLS)),
        };
        let request = ReportRequestsRequest { tenant: TENANT.to_owned(), reports: vec![report] };
        let reply = self.retries.report_requests(request).await;
        let reply = reply.map_err(|status| refused(&status))?.into_inner();
        judge(reply.receipts.len() == 1 && reply.receipts.iter().all(|receipt| receipt.counted))
    }

    async fn outcomes(&mut self) -> Result<(), String> {
        let report = OutcomeReport {
            dependency: self.spread.dependency(),
            generation: 0,
            counts: Some(OutcomeCounts { succeeded: CALLS, ..OutcomeCounts::default() }),
            probes: Vec::new(),
        };
        let request = ReportOutcomesRequest {
            tenant: TENANT.to_owned(),
            reporter: self.spread.reporter.clone(),
            seq: self.spread.next_seq(),
            outcomes: vec![report],
            ..ReportOutcomesRequest::default()
        };
        let reply = self.breakers.report_outcomes(request).await;
        judge(reply.map_err(|status| refused(&status))?.get_ref().counted)
    }
}

impl Caller for ReportBoth {
    async fn call(&mut self) -> Result<(), String> {
        self.outcomes_next = !self.outcomes_next;
        if self.outcomes_next { self.requests().await } else { self.outcomes().await }
    }
}

fn judge(counted: bool) -> Result<(), String> {
    if counted { Ok(()) } else { Err("a report was not counted".to_owned()) }
}
