//! What the exit code of a command means, the same for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done as asked. Of a claim: the work is the caller's to do.
    Done,
    /// The answer is no, and asking again at once would not change it.
    No,
    /// The request makes no sense as it stands.
    Usage,
    /// No answer: whether anything happened may be unknown.
    NoAnswer,
    /// The store would not open.
    StoreRefused,
    /// Something else failed: a file, a terminal, a process.
    Broken,
    /// Of a claim: done before, and the stored answer was printed.
    Replay,
    /// Of a claim: the caller's, but an earlier owner may have done the work.
    LookFirst,
}

/// The table that `--help` shows.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
   0  done as asked; for a claim: the work is yours to do
   1  the answer is no: in progress, mismatch, expired, fenced, unknown, ...
   2  the request makes no sense as it stands
   3  no answer: the node is unreachable, unavailable, or out of time; the same
      command again is safe (a claim: with the same --owner)
   4  the store would not open (serve, migrate)
   5  something else failed: a file, a terminal, a process
  10  a claim: done before, here is the stored answer; do not do the work again
  11  a claim: yours, but an earlier owner may have done the work; look first";

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NoAnswer => 3,
            Self::StoreRefused => 4,
            Self::Broken => 5,
            Self::Replay => 10,
            Self::LookFirst => 11,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code_once() {
        let all = [
            Exit::Done,
            Exit::No,
            Exit::Usage,
            Exit::NoAnswer,
            Exit::StoreRefused,
            Exit::Broken,
            Exit::Replay,
            Exit::LookFirst,
        ];
        let documented: Vec<u8> = EXIT_CODES
            .lines()
            .filter_map(|line| line.get(..4).and_then(|code| code.trim().parse().ok()))
            .collect();
        assert_eq!(documented, all.map(Exit::code));
    }
}
