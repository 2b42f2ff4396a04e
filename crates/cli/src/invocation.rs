//! Command lines to show to a person, such that they work as printed.

use std::fmt;

/// A `semel` command line.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    command: Vec<String>,
    operands: Vec<String>,
    options: Vec<String>,
}

impl Invocation {
    /// Begins with the program as it was called, then the names of commands.
    pub(crate) fn new<const N: usize>(commands: [&str; N]) -> Self {
        let mut command = vec![std::env::args().next().unwrap_or_else(|| "semel".to_owned())];
        command.extend(commands.map(str::to_owned));
        Self { command, operands: Vec::new(), options: Vec::new() }
    }

    /// This process's own command line.
    pub(crate) fn as_typed() -> Self {
        let mut command: Vec<String> = std::env::args().collect();
        let operands = command
            .iter()
            .position(|word| word == "--")
            .map_or_else(Vec::new, |dashes| command.split_off(dashes).split_off(1));
        Self { command, operands, options: Vec::new() }
    }

    /// Adds an operand.
    pub(crate) fn operand(mut self, word: impl Into<String>) -> Self {
        self.operands.push(word.into());
        self
    }

    /// Adds an option and its value.
    pub(crate) fn option(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        let value = value.to_string();
        // A value that begins with a dash would be read as an option of its own.
        if value.starts_with('-') {
            self.options.push(format!("{name}={value}"));
        } else {
            self.options.extend([name.to_owned(), value]);
        }
        self
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        // So would an operand, unless it comes after two dashes, which then must come last.
        let dashed = self.operands.iter().any(|word| word.starts_with('-'));
        let (dashes, first, last): (&[&str], _, _) = if dashed {
            (&["--"], &self.options, &self.operands)
        } else {
            (&[], &self.operands, &self.options)
        };
        let command = self.command.iter().chain(first).map(String::as_str);
        command.chain(dashes.iter().copied()).chain(last.iter().map(String::as_str))
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, word) in self.words().enumerate() {
            let gap = if position == 0 { "" } else { " " };
            // Only a NUL can't be quoted, and no argument can hold one.
            let quoted = shlex::try_quote(word).unwrap_or_default();
            write!(f, "{gap}{quoted}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(line: &Invocation) -> Vec<String> {
        shlex::split(&line.to_string()).unwrap().split_off(1)
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        let line = Invocation::new(["keys", "get"])
            .option("--reason", "two words")
            .option("--status", &-1)
            .operand("it's");
        assert_eq!(
            words_of(&line),
            ["keys", "get", "it's", "--reason", "two words", "--status=-1"]
        );
    }

    #[test]
    fn an_operand_with_a_dash_comes_after_two_dashes() {
        let line = Invocation::new(["keys", "get"]).operand("-k").option("--tenant", "t");
        assert_eq!(words_of(&line), ["keys", "get", "--tenant", "t", "--", "-k"]);
    }
}
