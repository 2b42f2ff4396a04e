//! A FoundationDB cluster for one test: its servers in a directory of its own, on loopback ports, ended when
//! it is dropped. Self-contained, so that other test benches can take it in by its path.
//!
//! Invariant: a server has the same port and the same data over its restarts, and no outgoing connection
//! takes the port meanwhile.

#![allow(dead_code, reason = "each test bench uses a part of it")]

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long the cluster may take to answer, in seconds.
const PATIENCE_SECONDS: &str = "90";

/// How much a cluster survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redundancy {
    /// One server, which has everything.
    Single,
    /// Three servers: each record is on two of them, and all coordinate.
    Double,
}

pub(crate) struct FoundationDb {
    directory: TempDir,
    programs: Programs,
    servers: Vec<Server>,
}

struct Programs {
    server: PathBuf,
    cli: PathBuf,
}

/// One process of the cluster.
struct Server {
    port: u16,
    folder: PathBuf,
    running: Option<Child>,
}

impl FoundationDb {
    /// A new cluster, or `None` if this machine has no FoundationDB on its path.
    pub(crate) fn start(redundancy: Redundancy) -> Option<Self> {
        let programs = Programs { server: program("fdbserver")?, cli: program("fdbcli")? };
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (count, mode) = match redundancy {
            Redundancy::Single => (1, "single"),
            Redundancy::Double => (3, "double"),
        };
        let mut servers = Vec::new();
        for (number, port) in lasting_ports(count).into_iter().enumerate() {
            let folder = directory.path().join(format!("server-{number}"));
            fs::create_dir(&folder).expect("a folder for a server");
            servers.push(Server { port, folder, running: None });
        }
        let mut cluster = Self { directory, programs, servers };
        let addresses: Vec<String> = cluster.servers.iter().map(Server::address).collect();
        let description = format!("test:test@{}\n", addresses.join(","));
        fs::write(cluster.cluster_file(), &description).expect("the cluster file");
        for server in &cluster.servers {
            fs::write(server.cluster_file(), &description).expect("a server's cluster file");
        }
        for server in &mut cluster.servers {
            server.start(&cluster.programs.server);
        }
        cluster.cli(&format!("configure new {mode} ssd"));
        cluster.await_ready();
        Some(cluster)
    }

    /// How many servers there are; they are numbered from 0.
    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The cluster file of whoever needs none of its own.
    pub(crate) fn cluster_file(&self) -> PathBuf {
        self.directory.path().join("fdb.cluster")
    }

    /// A cluster file of a client's own, in a folder that it may write to.
    pub(crate) fn cluster_file_in(&self, folder: &Path) -> PathBuf {
        let own = folder.join("fdb.cluster");
        fs::copy(self.cluster_file(), &own).expect("a copy of the cluster file");
        own
    }

    /// Ends a server as a crash does: with what it has on disk.
    pub(crate) fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// Starts a server again on the same port and the same data; it does not wait for it.
    pub(crate) fn start_again(&mut self, server: usize) {
        self.servers[server].start(&self.programs.server);
    }

    /// Ends all servers as a loss of power does.
    pub(crate) fn kill_all(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
    }

    /// Starts all servers again.
    pub(crate) fn start_all_again(&mut self) {
        for server in 0..self.servers() {
            self.start_again(server);
        }
    }

    /// Stops a server from doing anything, or lets it go on.
    pub(crate) fn pause(&self, server: usize, is_paused: bool) {
        self.servers[server].signal(if is_paused { Signal::STOP } else { Signal::CONT });
    }

    /// Stops all servers from doing anything, or lets them go on.
    pub(crate) fn pause_all(&self, is_paused: bool) {
        for server in 0..self.servers() {
            self.pause(server, is_paused);
        }
    }

    /// Waits until the cluster takes transactions.
    pub(crate) fn await_ready(&self) {
        self.cli("getversion");
    }

    /// Waits until the cluster could lose a server and go on at once. For most of a minute after one came back it
    /// goes on only some 17 s later, whatever it says of the failures that it survives.
    #[allow(
        clippy::disallowed_methods,
        reason = "the cluster says how it is only when it is asked"
    )]
    pub(crate) fn await_spare(&self) {
        const TRIES: u32 = 300;
        const PAUSE: Duration = Duration::from_millis(500);
        let spare = r#""name" : "healthy""#;
        let mut said = String::new();
        for _ in 0..TRIES {
            said = self.cli("status json");
            if said.contains(spare) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the cluster can lose no server: {said}");
    }

    /// Runs a command of `fdbcli`, and returns what it said.
    pub(crate) fn cli(&self, command: &str) -> String {
        let mut cli = Command::new(&self.programs.cli);
        cli.arg("-C").arg(self.cluster_file()).args(["--timeout", PATIENCE_SECONDS, "--exec"]);
        let done = cli.arg(command).stdin(Stdio::null()).output().expect("fdbcli runs");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{command}: {said}\n{}", self.log());
        said
    }

    /// What the servers wrote, and the errors in their traces.
    pub(crate) fn log(&self) -> String {
        self.servers.iter().map(Server::log).collect()
    }
}

impl Drop for FoundationDb {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// It writes there who coordinates.
    fn cluster_file(&self) -> PathBuf {
        self.folder.join("fdb.cluster")
    }

    fn start(&mut self, program: &Path) {
        assert!(self.running.is_none(), "the server runs");
        let log = self.folder.join("log");
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = Command::new(program);
        command.args(["--public-address", &self.address(), "--listen-address", "public"]);
        command.arg("--cluster-file").arg(self.cluster_file());
        command.arg("--datadir").arg(self.folder.join("data"));
        command.arg("--logdir").arg(&self.folder);
        // Each counts as a machine of its own, and takes no more memory than a test can spare.
        for locality in ["zoneid", "machineid"] {
            command.arg(format!("--locality-{locality}=of-{}", self.port));
        }
        command.args(["--memory", "2GiB", "--cache-memory", "128MiB"]);
        // It ends with the tests, however they end.
        command.args(["--parentpid", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.running = Some(command.spawn().expect("the server starts"));
    }

    fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        child.kill().expect("the server is killed");
        child.wait().expect("the server ends");
    }

    fn signal(&self, signal: Signal) {
        let child = self.running.as_ref().expect("the server runs");
        let pid = Pid::from_raw(child.id().try_into().expect("a process id"));
        kill_process(pid.expect("a process id"), signal).expect("the server is there");
    }

    fn log(&self) -> String {
        let mut log = format!("server {}:\n", self.address());
        let files = fs::read_dir(&self.folder).expect("the folder of the server");
        let mut files: Vec<PathBuf> = files.filter_map(|it| Some(it.ok()?.path())).collect();
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            let is_trace = file.extension().is_some_and(|it| it == "xml");
            let text = fs::read_to_string(file).unwrap_or_default();
            for line in text.lines().filter(|it| !is_trace || it.contains(r#"Severity="40""#)) {
                log.push_str(line);
                log.push('\n');
            }
        }
        log
    }
}

/// Free ports that no outgoing connection will take while their servers are down.
fn lasting_ports(count: usize) -> Vec<u16> {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 10_000 + u16::try_from(std::process::id() % 10_000).expect("less than 10,000");
    let ports: Vec<u16> = (first..32_000).filter(free).take(count).collect();
    assert_eq!(ports.len(), count, "free ports");
    ports
}

/// A program on the path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Says that something was not tested; the runner of all tests collects what it says.
pub(crate) fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
    if let Some(path) = std::env::var_os("SEMEL_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).expect("the skips");
        writeln!(file, "{what}").expect("the skips can be written");
    }
}
