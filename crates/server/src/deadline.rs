//! What is left of a call's time. The gRPC deadline bounds all that the call causes.

use std::time::Duration;

use semel_domain::time::micros;
use semel_store::Clock;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Response, Status};

use crate::refusal::Refusal;

/// The response metadata that says what was left of the call's deadline, in milliseconds.
pub(crate) const REMAINING_HEADER: &str = "semel-remaining-ms";

/// What work leaves of a call's time at the most, for the answer to travel.
const ANSWER_MARGIN: Duration = Duration::from_millis(20);

/// The end of a call's time, if it has one, on the node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Ends>);

#[derive(Clone, Copy, Debug)]
struct Ends {
    call_us: u64,
    /// When the node's own work has to end, so that the answer can still travel.
    work_us: u64,
}

impl Deadline {
    /// Reads the `grpc-timeout` of a call that arrived just now. A malformed one counts as absent, as
    /// the gRPC library that enforces it has it.
    pub(crate) fn of_call(metadata: &MetadataMap, clock: &dyn Clock) -> Self {
        let timeout = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout);
        Self(timeout.map(|timeout| {
            let margin = ANSWER_MARGIN.min(timeout / 4);
            let call_us = clock.monotonic_us().saturating_add(micros(timeout));
            Ends { call_us, work_us: call_us.saturating_sub(micros(margin)) }
        }))
    }

    /// The deadline of work that has no call of its own.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Makes a call's answer of its result, and notes what is left.
    pub(crate) fn answer<T>(
        self,
        result: Result<T, Refusal>,
        clock: &dyn Clock,
    ) -> Result<Response<T>, Status> {
        match result {
            Ok(reply) => {
                let mut response = Response::new(reply);
                self.note(response.metadata_mut(), clock);
                Ok(response)
            }
            Err(refusal) => {
                let mut status = Status::from(refusal);
                self.note(status.metadata_mut(), clock);
                Err(status)
            }
        }
    }

    /// What is left; `None`: no end.
    pub(crate) fn left(self, clock: &dyn Clock) -> Option<Duration> {
        self.0.map(|ends| until(ends.call_us, clock))
    }

    /// What is left for the node's own work: the rest is for the answer to travel. `None`: no end.
    pub(crate) fn left_for_work(self, clock: &dyn Clock) -> Option<Duration> {
        self.0.map(|ends| until(ends.work_us, clock))
    }

    /// Notes in a reply's metadata what is left.
    fn note(self, metadata: &mut MetadataMap, clock: &dyn Clock) {
        if let Some(left) = self.left(clock) {
            let value =
                AsciiMetadataValue::from(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            metadata.insert(REMAINING_HEADER, value);
        }
    }
}

fn until(end_us: u64, clock: &dyn Clock) -> Duration {
    Duration::from_micros(end_us.saturating_sub(clock.monotonic_us()))
}

/// The gRPC form: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_the_form_of_grpc() {
        assert_eq!(parse_timeout("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(parse_timeout("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        for malformed in ["", "m", "1", "1x", "-1S", "+1S", "999999999S", "1.5S", "é"] {
            assert_eq!(parse_timeout(malformed), None, "{malformed:?}");
        }
    }
}
