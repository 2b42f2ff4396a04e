//! A file of settings, read so that all that is wrong with it is said at once.
//!
//! Invariants: no message repeats what may be the address of a store, not even one that was written where
//! it does not belong; nothing is set that is out of its bounds.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::{Kind, Written};
use super::problem::{Problem, nearest, position};
use super::settings::{Settings, read_bounded};
use super::table::{self, SETTINGS, Setting};
use crate::failure::Failure;

/// A setting that a file sets, and where.
pub(crate) struct Assigned {
    pub(crate) setting: &'static Setting,
    pub(crate) offset: usize,
}

/// A file while it is read.
struct Reading<'a> {
    text: &'a str,
    settings: &'a mut Settings,
    assigned: Vec<Assigned>,
    problems: Vec<(usize, Problem)>,
}

/// Applies the settings of a file, in which nothing may be wrong.
pub(crate) fn apply(path: &Path, settings: &mut Settings) -> Result<(), Failure> {
    let text = open(path)?;
    let (_, problems) = read(&text, settings);
    if problems.is_empty() { Ok(()) } else { Err(refuse(path, problems)) }
}

/// The text of a file of settings.
pub(crate) fn open(path: &Path) -> Result<String, Failure> {
    read_bounded(path)
        .map_err(|error| Failure::usage(format!("reading {}: {error}", path.display())))
}

/// Why a file is not used.
pub(crate) fn refuse(path: &Path, problems: Vec<Problem>) -> Failure {
    let count = problems.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    Failure::usage(format!("{} has {count} {noun}", path.display()))
        .advise("`semel config example` prints every setting with its default")
        .with_problems(problems)
}

/// Applies the settings of a text, as far as they are right, and lists what is wrong by its place.
pub(crate) fn read(text: &str, settings: &mut Settings) -> (Vec<Assigned>, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { text, settings, assigned: Vec::new(), problems: Vec::new() };
    for (name, value) in document.get_ref() {
        reading.top(name, value);
    }
    // What the parser made of a line that it could not read means nothing.
    let unreadable: BTreeSet<usize> = errors
        .iter()
        .map(|error| position(text, error.span().map_or(0, |span| span.start)).0)
        .collect();
    reading.problems.retain(|(_, problem)| !unreadable.contains(&problem.line));
    for error in errors {
        let offset = error.span().map_or(0, |span| span.start);
        reading.wrong(offset, None, error.message().to_owned());
    }
    reading.finish()
}

impl Reading<'_> {
    fn finish(mut self) -> (Vec<Assigned>, Vec<Problem>) {
        self.refuse_two_places();
        self.assigned.sort_by_key(|assigned| assigned.offset);
        self.problems.sort_by_key(|(offset, _)| *offset);
        (self.assigned, self.problems.into_iter().map(|(_, problem)| problem).collect())
    }

    /// What stands at the top of the file: a table, or else a mistake.
    fn top(&mut self, name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let (offset, word) = (name.span().start, name.get_ref().as_ref());
        if table::of(word).next().is_none() {
            let own = SETTINGS.iter().find(|setting| setting.key == word);
            let message = match (value.get_ref(), own) {
                (DeValue::Table(_), _) => "there is no such table".to_owned(),
                (_, Some(setting)) => format!("this belongs below [{}]", setting.table),
                (_, None) => "there is no such setting".to_owned(),
            };
            let known = own.is_none().then(|| nearest(word, tables()));
            return self.unknown(offset, shown(word), message, known.flatten());
        }
        let DeValue::Table(entries) = value.get_ref() else {
            let message = format!("this is a table: write [{word}], and its settings below");
            return self.wrong(offset, Some(shown(word)), message);
        };
        for (key, value) in entries {
            self.entry(word, key, value);
        }
    }

    fn entry(&mut self, table: &str, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let (offset, word) = (key.span().start, key.get_ref().as_ref());
        let name = format!("{table}.{}", shown(word));
        let Some(setting) = table::of(table).find(|setting| setting.key == word) else {
            let near = nearest(word, table::of(table).map(|setting| setting.key));
            let elsewhere = SETTINGS.iter().find(|setting| setting.key == word);
            let message = elsewhere.filter(|_| near.is_none()).map_or_else(
                || "there is no such setting".to_owned(),
                |setting| format!("this belongs below [{}]", setting.table),
            );
            return self.unknown(offset, name, message, near);
        };
        let set = written(setting.kind, value.get_ref())
            .and_then(|text| setting.kind.set(self.settings, &text));
        match set {
            Ok(()) => self.assigned.push(Assigned { setting, offset }),
            Err(reason) => {
                let message = self.explained(setting.kind, value.span(), &reason);
                self.wrong(value.span().start, Some(name), message);
                if let Some((_, problem)) = self.problems.last_mut() {
                    problem.allowed = Some(setting.kind.allowed());
                }
            }
        }
    }

    /// Why a value is wrong, with the value, unless that or the reason may tell a secret.
    fn explained(&self, kind: Kind, span: Range<usize>, reason: &str) -> String {
        let written = self.text.get(span).unwrap_or_default();
        if kind.is_secret() {
            return reason.to_owned();
        }
        if written.contains("://") || written.chars().count() > 40 || written.contains('\n') {
            return format!("it must be {}", kind.allowed());
        }
        format!("it is {written}, but {reason}")
    }

    fn refuse_two_places(&mut self) {
        let mut places: Vec<(usize, &Setting)> = self
            .assigned
            .iter()
            .filter(|assigned| matches!(assigned.setting.kind, Kind::Place(_)))
            .map(|assigned| (assigned.offset, assigned.setting))
            .collect();
        places.sort_by_key(|(offset, _)| *offset);
        let Some((_, first)) = places.first().copied() else { return };
        for (offset, setting) in places.into_iter().skip(1) {
            let message = format!("{} says already where the store is: keep one", first.key);
            self.wrong(offset, Some(format!("{}.{}", setting.table, setting.key)), message);
        }
    }

    fn wrong(&mut self, offset: usize, key: Option<String>, message: String) {
        let (line, column) = position(self.text, offset);
        let problem = Problem { line, column, key, message, allowed: None, did_you_mean: None };
        self.problems.push((offset, problem));
    }

    fn unknown(&mut self, offset: usize, key: String, message: String, near: Option<&str>) {
        self.wrong(offset, Some(key), message);
        if let Some((_, problem)) = self.problems.last_mut() {
            problem.did_you_mean = near.map(str::to_owned);
        }
    }
}

fn tables() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.table).collect::<BTreeSet<_>>().into_iter()
}

/// A name as it may be shown: one that is no plain word may be a secret that lost its quotes.
fn shown(word: &str) -> String {
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if plain && word.len() <= 40 { word.to_owned() } else { "(not shown)".to_owned() }
}

/// A value as it would be written on the command line, if it is of the type that it should be.
fn written(kind: Kind, value: &DeValue<'_>) -> Result<String, String> {
    match (kind.written(), value) {
        (Written::Text | Written::TextOrNumber, DeValue::String(text)) => Ok(text.to_string()),
        (Written::Number | Written::TextOrNumber, DeValue::Integer(number)) => {
            Ok(number.to_string())
        }
        (Written::Switch, DeValue::Boolean(value)) => Ok(value.to_string()),
        (Written::Number | Written::Switch, DeValue::String(_)) => {
            Err(format!("it must be {}, without quotes", kind.allowed()))
        }
        (Written::Text, _) => Err(format!("it must be {}, in quotes", kind.allowed())),
        _ => Err(format!("it must be {}", kind.allowed())),
    }
}
