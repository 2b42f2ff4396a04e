//! Servers as child processes: started, found, looked at, and ended again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::failure::Failure;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);
/// How long a server may take to end once its input is closed.
const END: Duration = Duration::from_secs(30);

/// A child that serves until it is stopped, and never longer than this process lives: its standard
/// input is a pipe from here, and it ends when that closes.
pub(crate) struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    url: String,
    data: Option<TempDir>,
}

/// What a server says on its standard output as soon as it listens.
#[derive(Deserialize)]
struct Hello {
    listening: String,
}

impl ServerProcess {
    /// The reference.
    pub(crate) async fn noop() -> Result<Self, Failure> {
        Self::start(&["bench-noop-server"], None).await
    }

    /// A node with an empty store in a temporary directory.
    pub(crate) async fn node() -> Result<Self, Failure> {
        let data = TempDir::with_prefix("semel-bench-")
            .map_err(|error| Failure::broken(format!("making a data directory: {error}")))?;
        let path = data.path().to_string_lossy().into_owned();
        // With the defaults, whatever settings lie about where it is started.
        let arguments =
            ["serve", "--config", "/dev/null", "--listen", "127.0.0.1:0", "--data", &path];
        Self::start(&[&arguments[..], &["--with-parent"]].concat(), Some(data)).await
    }

    async fn start(arguments: &[&str], data: Option<TempDir>) -> Result<Self, Failure> {
        let broken = |error: std::io::Error| {
            Failure::broken(format!("starting `semel {}`: {error}", arguments.join(" ")))
        };
        let program = std::env::current_exe().map_err(broken)?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--json")
            .env("SEMEL_LOG", std::env::var("SEMEL_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(broken)?;
        let input = child.stdin.take();
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let mut output = BufReader::new(output);
            timeout(START, output.read_line(&mut line))
                .await
                .map_err(|_| Failure::broken("the server does not say where it listens"))?
                .map_err(broken)?;
        }
        let hello: Hello = serde_json::from_str(&line)
            .map_err(|_| Failure::broken(format!("the server did not start: {}", line.trim())))?;
        Ok(Self { child, input, url: format!("http://{}", hello.listening), data })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Ends it and waits until it is gone: first by closing its input, in the end by force.
    pub(crate) async fn stop(&mut self) {
        self.input.take();
        if timeout(END, self.child.wait()).await.is_err() {
            // It is gone already if this fails.
            let _ = self.child.kill().await;
        }
    }

    /// What it holds of memory, now and at its most, in bytes.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        Memory::parse(&status)
    }

    /// What its store holds of the disk, in bytes.
    pub(crate) fn store_bytes(&self) -> Option<u64> {
        self.data.as_ref().map(|data| disk_bytes(data.path()))
    }
}

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Now.
    pub(crate) now: u64,
    /// At its most.
    pub(crate) peak: u64,
}

impl Memory {
    fn parse(status: &str) -> Option<Self> {
        let bytes_of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1_024)
        };
        Some(Self { now: bytes_of("VmRSS:")?, peak: bytes_of("VmHWM:")? })
    }
}

/// What the files under `path` take. A file that vanishes meanwhile counts as nothing.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(
            |(path, metadata)| {
                if metadata.is_dir() { disk_bytes(&path) } else { metadata.blocks() * 512 }
            },
        )
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tsemel\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { now: 1 << 20, peak: 2 << 20 }));
        assert_eq!(Memory::parse("Name:\tsemel\n"), None);
    }

    #[test]
    fn disk_space_is_counted_in_all_folders() {
        let folder = TempDir::new().unwrap();
        assert_eq!(disk_bytes(folder.path()), 0);
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/file"), vec![1; 100_000]).unwrap();
        assert!(disk_bytes(folder.path()) >= 100_000);
        assert_eq!(disk_bytes(Path::new("/no/such/folder")), 0);
    }
}
