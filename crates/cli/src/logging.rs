//! Where the log goes: to the standard error, as text or as JSON.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl LogFormat {
    /// Its name, as it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Says whether a filter can be used.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter).map(|_| ()).map_err(|error| error.to_string())
}

/// Starts the log of this process, with what the filter lets through.
pub(crate) fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Failure::usage(format!("{filter} is no log filter: {error}")))?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Where the log can't be written, as on a full disk, saying so there would panic.
        .log_internal_errors(false)
        .with_ansi(colours);
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::broken(format!("starting the log failed: {error}")))
}
