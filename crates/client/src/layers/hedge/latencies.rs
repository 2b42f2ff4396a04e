//! How long calls of late took: two histograms, of which the older is forgotten from time to time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::layer::HedgeSettings;

/// The longest latency that is told apart, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;
/// The delay is worked out anew after so many latencies.
const REFRESH: u64 = 32;

/// Latencies of one dependency.
#[derive(Debug)]
pub(super) struct Latencies {
    settings: HedgeSettings,
    state: Mutex<State>,
    /// In microseconds; 0: nobody knows yet.
    delay_us: AtomicU64,
}

#[derive(Debug)]
struct State {
    older: Histogram<u32>,
    newer: Histogram<u32>,
    turned_at: Instant,
    since_refresh: u64,
}

impl Latencies {
    pub(super) fn new(settings: HedgeSettings, now: Instant) -> Self {
        let state =
            State { older: empty(), newer: empty(), turned_at: now, since_refresh: REFRESH };
        Self { settings, state: Mutex::new(state), delay_us: AtomicU64::new(0) }
    }

    /// When a call is slow.
    pub(super) fn delay(&self) -> Option<Duration> {
        let us = self.delay_us.load(Ordering::Relaxed);
        (us > 0).then(|| Duration::from_micros(us).max(self.settings.delay_min))
    }

    /// A call took so long.
    pub(super) fn record(&self, took: Duration, now: Instant) {
        let us = u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).clamp(1, LONGEST_US);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.turned_at) >= self.settings.period {
            state.turn(now);
        }
        state.newer.saturating_record(us);
        state.since_refresh += 1;
        if state.since_refresh >= REFRESH {
            state.since_refresh = 0;
            self.delay_us.store(self.quantile(&state).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    fn quantile(&self, state: &State) -> Option<u64> {
        let mut all = state.older.clone();
        all.add(&state.newer).ok()?;
        let enough = all.len() >= u64::from(self.settings.calls_min);
        enough.then(|| all.value_at_quantile(self.settings.quantile))
    }
}

impl State {
    fn turn(&mut self, now: Instant) {
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.reset();
        self.turned_at = now;
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants, and good ones")]
fn empty() -> Histogram<u32> {
    Histogram::new_with_max(LONGEST_US, 2).expect("good bounds")
}
