//! What the command line and the environment say, and how it comes together with the file:
//! option > variable > file > default.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::file;
use super::kind::{Kind, Where};
use super::settings::Settings;
use super::table::{CommandLine, SETTINGS, Setting};
use crate::failure::Failure;

/// The variable that names the file.
pub(crate) const CONFIG_VARIABLE: &str = "SEMEL_CONFIG";
/// The file that is read if none is named and there is one.
pub(crate) const CONFIG_DEFAULT: &str = "./semel.toml";

const STORE_EXAMPLE: &str =
    "for example --store postgres://semel@db.internal/semel?sslmode=verify-full";

/// Which settings a command takes.
pub(crate) trait Scope {
    fn has(setting: &Setting) -> bool;
}

/// All that have an option.
#[derive(Debug)]
pub(crate) struct AllSettings;

/// Where the database is.
#[derive(Debug)]
pub(crate) struct StoreSettings;

impl Scope for AllSettings {
    fn has(_: &Setting) -> bool {
        true
    }
}

impl Scope for StoreSettings {
    fn has(setting: &Setting) -> bool {
        matches!(setting.kind, Kind::Place(Where::Address | Where::AddressIn))
    }
}

/// What was said about settings, and which file has more of them.
pub(crate) struct Given<S> {
    /// Where the file is, if it was named.
    config: Option<PathBuf>,
    /// In the order in which they are to be applied.
    values: Vec<(&'static Setting, String)>,
    scope: PhantomData<S>,
}

/// Settings, and the file that some of them are from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    pub(crate) config: Option<PathBuf>,
}

impl<S: Scope> Given<S> {
    /// Brings them together with the file.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let mut settings = Settings::defaults()?;
        let config = self.config.clone().or_else(default_file);
        if let Some(path) = &config {
            file::apply(path, &mut settings)?;
        }
        for (setting, text) in &self.values {
            // Whatever else may be wrong was refused when the command line was read.
            setting.kind.set(&mut settings, text).map_err(|reason| {
                Failure::usage(format!("the store: {reason}")).advise(STORE_EXAMPLE)
            })?;
        }
        Ok(Loaded { settings, config })
    }
}

/// The file that is read if none is named.
pub(crate) fn default_file() -> Option<PathBuf> {
    let path = Path::new(CONFIG_DEFAULT);
    path.exists().then(|| path.to_owned())
}

fn option_name(setting: &Setting) -> String {
    setting.key.replace('_', "-")
}

fn options<S: Scope>() -> impl Iterator<Item = (&'static Setting, &'static CommandLine)> {
    SETTINGS
        .iter()
        .filter(|setting| S::has(setting))
        .filter_map(|setting| Some((setting, setting.option.as_ref()?)))
}

impl<S> fmt::Debug for Given<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their values may hold a password.
        let keys: Vec<&str> = self.values.iter().map(|(setting, _)| setting.key).collect();
        formatter
            .debug_struct("Given")
            .field("config", &self.config)
            .field("values", &keys)
            .finish_non_exhaustive()
    }
}

impl<S: Scope> Args for Given<S> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env(CONFIG_VARIABLE)
            .value_parser(clap::value_parser!(PathBuf))
            .help(format!(
                "A file of settings, which options and variables outrank; `semel config example` \
                 prints one [default: {CONFIG_DEFAULT}, if there is one]"
            ));
        // The defaults are shown as far as they can be made, which they always can.
        let mut defaults = Settings::defaults().ok();
        options::<S>().fold(command.arg(config), |command, (setting, option)| {
            command.arg(argument(setting, option, defaults.as_mut()))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(
    setting: &'static Setting,
    option: &CommandLine,
    defaults: Option<&mut Settings>,
) -> Arg {
    let kind = setting.kind;
    let switch = matches!(kind, Kind::Switch(_));
    let default = match (option.without, defaults) {
        (Some(without), _) => without.to_owned(),
        (None, Some(_)) if switch => String::new(),
        (None, defaults) => defaults.map(|defaults| kind.show(defaults)).unwrap_or_default(),
    };
    let default = if default.is_empty() { default } else { format!(" [default: {default}]") };
    let mut argument = Arg::new(setting.key)
        .long(option_name(setting))
        .value_name(option.value)
        .help(format!("{}{default}", option.help))
        .value_parser(ValueParser::new(move |text: &str| check(kind, text)));
    if let Some(variable) = setting.variable {
        argument = argument.env(variable).hide_env_values(kind.is_secret());
    }
    if switch {
        argument = argument.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if setting.table == "keys" { argument.help_heading("Keys") } else { argument }
}

/// Refuses a wrong value as early as the command line is read: but not one that would be repeated there
/// although it may be a secret.
fn check(kind: Kind, text: &str) -> Result<String, String> {
    if !kind.is_secret() {
        let mut scratch = Settings::defaults().map_err(|failure| failure.message.clone())?;
        kind.set(&mut scratch, text)?;
    }
    Ok(text.to_owned())
}

impl<S: Scope> FromArgMatches for Given<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut values = Vec::new();
        for source in [ValueSource::EnvVariable, ValueSource::CommandLine] {
            for (setting, _) in options::<S>() {
                let text = matches.get_one::<String>(setting.key);
                let said = matches.value_source(setting.key) == Some(source);
                values.extend(text.filter(|_| said).map(|text| (setting, text.clone())));
            }
        }
        let config = matches.get_one::<PathBuf>("config").cloned();
        Ok(Self { config, values, scope: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
