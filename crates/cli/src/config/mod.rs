//! The settings of `semel serve`: one table of them, one file for them, and `semel config` to look at that
//! file.
//!
//! # Layout
//!
//! - `table`: every setting, once; `kind`: what a setting can be
//! - `settings`: what they set, with the defaults
//! - `file`: the file, read so that all its problems are found at once; `problem`: one of those
//! - `given`: the command line and the environment, and what outranks what
//! - `check`: `semel config check`
//!
//! # What it does not do
//!
//! It does not watch the file: a node reads it once, when it starts.

mod check;
mod file;
mod given;
mod kind;
mod problem;
mod settings;
mod table;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

pub(crate) use self::given::{AllSettings, Given, Loaded, StoreSettings};
pub(crate) use self::problem::Problem;
pub(crate) use self::settings::Settings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};

/// Every setting, with what it means and its default.
const EXAMPLE: &str = include_str!("../../../../deploy/semel.toml");

const EXAMPLES: &str = "\
Examples:
  semel config example > semel.toml
  semel config check semel.toml

What is said in several places counts in this order: options, variables, the file, defaults.";

/// The arguments of `semel config`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what a file of settings sets, or everything that is wrong with it
    Check {
        /// The file [default: $SEMEL_CONFIG, else ./semel.toml].
        file: Option<PathBuf>,
    },
    /// Print a file with every setting, explained, at its default
    Example,
}

impl ConfigArgs {
    /// Does it.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        match self.command {
            ConfigCommand::Check { file } => check::run(file, output),
            ConfigCommand::Example => {
                output.reply(&Example { example: EXAMPLE })?;
                Ok(Exit::Done)
            }
        }
    }
}

#[derive(Serialize)]
struct Example {
    example: &'static str,
}

impl Reply for Example {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.line(self.example.trim_end())
    }
}

#[cfg(test)]
mod tests;
