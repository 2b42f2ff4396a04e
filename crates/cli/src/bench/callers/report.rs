//! Reports of first attempts and of outcomes, in turn.

use semel_proto::v1::{
    OutcomeCounts, OutcomeReport, ReportOutcomesRequest, ReportOutcomesResponse,
    ReportRequestsRequest, ReportRequestsResponse, RequestReport,
};

use super::spread::Spread;
use super::{REPORT_OUTCOMES, REPORT_REQUESTS, TENANT};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;

/// How many calls to a dependency each report is about.
const CALLS: u64 = 100;

/// Reports first attempts, then outcomes, and so on.
pub(crate) struct ReportBoth {
    spread: Spread,
    outcomes_next: bool,
}

impl ReportBoth {
    /// A caller that reported nothing yet.
    pub(crate) const fn new(spread: Spread) -> Self {
        Self { spread, outcomes_next: false }
    }

    async fn requests(&mut self, stub: &mut Stub) -> Result<(), String> {
        let report = RequestReport {
            dependency: self.spread.dependency(),
            deposits: Some(self.spread.deposits(CALLS)),
        };
        let request = ReportRequestsRequest { tenant: TENANT.to_owned(), reports: vec![report] };
        let reply: ReportRequestsResponse = stub.unary(REPORT_REQUESTS, request).await?;
        judge(reply.receipts.len() == 1 && reply.receipts.iter().all(|receipt| receipt.counted))
    }

    async fn outcomes(&mut self, stub: &mut Stub) -> Result<(), String> {
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
        let reply: ReportOutcomesResponse = stub.unary(REPORT_OUTCOMES, request).await?;
        judge(reply.counted)
    }
}

impl Caller for ReportBoth {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        self.outcomes_next = !self.outcomes_next;
        if self.outcomes_next { self.requests(stub).await } else { self.outcomes(stub).await }
    }
}

fn judge(counted: bool) -> Result<(), String> {
    if counted { Ok(()) } else { Err("a report was not counted".to_owned()) }
}
