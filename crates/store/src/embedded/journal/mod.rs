//! The check of the journal before the tree may open it.
//!
//! The tree by itself stops reading at the first damage and cuts off what follows, without a word:
//! one bad page in the middle loses every commit after it. So the journal is read here first, and
//! nothing is changed while it is.
//!
//! Invariants of a healthy journal:
//! - the sequences of its batches rise by one, within a file and from file to file;
//! - after the last batch come only zeros (space that was reserved) or one torn write;
//! - what is proven durable is there. Proof is the acknowledged mark, each later batch's word on
//!   what was synced before it, and the start of a file, before which the last one was synced.
//!
//! A journal that breaks them is refused. Of a healthy one, whatever follows the last good batch is
//! cut off, so that the tree never meets it. What this does not do: judge tables.

pub(super) mod format;
mod reader;

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use super::error::OpenError;
use super::stamp::{Stamp, StoreId};
use format::Signature;
use reader::{Found, Reader};

/// What is known from elsewhere when a journal is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    /// Whose journal it must be.
    pub(super) store: StoreId,
    /// The last commit that was acknowledged as durable.
    pub(super) acknowledged: u64,
    /// Commits after this one are cut off, since their sync failed: what the system shows of them
    /// may never have reached the disk.
    pub(super) keep_through: u64,
}

/// A journal that was checked, and not changed yet.
#[derive(Debug)]
pub(super) struct Checked {
    /// The last good commit, if the journal holds any.
    pub(super) last: Option<Stamp>,
    /// The number of the first one.
    first: Option<u64>,
    /// The newest commit that must be there, and what proves it.
    proven: Proof,
    files: Vec<CheckedFile>,
}

#[derive(Clone, Debug)]
struct Proof {
    sequence: u64,
    why: String,
}

#[derive(Debug)]
struct CheckedFile {
    path: PathBuf,
    /// Where the last good batch ends.
    good_length: u64,
    length: u64,
    /// Whether anything but zeros follows.
    torn: bool,
}

impl Checked {
    /// Judges the tables by the last commit that they hold: they must reach the front of the
    /// journal, or all that is proven if the journal is empty. The error says what is missing.
    pub(super) fn judge_tables(&self, in_tables: u64) -> Result<(), String> {
        match self.first {
            Some(first) if in_tables + 1 < first => Err(format!(
                "they end at commit {in_tables}, but the oldest journal begins at commit {first}"
            )),
            None if in_tables < self.proven.sequence => Err(format!(
                "they end at commit {in_tables} and the journal is empty, but {}",
                self.proven.why
            )),
            _ => Ok(()),
        }
    }

    /// Cuts off what follows the last good batch of each file, and tells how many bytes of it were
    /// more than reserved space.
    pub(super) fn cut(&self) -> Result<u64, OpenError> {
        let mut torn_bytes = 0;
        for file in self.files.iter().filter(|file| file.good_length < file.length) {
            let cut = || -> io::Result<()> {
                let opened = OpenOptions::new().write(true).open(&file.path)?;
                opened.set_len(file.good_length)?;
                opened.sync_all()
            };
            cut().map_err(|error| OpenError::io("shorten", &file.path, error))?;
            if file.torn {
                torn_bytes += file.length - file.good_length;
            }
        }
        Ok(torn_bytes)
    }
}

/// Reads all journals in `directory` and judges them. Changes nothing.
pub(super) fn check(directory: &Path, expectation: &Expectation) -> Result<Checked, OpenError> {
    let paths = journals(directory).map_err(|error| OpenError::io("list", directory, error))?;
    let signature = Signature::new(expectation.store);
    let mut check = Check::new(directory, expectation);
    let mut buffer = Vec::new();
    for path in paths {
        check.file(&path, &signature, &mut buffer)?;
    }
    check.judge()
}

/// The journals, oldest first.
fn journals(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
            let number = number.ok_or_else(|| {
                io::Error::other(format!("{} is not named like a journal", path.display()))
            })?;
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The state of a check that is under way.
struct Check<'a> {
    expectation: &'a Expectation,
    files: Vec<CheckedFile>,
    first: Option<u64>,
    last: Option<Stamp>,
    proven: Proof,
    /// The first place where the batches stop being contiguous.
    break_at: Option<Break>,
    /// Where the last good batch ends: the place to name if more had to follow.
    end: (PathBuf, u64),
}

struct Break {
    path: PathBuf,
    offset: u64,
    batches_after: u64,
    first_after: u64,
}

impl<'a> Check<'a> {
    fn new(directory: &Path, expectation: &'a Expectation) -> Self {
        let acknowledged = expectation.acknowledged;
        Self {
            expectation,
            files: Vec::new(),
            first: None,
            last: None,
            proven: Proof {
                sequence: acknowledged,
                why: format!("commit {acknowledged} was acknowledged"),
            },
            break_at: None,
            end: (directory.to_owned(), 0),
        }
    }

    fn file(
        &mut self,
        path: &Path,
        signature: &Signature,
        buffer: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let read_error = |error| OpenError::io("read", path, error);
        let mut reader = Reader::open(path, signature, buffer).map_err(read_error)?;
        let mut file =
            CheckedFile { path: path.to_owned(), good_length: 0, length: 0, torn: false };
        loop {
            match reader.next().map_err(read_error)? {
                Found::Batch { stamp, .. } if stamp.sequence > self.expectation.keep_through => {
                    file.torn = true;
                }
                Found::Batch { offset, length, stamp } => {
                    self.batch(&mut file, offset, length, &stamp)?;
                }
                Found::Gap { all_zero, .. } => file.torn |= !all_zero,
                Found::End { offset } => {
                    file.length = offset;
                    break;
                }
            }
        }
        if file.good_length > 0 || self.files.is_empty() {
            self.end = (file.path.clone(), file.good_length);
        }
        self.files.push(file);
        Ok(())
    }

    fn batch(
        &mut self,
        file: &mut CheckedFile,
        offset: u64,
        length: u64,
        stamp: &Stamp,
    ) -> Result<(), OpenError> {
        self.prove(stamp.synced, || {
            format!("commit {} says that {} was synced", stamp.sequence, stamp.synced)
        });
        // The journals before the first one were removed because the tables hold them.
        let follows = self.last.is_none_or(|last| stamp.sequence == last.sequence + 1);
        if self.break_at.is_none() && follows && offset == file.good_length {
            file.good_length = offset + length;
            self.first.get_or_insert(stamp.sequence);
            self.last = Some(*stamp);
            return Ok(());
        }
        if self.last.is_some_and(|last| stamp.sequence <= last.sequence) {
            let what = format!("commit {} stands after a later one", stamp.sequence);
            return Err(damaged(&file.path, offset, what));
        }
        if offset == 0 {
            self.prove(stamp.sequence.saturating_sub(1), || {
                format!("commit {} begins a new file", stamp.sequence)
            });
        }
        let found = self.break_at.get_or_insert_with(|| Break {
            path: file.path.clone(),
            offset: file.good_length,
            batches_after: 0,
            first_after: stamp.sequence,
        });
        found.batches_after += 1;
        file.torn = true;
        Ok(())
    }

    fn prove(&mut self, sequence: u64, why: impl FnOnce() -> String) {
        if sequence > self.proven.sequence {
            self.proven = Proof { sequence, why: why() };
        }
    }

    fn judge(self) -> Result<Checked, OpenError> {
        let reached = self.last.map(|last| last.sequence);
        // Without any batch, the tables have the word.
        let complete = match (reached, &self.break_at) {
            (None, None) => true,
            (reached, _) => reached.unwrap_or(0) >= self.proven.sequence,
        };
        if complete {
            let Self { first, last, proven, files, .. } = self;
            return Ok(Checked { last, first, proven, files });
        }
        let reached = reached.map_or("no commit".to_owned(), |last| format!("commit {last}"));
        Err(match self.break_at {
            Some(Break { path, offset, batches_after, first_after }) => {
                let what = format!(
                    "{batches_after} whole commits follow the damage, the first of them commit \
                     {first_after}, while {reached} comes before it"
                );
                damaged(&path, offset, what)
            }
            None => {
                let what = format!("the journal ends at {reached}, but {}", self.proven.why);
                damaged(&self.end.0, self.end.1, what)
            }
        })
    }
}

fn damaged(path: &Path, offset: u64, found: String) -> OpenError {
    OpenError::JournalDamaged { path: path.to_owned(), offset, found }
}

#[cfg(test)]
mod tests;
