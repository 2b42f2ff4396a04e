//! The few operations on files that must reach the disk before the next step.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes what was created, renamed or removed in `directory` durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Renames within one directory, durably.
pub(super) fn rename_synced(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    to.parent().map_or(Ok(()), sync_directory)
}

/// Removes a file; none there is no error.
pub(super) fn remove_file_if_there(path: &Path) -> io::Result<()> {
    absent_is_fine(std::fs::remove_file(path))
}

/// Removes a directory and all in it; none there is no error.
pub(super) fn remove_directory_if_there(path: &Path) -> io::Result<()> {
    absent_is_fine(std::fs::remove_dir_all(path))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
