//! Why a store did not open. Each message says what was found, that nothing was lost by looking,
//! and what to do.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Why [`EmbeddedStore::open`](super::EmbeddedStore::open) refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the directory open.
    #[error(
        "{} is in use by another process: a data directory belongs to one node; stop the other \
         one, or give this one a directory of its own",
        path.display()
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The journal does not hold what was acknowledged. Nothing was changed.
    #[error(
        "the journal {} is damaged at byte {offset}: {found}. Opening it would silently lose what \
         was acknowledged, so nothing was changed. Restore the data directory from a copy; or move \
         it aside and start anew, knowing that keys which it remembered may run again",
        path.display()
    )]
    JournalDamaged {
        /// The journal file.
        path: PathBuf,
        /// Where the last batch that can be trusted ends, in bytes.
        offset: u64,
        /// What speaks for a loss.
        found: String,
    },
    /// The tables do not hold what the journal and the mark prove.
    #[error(
        "the tables in {} are incomplete: {found}. Restore the data directory from a copy; or move \
         it aside and start anew, knowing that keys which it remembered may run again",
        path.display()
    )]
    TablesIncomplete {
        /// The directory of the tables.
        path: PathBuf,
        /// What is missing.
        found: String,
    },
    /// There is data, but the mark that says how much was acknowledged is gone.
    #[error(
        "{} is missing beside its data, so it can't be told whether the journal is complete. \
         Nothing was changed. Restore the data directory as a whole from a copy; or move it aside \
         and start anew, knowing that keys which it remembered may run again",
        path.display()
    )]
    MarkMissing {
        /// The file that is missing.
        path: PathBuf,
    },
    /// Neither slot of the mark can be read.
    #[error(
        "{} can't be read: neither of its slots has a valid checksum, so it can't be told whether \
         the journal is complete. Nothing was changed. Restore the data directory as a whole from \
         a copy; or move it aside and start anew, knowing that keys which it remembered may run \
         again",
        path.display()
    )]
    MarkUnreadable {
        /// The file.
        path: PathBuf,
    },
    /// The mark says that there was data, but it is gone.
    #[error(
        "{} is missing, though commit {acknowledged} was acknowledged. Nothing was changed. \
         Restore the data directory as a whole from a copy; or move it aside and start anew, \
         knowing that keys which it remembered may run again",
        path.display()
    )]
    DataMissing {
        /// The directory that is missing.
        path: PathBuf,
        /// The last commit that was acknowledged.
        acknowledged: u64,
    },
    /// A file or directory could not be used.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The tree refused, for a reason of its own.
    #[error("could not open the tables in {}: {source}", path.display())]
    Engine {
        /// The directory of the tables.
        path: PathBuf,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// An option is out of its range.
    #[error("{option} is {found}; it must be {allowed}")]
    Option {
        /// Which option.
        option: &'static str,
        /// What it was.
        found: u64,
        /// What it may be.
        allowed: &'static str,
    },
}

impl OpenError {
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(super) fn engine(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Engine { path: path.to_owned(), source: source.into() }
    }

    /// Whether trying again may help. What is damaged stays damaged.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Engine { .. })
    }
}
