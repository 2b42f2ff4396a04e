//! Where the log goes: to the standard error, as text or as JSON.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// The variable that says what is logged.
const VARIABLE: &str = "SEMEL_LOG";
const DEFAULT: &str = "info";

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Starts the log of this process.
pub(crate) fn start(format: LogFormat) -> Result<(), Failure> {
    let directives = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        Failure::usage(format!("{VARIABLE}={directives} is no log filter: {error}"))
            .advise(format!("write it as {VARIABLE}=info or {VARIABLE}=warn,semel_server=debug"))
    })?;
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
