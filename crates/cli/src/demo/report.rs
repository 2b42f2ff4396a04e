//! What the demonstration came to.

use std::io;

use serde::Serialize;

use super::client::{Attempt, Payment, Seen};
use crate::output::{BAD, GOOD, Page, Reply};

/// The three scenes side by side.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// No key.
    pub(crate) without_key: Row,
    /// One key for all attempts.
    pub(crate) with_key: Row,
    /// One key, and the claim waits.
    pub(crate) with_wait: Row,
}

/// One scene.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    charges: u32,
    attempts: Vec<Attempt>,
    client_result: &'static str,
    seconds: f64,
}

impl Row {
    /// What the client saw, and how often the card was charged in the end.
    pub(crate) fn new(payment: Payment, charges: u32) -> Self {
        Self {
            charges,
            attempts: payment.attempts,
            client_result: if payment.succeeded { "success" } else { "failure" },
            seconds: (payment.took.as_secs_f64() * 1_000.0).round() / 1_000.0,
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let seen = |attempt: &Attempt| match attempt.result {
            Seen::Charged => "charged",
            Seen::Replayed => "replayed",
            Seen::InProgress => "in progress",
            Seen::Timeout => "timeout",
            Seen::Error => "error",
        };
        let charges = if self.charges == 1 { GOOD } else { BAD };
        let attempts: Vec<_> = self.attempts.iter().map(seen).collect();
        vec![
            name.to_owned(),
            format!("{charges}{}{charges:#}", self.charges),
            attempts.join(", "),
            self.client_result.to_owned(),
            format!("{:.1} s", self.seconds),
        ]
    }
}

impl Report {
    /// Whether one key meant one charge.
    pub(crate) const fn kept_its_promise(&self) -> bool {
        self.with_key.charges == 1 && self.with_wait.charges == 1
    }
}

impl Reply for Report {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.line("")?;
        page.table(&[
            ["", "CHARGES", "ATTEMPTS", "THE CLIENT REPORTS", "AFTER"].map(str::to_owned).to_vec(),
            self.without_key.cells("without a key"),
            self.with_key.cells("with a key"),
            self.with_wait.cells("with wait"),
        ])
    }
}
