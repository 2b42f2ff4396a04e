//! `semel sim retry-storm`.

use std::io;
use std::path::PathBuf;

use clap::{Args, value_parser};
use semel_sim::scenario::plot::{Curve, Frame, svg};
use semel_sim::scenario::retry_storm::{
    CAPACITY_PER_TICK, DOWN_AT, Played, Strategy, TICK, UP_AT, run,
};
use semel_sim::scenario::spread::Spread;
use serde::Serialize;

use super::{broken, exit};
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::output::{Output, Page, Reply};

/// Until when the picture shows.
const SHOWN_FOR: std::time::Duration = std::time::Duration::from_secs(20);

/// The arguments of `semel sim retry-storm`.
#[derive(Args, Debug)]
pub(crate) struct StormArgs {
    /// How many seeds to play; the figures are the medians.
    #[arg(long, value_name = "N", default_value_t = 51)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    seeds: u64,

    /// The first of them; the picture shows this one.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,

    /// Draw the attempts of the first seed over time.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// What it came to.
#[derive(Serialize)]
struct Report {
    capacity_per_tick: u32,
    strategies: Vec<Row>,
    #[serde(skip)]
    seeds: u64,
}

/// One strategy: medians for scripts, extremes for people.
#[derive(Serialize)]
struct Row {
    name: Strategy,
    attempts: u32,
    peak_after_recovery: u32,
    all_served_s: f64,
    #[serde(skip)]
    spreads: (Spread<u32>, Spread<u32>, Spread<f64>),
}

impl StormArgs {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let mut played = Vec::new();
        for strategy in Strategy::ALL {
            let mut runs = Vec::new();
            for offset in 0..self.seeds {
                output.progress(&format!(
                    "{}, seed {} of {}",
                    title(strategy),
                    offset + 1,
                    self.seeds
                ))?;
                let seed = self.first_seed.wrapping_add(offset);
                runs.push(run(strategy, seed).map_err(|error| broken(&error))?);
            }
            played.push((strategy, runs));
        }
        output.progress("")?;
        let rows = played.iter().filter_map(|(strategy, runs)| Row::of(*strategy, runs)).collect();
        let report =
            Report { capacity_per_tick: CAPACITY_PER_TICK, strategies: rows, seeds: self.seeds };
        if let Some(path) = &self.plot {
            std::fs::write(path, picture(&played)).map_err(|error| {
                Failure::broken(format!("can't write {}: {}", path.display(), whole(&error)))
            })?;
        }
        output.reply(&report)?;
        Ok(exit(report.kept_its_promise()))
    }
}

impl Row {
    fn of(name: Strategy, runs: &[Played]) -> Option<Self> {
        let attempts = Spread::of(runs.iter().map(|run| run.attempts))?;
        let peak = Spread::of(runs.iter().map(|run| run.peak_after_recovery))?;
        let served = Spread::of(runs.iter().map(|run| run.all_served_s))?;
        Some(Self {
            name,
            attempts: attempts.median,
            peak_after_recovery: peak.median,
            all_served_s: served.median,
            spreads: (attempts, peak, served),
        })
    }
}

impl Report {
    /// The fleet's own way stays at or under the capacity, and none that does so serves all sooner.
    fn kept_its_promise(&self) -> bool {
        let stays = |row: &&Row| row.peak_after_recovery <= self.capacity_per_tick;
        let ours = self.strategies.iter().find(|row| row.name == Strategy::Semel);
        ours.filter(stays).is_some_and(|ours| {
            ours.spreads.1.most <= self.capacity_per_tick
                && self
                    .strategies
                    .iter()
                    .filter(stays)
                    .all(|other| ours.all_served_s <= other.all_served_s)
        })
    }
}

const fn title(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Fixed => "fixed",
        Strategy::Exponential => "exponential",
        Strategy::ExponentialJitter => "exponential + jitter",
        Strategy::Semel => "semel",
    }
}

fn picture(played: &[(Strategy, Vec<Played>)]) -> String {
    let first = |runs: &[Played]| runs.first().cloned();
    let shown: Vec<(Strategy, Played, String)> = played
        .iter()
        .filter_map(|(strategy, runs)| {
            let run = first(runs)?;
            let note = format!(
                "{} attempts, peak after recovery {}, all served at {:.1} s",
                run.attempts, run.peak_after_recovery, run.all_served_s
            );
            Some((*strategy, run, note))
        })
        .collect();
    let curves: Vec<Curve<'_>> = shown
        .iter()
        .map(|(strategy, run, note)| Curve { name: title(*strategy), note, ticks: &run.per_tick })
        .collect();
    let frame = Frame {
        title: "Attempts per 100 ms: 40 clients, a provider that is down from 2 s to 6 s (shaded)",
        tick: TICK,
        capacity: CAPACITY_PER_TICK,
        shaded: (DOWN_AT, UP_AT),
        end: SHOWN_FOR,
    };
    svg(&frame, &curves)
}

impl Reply for Report {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.line(format_args!(
            "40 clients, a provider that is down from 2 s to 6 s and then takes {} requests per 100 ms.",
            self.capacity_per_tick
        ))?;
        page.line(format_args!("Medians of {} seeds, and the extremes.\n", self.seeds))?;
        let heading = ["STRATEGY", "ATTEMPTS", "PEAK AFTER RECOVERY", "ALL SERVED AFTER"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        for row in &self.strategies {
            let (attempts, peak, served) = row.spreads;
            rows.push(vec![
                title(row.name).to_owned(),
                format!("{} ({} to {})", attempts.median, attempts.least, attempts.most),
                format!("{} ({} to {})", peak.median, peak.least, peak.most),
                format!("{:.1} s ({:.1} to {:.1})", served.median, served.least, served.most),
            ]);
        }
        page.table(&rows)
    }
}
