//! `semel sim total-outage`, `layers` and `fleet`.

use std::io;

use clap::{Args, value_parser};
use semel_sim::scenario::fleet::{self, Fleet};
use semel_sim::scenario::layers::{self, Layers};
use semel_sim::scenario::total_outage::{self, Outage};

use super::{broken, exit};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{BAD, GOOD, Output, Page, Reply};

/// The least share of what may be granted that a fleet grants under demand.
const UTILISATION_MIN: f64 = 0.97;
/// The most that one client may get against another of equal demand.
const FAIRNESS_MAX: f64 = 2.0;
/// The longest that a fleet may take to recover, in seconds.
const RECONVERGED_MAX_S: f64 = 2.0;

/// The arguments of `semel sim total-outage`.
#[derive(Args, Debug)]
pub(crate) struct OutageArgs {
    /// The seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// The arguments of `semel sim layers`.
#[derive(Args, Debug)]
pub(crate) struct LayersArgs {
    /// The seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// The arguments of `semel sim fleet`.
#[derive(Args, Debug)]
pub(crate) struct FleetArgs {
    /// Nodes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u16).range(3..=1_000))]
    nodes: u16,

    /// Clients.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    clients: u32,

    /// The seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

impl OutageArgs {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        output.progress("playing two minutes of 1,000 requests a second")?;
        let outage = total_outage::run(self.seed);
        output.progress("")?;
        let outage = outage.map_err(|error| broken(&error))?;
        output.reply(&outage)?;
        Ok(exit(outage.over_bound == 0 && outage.over_published_bound == 0))
    }
}

impl LayersArgs {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let layers = layers::run(self.seed).map_err(|error| broken(&error))?;
        output.reply(&layers)?;
        let kept = layers.calls_with_cap <= 1 + layers.retries_per_root
            && layers.calls_with_retry_layer <= layers.attempts_per_layer;
        Ok(exit(kept))
    }
}

impl FleetArgs {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        output.progress(&format!("playing a minute of {} clients", self.clients))?;
        let clients = usize::try_from(self.clients).unwrap_or(usize::MAX);
        let fleet = fleet::run(usize::from(self.nodes), clients, self.seed);
        output.progress("")?;
        let fleet = fleet.map_err(|error| broken(&error))?;
        output.reply(&fleet)?;
        let kept = fleet.utilisation >= UTILISATION_MIN
            && fleet.granted_over_bound == 0
            && fleet.fairness_ratio <= FAIRNESS_MAX
            && fleet.reconverged_s <= RECONVERGED_MAX_S;
        Ok(exit(kept))
    }
}

impl Reply for Outage {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.title(
            if self.over_bound == 0 { GOOD } else { BAD },
            "OUTAGE",
            "a minute in which every request fails, over three nodes",
        )?;
        page.field("requests", format_args!("{} a second", self.first_per_second))?;
        page.field("attempts", format_args!("{:.0} a second", self.attempts_per_second))?;
        page.field(
            "worst 10 s",
            format_args!("{:.3} attempts a request", self.worst_amplification),
        )?;
        page.field("over the bound", format_args!("{} retries", self.over_bound))?;
        let after = self.worst_amplification_after_lead_in;
        page.field("after 10 s well", format_args!("{after:.3} attempts a request at worst"))?;
        page.field("over published", format_args!("{} retries", self.over_published_bound))
    }
}

impl Reply for Layers {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.line("Three layers of three attempts, and a call that always fails.\n")?;
        let row = |what: &str, calls: u32| vec![what.to_owned(), calls.to_string()];
        page.table(&[
            vec!["WITH".to_owned(), "CALLS".to_owned()],
            row("nothing", self.calls_without),
            row("the cap per root request", self.calls_with_cap),
            row("one layer that retries", self.calls_with_retry_layer),
        ])
    }
}

impl Reply for Fleet {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.title(GOOD, "FLEET", &format!("{} nodes, {} clients", self.nodes, self.clients))?;
        page.field("granted", format_args!("{:.4} of what may be granted", self.utilisation))?;
        page.field("over the bound", format_args!("{} retries", self.granted_over_bound))?;
        page.field("luckiest", format_args!("{:.2} times the unluckiest", self.fairness_ratio))?;
        page.field("recovered", format_args!("{:.1} s after a third vanished", self.reconverged_s))
    }
}
