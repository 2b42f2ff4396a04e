//! Bugs that are planted to see whether they are caught. None of them is in the code of a node: each
//! lies between a node and its callers, or between a node and its store.

use bytes::Bytes;
use semel_proto::v1;

use crate::log::Promise;
use crate::store::Amnesia;

/// One update in so many is lost, where updates are lost.
const LOST_EVERY: u64 = 3;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The store forgets that a slice was debited, and it is granted to the next node as well.
    SliceGrantedTwice,
    /// The store forgets the permit that is under way, and there is no lease to keep the next one back.
    PermitWithoutLease,
    /// A report of an earlier generation arrives as one of the newest.
    LateReportAccepted,
    /// A report of first attempts counts as another when it comes again.
    DepositCountedTwice,
}

impl Plant {
    /// Every planted bug.
    pub const ALL: [Self; 4] = [
        Self::SliceGrantedTwice,
        Self::PermitWithoutLease,
        Self::LateReportAccepted,
        Self::DepositCountedTwice,
    ];

    /// The promise that it breaks.
    #[must_use]
    pub const fn breaks(self) -> Promise {
        match self {
            Self::SliceGrantedTwice => Promise::RetryBound,
            Self::PermitWithoutLease => Promise::OneProbe,
            Self::LateReportAccepted => Promise::OutcomesOfThisGeneration,
            Self::DepositCountedTwice => Promise::DepositOnce,
        }
    }

    /// What the store forgets.
    pub(crate) fn amnesia(plant: Option<Self>) -> Option<Amnesia> {
        let prey = match plant? {
            Self::SliceGrantedTwice => |key: &[u8]| key.starts_with(b"b"),
            Self::PermitWithoutLease => |key: &[u8]| key.starts_with(b"c"),
            Self::LateReportAccepted | Self::DepositCountedTwice => return None,
        };
        Some(Amnesia::new(prey, LOST_EVERY))
    }

    /// The report once more, as if it were another reporter's.
    pub(crate) fn count_again(
        plant: Option<Self>,
        report: &v1::ReportRequestsRequest,
    ) -> Option<v1::ReportRequestsRequest> {
        if plant != Some(Self::DepositCountedTwice) {
            return None;
        }
        let mut again = report.clone();
        for deposits in again.reports.iter_mut().filter_map(|report| report.deposits.as_mut()) {
            let reporter = deposits.reporter.iter().map(|byte| !byte);
            deposits.reporter = reporter.collect::<Bytes>();
        }
        Some(again)
    }

    /// Takes a report for one of `newest`.
    pub(crate) fn rejuvenate(
        plant: Option<Self>,
        report: &mut v1::ReportOutcomesRequest,
        newest: u64,
    ) {
        if plant == Some(Self::LateReportAccepted) {
            for outcomes in &mut report.outcomes {
                outcomes.generation = outcomes.generation.max(newest);
            }
        }
    }
}
