//! `semel sim check`.

use std::io;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use clap::{Args, value_parser};
use semel_sim::{Checked, Record};
use serde::Serialize;

use super::{broken, exit};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{BAD, FAINT, GOOD, Output, Page, Reply};
use crate::stopwatch::Stopwatch;

/// How often progress is shown, in seeds.
const PROGRESS_EVERY: u64 = 20;
/// Broken seeds that are shown whole.
const SHOWN_MAX: usize = 3;

/// The arguments of `semel sim check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// How many seeds to play.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    seeds: u64,

    /// The first of them; the others follow.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,

    /// Threads to play them on; each seed is the same on any. Default: one for each core.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    checked: Checked,
    #[serde(skip)]
    seconds: f64,
}

impl CheckArgs {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.threads.map_or(cores, usize::from);
        let stopwatch = Stopwatch::start();
        let shown = Mutex::new(&mut *output);
        let progress = |done: u64| {
            if done.is_multiple_of(PROGRESS_EVERY) {
                let mut output = shown.lock().unwrap_or_else(PoisonError::into_inner);
                // A terminal that is gone does not end the run.
                drop(output.progress(&format!("{done} of {} seeds", self.seeds)));
            }
        };
        let checked = semel_sim::check(self.first_seed, self.seeds, threads, None, progress);
        output.progress("")?;
        let checked = checked.map_err(|error| broken(&error))?;
        let kept = checked.violations == 0;
        for (seed, record) in checked.broken.iter().take(SHOWN_MAX) {
            output.aside(|page| show(page, *seed, record))?;
        }
        for (seed, record) in checked.broken.iter().skip(SHOWN_MAX) {
            let first = record.violations.first();
            let promise = first.map(|first| format!("{:?}: {}", first.promise, first.seen));
            output.aside(|page| {
                page.line(format_args!("seed {seed}: {}", promise.unwrap_or_default()))
            })?;
        }
        output.reply(&Report { checked, seconds: stopwatch.elapsed().as_secs_f64() })?;
        Ok(exit(kept))
    }
}

/// A broken seed, as it ended.
fn show(page: &mut Page<'_>, seed: u64, record: &Record) -> io::Result<()> {
    for line in &record.tail {
        page.line(format_args!("{FAINT}{line}{FAINT:#}"))?;
    }
    for violation in &record.violations {
        let promise = format!("{:?}", violation.promise);
        page.title(BAD, &promise, &violation.seen)?;
    }
    page.line(format_args!("seed {seed}: semel sim check --first-seed {seed} --seeds 1"))
}

impl Reply for Report {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let Checked { seeds, violations, events, .. } = &self.checked;
        if *violations == 0 {
            page.title(GOOD, "KEPT", "no promise was broken")?;
        } else {
            page.title(BAD, "BROKEN", &format!("promises were broken in {violations} seeds"))?;
        }
        page.field("seeds", seeds)?;
        page.field("events", events)?;
        page.field("took", format_args!("{:.1} s", self.seconds))
    }
}
