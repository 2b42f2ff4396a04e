//! Calls that are spread over many dependencies.

use bytes::Bytes;
use semel_proto::v1::Deposits;

use super::{Dice, Scene};

/// One caller's share of the dependencies, and who it is for the node.
pub(crate) struct Spread {
    pub(super) dice: Dice,
    pub(super) root: bool,
    pub(super) reporter: Bytes,
    run: String,
    dependencies: u32,
    seq: u64,
}

impl Spread {
    /// Over so many dependencies of this run's own.
    pub(crate) fn new(scene: &Scene, seat: u16, dependencies: u32, root: bool) -> Self {
        let mut dice = scene.dice(seat);
        let reporter = dice.owner_id();
        Self { dice, root, reporter, run: scene.run.clone(), dependencies, seq: 0 }
    }

    /// One of the dependencies, at random.
    pub(super) fn dependency(&mut self) -> String {
        let number = self.dice.below(self.dependencies.into());
        format!("{}-{number}", self.run)
    }

    /// The number of the caller's next report.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// A report of first attempts.
    pub(super) fn deposits(&mut self, requests: u64) -> Deposits {
        Deposits {
            reporter: self.reporter.clone(),
            seq: self.next_seq(),
            requests,
            successes: requests,
            ..Deposits::default()
        }
    }
}
