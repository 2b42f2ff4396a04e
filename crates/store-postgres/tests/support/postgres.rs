//! A PostgreSQL server for one test: in a directory of its own, on a loopback port and a socket, ended
//! when it is dropped. Self-contained, so that other test benches can take it in by its path.
//!
//! The server refuses to run as root, so under root it runs as the user `nobody`.

#![allow(dead_code, reason = "each test bench uses a part of it")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user `nobody` of all Linux systems.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) struct Postgres {
    directory: TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    port: u16,
    running: Option<Running>,
}

struct Running {
    child: Child,
    log: JoinHandle<()>,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Sessions are ended, everything is written.
    Fast,
    /// As in a crash: nothing is written any more.
    Immediate,
}

impl Postgres {
    /// A new server, or `None` and a note of the skip if this machine has no PostgreSQL. `settings`
    /// are `name=value`.
    pub(crate) fn start(what: &str, settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            skip(&format!("{what}: no PostgreSQL server is installed"));
            return None;
        };
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self::without_data(programs, settings);
        server.init();
        server.start_again();
        Some(server)
    }

    /// Another server of the same programs and settings: it has no data yet, and does not run.
    pub(crate) fn another(&self) -> Self {
        Self::without_data(self.programs.clone(), self.settings.clone())
    }

    fn without_data(programs: PathBuf, settings: Vec<String>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        if is_root() {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("a directory for nobody");
        }
        Self { directory, programs, settings, port: free_port(), running: None }
    }

    fn init(&self) {
        let mut initdb = self.program("initdb");
        initdb.args(["--username=semel", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        finish(initdb.args(["--no-sync", "--pgdata"]).arg(self.data()));
    }

    /// Starts the server after it was stopped, on the same port and the same data.
    pub(crate) fn start_again(&mut self) {
        assert!(self.running.is_none(), "the server runs");
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.directory.path());
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.args(["-c", "max_connections=200", "-c", "log_min_messages=warning"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the server starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let (log, ready) = follow(lines, log);
        self.running = Some(Running { child, log });
        if ready.recv_timeout(PATIENCE).is_err() {
            panic!("the server is not ready: {}", self.log())
        }
    }

    /// Stops the server and waits until all of its processes are gone.
    pub(crate) fn stop(&mut self, how: Stop) {
        let Some(Running { mut child, log }) = self.running.take() else { return };
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        };
        // It may have ended by itself.
        let _ = kill_process(pid(&child), signal);
        child.wait().expect("the server ends");
        // The pipe is closed by the last of its processes.
        log.join().expect("the log is read to its end");
    }

    /// A connection string; the database is the one that every server has.
    pub(crate) fn url(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the socket.
    pub(crate) fn socket_directory(&self) -> &Path {
        self.directory.path()
    }

    /// A program of the server, as the user that the server runs as.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.directory.path()).stdin(Stdio::null()).stdout(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs SQL as the superuser, each statement by itself; returns the rows, their columns with `|`
    /// between them.
    pub(crate) fn sql(&self, statements: &[&str]) -> String {
        let mut psql = self.program("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "semel", "-d", "postgres", "-h"]);
        psql.arg(self.directory.path()).args(["-p", &self.port.to_string()]);
        for statement in statements {
            psql.args(["-c", statement]);
        }
        finish(psql.stdout(Stdio::piped()))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// What the server wrote to its log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).expect("the log is readable")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
    }
}

/// Runs a program to its end, which must be a good one; returns what it wrote, if that goes to a pipe.
pub(crate) fn finish(command: &mut Command) -> String {
    let output = command.stderr(Stdio::piped()).spawn().and_then(Child::wait_with_output);
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Copies the log to its file, and tells when the server is ready.
fn follow(lines: impl BufRead + Send + 'static, mut log: File) -> (JoinHandle<()>, Receiver<()>) {
    let (ready, is_ready) = sync_channel(1);
    let thread = std::thread::Builder::new().name("postgres-log".to_owned()).spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let _ = writeln!(log, "{line}");
            // A standby takes "read-only connections".
            if line.contains("system is ready to accept") {
                let _ = ready.try_send(());
            }
        }
    });
    (thread.expect("a thread"), is_ready)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a process id")).expect("a process id")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Where the programs of a server are: `$SEMEL_TEST_POSTGRES`, or the newest that Debian installed.
fn programs() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("SEMEL_TEST_POSTGRES").filter(|it| !it.is_empty()) {
        return Some(given.into());
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> =
        versions.filter_map(|it| Some(it.ok()?.path().join("bin"))).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

/// Says that something was not tested; the runner of all tests collects what it says.
pub(crate) fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
    if let Some(path) = std::env::var_os("SEMEL_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).expect("the skips");
        writeln!(file, "{what}").expect("the skips can be written");
    }
}
