//! What is wrong with a file of settings, and where.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    /// Where it begins, counted in lines and letters from 1.
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// The setting as `table.key`, if it is known which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// What is wrong.
    pub(crate) message: String,
    /// What the setting may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed: Option<String>,
    /// The name that was meant, as it seems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) did_you_mean: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: ", self.line, self.column)?;
        if let Some(key) = &self.key {
            write!(formatter, "{key}: ")?;
        }
        formatter.write_str(&self.message)?;
        self.did_you_mean
            .as_ref()
            .map_or(Ok(()), |name| write!(formatter, "; did you mean {name}?"))
    }
}

/// The line and the column of a place in a text, from 1.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before.get(start..).unwrap_or_default().chars().count() + 1)
}

/// The one of these names that comes nearest to a mistyped one, if any comes near.
pub(crate) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A letter left out, doubled or swapped in every third is a slip; more is another word.
    let slips = typed.chars().count() / 3 + 1;
    names
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= slips && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}
