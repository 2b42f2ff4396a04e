//! How long the tests go on, and how they say that they left something out.

use std::io::Write;

/// A number from the environment, or the default.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// The seed of this run: printed, so that a failure can be had again with `SEMEL_SEED`.
pub(crate) fn seed() -> u64 {
    let seed = number("SEMEL_SEED", std::process::id().into());
    println!("SEMEL_SEED={seed}");
    seed
}

/// Says loudly that something can't be tested here: now, and again at the end of `tests/run`.
pub(crate) fn skip(why: &str) {
    println!("SKIPPED: {why}");
    if let Ok(path) = std::env::var("SEMEL_SKIPS") {
        let mut skips = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(skips, "{why}").unwrap();
    }
}
