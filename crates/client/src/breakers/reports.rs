//! Which report is sent next, and what to make of its answer. Pure: it sends nothing.
//!
//! A report that got no answer is sent again under the same number, to the same node only; until then
//! outcomes gather for the next. One that is not answered for long is given up: it would tell of a time that
//! nobody asks about any more.

use bytes::Bytes;
use semel_proto::v1::{OutcomeReport, ReportOutcomesRequest};

/// So many times the same report is sent.
const TRIES_MAX: u32 = 5;
/// After so many lost reports in a row no node is in reach.
const LOST_MAX: u32 = 3;

/// The reports of one client.
pub(super) struct Reports {
    tenant: String,
    reporter: Bytes,
    seq: u64,
    node: Bytes,
    pending: Option<ReportOutcomesRequest>,
    tries: u32,
    lost: u32,
    is_refused: bool,
}

impl Reports {
    pub(super) const fn new(tenant: String, reporter: Bytes) -> Self {
        Self {
            tenant,
            reporter,
            seq: 0,
            node: Bytes::new(),
            pending: None,
            tries: 0,
            lost: 0,
            is_refused: false,
        }
    }

    /// The report to send: the one that was not answered, or one of what `gather` gives.
    pub(super) fn next(
        &mut self,
        gather: impl FnOnce() -> Vec<OutcomeReport>,
    ) -> Option<ReportOutcomesRequest> {
        if self.pending.is_none() {
            let outcomes = gather();
            if outcomes.is_empty() {
                return None;
            }
            self.seq += 1;
            self.tries = 0;
            let (tenant, reporter, node) =
                (self.tenant.clone(), self.reporter.clone(), self.node.clone());
            let seq = self.seq;
            self.pending = Some(ReportOutcomesRequest { tenant, reporter, seq, node, outcomes });
        }
        self.tries += 1;
        self.pending.clone()
    }

    /// The node answered, and named itself. Whether it is another than the one before.
    pub(super) fn answered(&mut self, node: Bytes) -> bool {
        self.pending = None;
        self.lost = 0;
        self.is_refused = false;
        let before = std::mem::replace(&mut self.node, node);
        !before.is_empty() && before != self.node
    }

    /// There was no answer.
    pub(super) fn failed(&mut self) {
        self.lost = self.lost.saturating_add(1);
        // Nobody knows which node it reached: sent again it could count twice.
        if self.node.is_empty() || self.tries >= TRIES_MAX {
            self.pending = None;
        }
    }

    /// A node does not take it, and will not: it is in reach all the same. Whether that is news.
    pub(super) fn refused(&mut self) -> bool {
        self.pending = None;
        self.lost = 0;
        !std::mem::replace(&mut self.is_refused, true)
    }

    /// Whether there is one that was not answered.
    pub(super) const fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether no node is in reach, by what became of reports.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost >= LOST_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(generation: u64) -> Vec<OutcomeReport> {
        vec![OutcomeReport { dependency: "stripe".into(), generation, ..Default::default() }]
    }

    #[test]
    fn a_lost_report_goes_out_again_as_it_was_and_is_given_up_in_the_end() {
        let mut reports = Reports::new("acme".into(), Bytes::from_static(b"me"));
        assert_eq!(reports.next(Vec::new), None);
        let first = reports.next(|| report(1)).unwrap();
        assert_eq!((first.seq, first.node.len()), (1, 0));
        assert!(!reports.answered(Bytes::from_static(b"node")));
        let second = reports.next(|| report(2)).unwrap();
        assert_eq!((second.seq, second.node.as_ref()), (2, &b"node"[..]));
        for _ in 1..TRIES_MAX {
            reports.failed();
            assert_eq!(reports.next(|| panic!("one is pending")), Some(second.clone()));
        }
        assert!(reports.is_lost());
        reports.failed();
        assert_eq!(reports.next(|| report(3)).unwrap().seq, 3);
        assert!(reports.answered(Bytes::from_static(b"another")));
        assert!(!reports.is_lost());
    }

    #[test]
    fn a_report_to_an_unknown_node_is_not_sent_twice() {
        let mut reports = Reports::new("acme".into(), Bytes::from_static(b"me"));
        reports.next(|| report(1));
        reports.failed();
        assert!(!reports.is_pending());
    }

    #[test]
    fn a_node_that_takes_no_reports_is_in_reach_and_that_is_news_once() {
        let mut reports = Reports::new("acme".into(), Bytes::from_static(b"me"));
        let mut refused = || {
            reports.next(|| report(1));
            (reports.refused(), reports.is_pending(), reports.is_lost())
        };
        let told: Vec<_> = (0..=LOST_MAX).map(|_| refused()).collect();
        assert_eq!(told[0], (true, false, false));
        assert!(told[1..].iter().all(|told| *told == (false, false, false)), "{told:?}");
    }
}
