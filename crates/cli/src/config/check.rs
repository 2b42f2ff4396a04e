//! `semel config check`: what a file of settings sets, or everything that is wrong with it.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::file::{self, Assigned};
use super::given::{CONFIG_DEFAULT, CONFIG_VARIABLE, default_file};
use super::kind::{Kind, Written};
use super::problem::{Problem, position};
use super::settings::Settings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{GOOD, Output, Page, Reply};
use crate::values::tame;

pub(super) fn run(file: Option<PathBuf>, output: &mut Output) -> Result<Exit, Failure> {
    let named = file.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from));
    let Some(path) = named.or_else(default_file) else {
        return Err(Failure::usage(format!("there is no {CONFIG_DEFAULT}"))
            .advise("name a file; `semel config example` prints one"));
    };
    output.reply(&check(&path)?)?;
    Ok(Exit::Done)
}

/// Checks a file on its own, as if nothing outranked it.
pub(super) fn check(path: &Path) -> Result<Checked, Failure> {
    let text = file::open(path)?;
    let mut settings = Settings::defaults()?;
    let (assigned, mut problems) = file::read(&text, &mut settings);
    if problems.is_empty() {
        problems = contradictions(&text, &mut settings, &assigned);
    }
    if !problems.is_empty() {
        return Err(file::refuse(path, problems));
    }
    let values = assigned
        .iter()
        .map(|Assigned { setting, .. }| {
            let name = format!("{}.{}", setting.table, setting.key);
            (name, value(setting.kind, &mut settings))
        })
        .collect();
    Ok(Checked { ok: true, file: path.display().to_string(), settings: values })
}

/// What is wrong with settings that are right one by one.
fn contradictions(text: &str, settings: &mut Settings, assigned: &[Assigned]) -> Vec<Problem> {
    let at = |meant: fn(Kind) -> bool, failure: Failure| {
        let assigned = assigned.iter().find(|assigned| meant(assigned.setting.kind));
        let (line, column) = position(text, assigned.map_or(0, |assigned| assigned.offset));
        let key =
            assigned.map(|Assigned { setting, .. }| format!("{}.{}", setting.table, setting.key));
        let message = failure.message.clone();
        Problem { line, column, key, message, allowed: None, did_you_mean: None }
    };
    let strangers = settings.refuse_strangers().err();
    let store = settings.engine().err();
    strangers
        .map(|failure| at(|kind| matches!(kind, Kind::Socket(_)), failure))
        .into_iter()
        .chain(store.map(|failure| at(|kind| matches!(kind, Kind::Place(_)), failure)))
        .collect()
}

/// A value for scripts: of the type that it has in the file.
fn value(kind: Kind, settings: &mut Settings) -> Value {
    let shown = kind.show(settings);
    match kind.written() {
        Written::Number => shown.parse::<u64>().map_or(Value::Null, Value::from),
        Written::Switch => Value::from(shown == "true"),
        Written::Text | Written::TextOrNumber => Value::from(shown),
    }
}

/// A file in which all is well.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    ok: bool,
    file: String,
    /// What it sets, by `table.key`.
    settings: Map<String, Value>,
}

impl Reply for Checked {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let count = self.settings.len();
        let noun = if count == 1 { "setting" } else { "settings" };
        let file = tame(&self.file);
        page.title(GOOD, "OK", &format!("{file} sets {count} {noun}; all else is at its default"))?;
        let rows: Vec<Vec<String>> = self
            .settings
            .iter()
            .map(|(name, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), tame);
                vec![format!("  {name}"), value]
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let heading = vec!["  SETTING".to_owned(), "VALUE".to_owned()];
        page.table(&[&[heading], &rows[..]].concat())
    }
}
