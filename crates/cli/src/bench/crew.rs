//! Many callers at work for a while, and what came of it.

use std::future::Future;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::{Connection, Connections, Stub};
use crate::failure::Failure;
use crate::stopwatch::Stopwatch;

/// The longest latency that is told apart, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;
/// Latencies are exact to 1 %.
const DIGITS: u8 = 2;
/// How long a caller rests after an error, so that a dead server is not hammered.
const REST: Duration = Duration::from_millis(10);
/// How long calls that were begun in time may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// One caller: sends its next request, and judges the answer.
pub(crate) trait Caller: Send + 'static {
    /// One request. The error says what was wrong with the answer.
    fn call(&mut self, stub: &mut Stub) -> impl Future<Output = Result<(), String>> + Send;
}

/// Callers that work at the same time, each with one call in flight.
pub(crate) struct Crew<C> {
    seats: Vec<Seat<C>>,
    /// Whatever drives them must last as long.
    _connections: Connections,
}

/// A caller, and the connection that it calls over.
struct Seat<C> {
    caller: C,
    connection: Connection,
}

impl<C: Caller> Crew<C> {
    /// A crew of these callers, spread evenly over the connections.
    pub(crate) fn new(connections: Connections, callers: impl Iterator<Item = C>) -> Self {
        let seats = callers.zip(connections.in_turn());
        let seats = seats.map(|(caller, connection)| Seat { caller, connection }).collect();
        Self { seats, _connections: connections }
    }

    /// Its callers.
    pub(crate) fn callers(&self) -> impl Iterator<Item = &C> {
        self.seats.iter().map(|seat| &seat.caller)
    }

    /// Lets everybody work for `length`, and adds what came of it to `measured`. Calls that were
    /// begun in time count, and so does the time until the last of them ends.
    pub(crate) async fn work(
        &mut self,
        length: Duration,
        measured: &mut Measured,
    ) -> Result<(), Failure> {
        let mut tasks = JoinSet::new();
        let watch = Stopwatch::start();
        for seat in self.seats.drain(..) {
            let runtime = seat.connection.runtime.clone();
            let stint = Stint { counts: Counts::new()?, seat };
            tasks.spawn_on(stint.work(watch, length), &runtime);
        }
        let stints = timeout(length + PATIENCE, tasks.join_all())
            .await
            .map_err(|_| Failure::broken("a call never ended: the server hangs"))?;
        let elapsed = watch.elapsed();
        let before = measured.counts.requests;
        for stint in stints {
            measured.counts.add(stint.counts)?;
            self.seats.push(stint.seat);
        }
        measured.close_turn(before, elapsed);
        Ok(())
    }
}

/// One caller's work in one turn.
struct Stint<C> {
    seat: Seat<C>,
    counts: Counts,
}

impl<C: Caller> Stint<C> {
    async fn work(mut self, watch: Stopwatch, length: Duration) -> Self {
        let mut begun = watch.elapsed();
        while begun < length {
            let result = self.seat.caller.call(&mut self.seat.connection.stub).await;
            let ended = watch.elapsed();
            self.counts.requests += 1;
            match result {
                Ok(()) => {
                    let took_us = ended.saturating_sub(begun).as_micros();
                    let took_us = u64::try_from(took_us).unwrap_or(LONGEST_US);
                    self.counts.latencies.saturating_record(took_us);
                    begun = ended;
                }
                Err(error) => {
                    self.counts.errors += 1;
                    self.counts.first_error.get_or_insert(error);
                    sleep(REST).await;
                    begun = watch.elapsed();
                }
            }
        }
        self
    }
}

/// What was counted.
struct Counts {
    requests: u64,
    errors: u64,
    first_error: Option<String>,
    latencies: Histogram<u64>,
}

impl Counts {
    fn new() -> Result<Self, Failure> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_US, DIGITS)
            .map_err(|error| Failure::broken(error.to_string()))?;
        Ok(Self { requests: 0, errors: 0, first_error: None, latencies })
    }

    fn add(&mut self, other: Self) -> Result<(), Failure> {
        self.requests += other.requests;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latencies.add(other.latencies).map_err(|error| Failure::broken(error.to_string()))
    }
}

/// What one side came to, over all of its turns.
pub(crate) struct Measured {
    counts: Counts,
    seconds: f64,
    rates: Vec<f64>,
}

impl Measured {
    /// Nothing yet.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { counts: Counts::new()?, seconds: 0.0, rates: Vec::new() })
    }

    fn close_turn(&mut self, requests_before: u64, elapsed: Duration) {
        let requests = self.counts.requests - requests_before;
        self.seconds += elapsed.as_secs_f64();
        self.rates.push(requests as f64 / elapsed.as_secs_f64());
    }

    /// Requests that were sent, whatever the answer.
    pub(crate) const fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// Requests with an error or a wrong answer.
    pub(crate) const fn errors(&self) -> u64 {
        self.counts.errors
    }

    /// One of those errors.
    pub(crate) fn first_error(&self) -> Option<&str> {
        self.counts.first_error.as_deref()
    }

    /// How long it took.
    pub(crate) const fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Requests per second: the median of the turns.
    pub(crate) fn per_second(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }

    /// The rate of each turn, in order.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// The latency that this share of the calls stayed under, in milliseconds.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        self.counts.latencies.value_at_quantile(share) as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;

    struct Odd(u64);

    impl Caller for Odd {
        async fn call(&mut self, _: &mut Stub) -> Result<(), String> {
            self.0 += 1;
            tokio::task::yield_now().await;
            if self.0 == 3 { Err("the third".into()) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn every_call_is_counted_once_and_errors_apart() {
        let connections = Connections::never(Handle::current());
        let mut crew = Crew::new(connections, [Odd(0), Odd(0)].into_iter());
        let mut measured = Measured::new().unwrap();
        for _ in 0..2 {
            crew.work(Duration::from_millis(50), &mut measured).await.unwrap();
        }
        let called: u64 = crew.callers().map(|odd| odd.0).sum();
        assert_eq!(measured.requests(), called);
        assert_eq!(measured.errors(), 2);
        assert_eq!(measured.first_error(), Some("the third"));
        assert_eq!(measured.rates().len(), 2);
        assert!(measured.seconds() >= 0.1);
    }

    #[test]
    fn the_rate_is_the_median_of_the_turns() {
        let mut measured = Measured::new().unwrap();
        for requests in [30, 10, 1_000] {
            let before = measured.counts.requests;
            measured.counts.requests += requests;
            measured.close_turn(before, Duration::from_secs(1));
        }
        assert!((measured.per_second() - 30.0).abs() < f64::EPSILON);
    }
}
