//! A FoundationDB server of one process, in a directory of its own, on a loopback port. It ends when it
//! is dropped.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) struct Server {
    directory: TempDir,
    programs: Programs,
    port: u16,
    running: Option<Child>,
}

struct Programs {
    server: PathBuf,
    cli: PathBuf,
}

impl Server {
    /// A new server, or `None` if this machine has none.
    pub(crate) fn start() -> Option<Self> {
        let programs = Programs { server: program("fdbserver")?, cli: program("fdbcli")? };
        let directory = tempfile::tempdir().expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut server = Self { directory, programs, port, running: None };
        fs::create_dir(server.directory.path().join("data")).unwrap();
        fs::write(server.cluster_file(), format!("test:test@127.0.0.1:{port}\n")).unwrap();
        server.start_again();
        server.configure();
        Some(server)
    }

    pub(crate) fn cluster_file(&self) -> PathBuf {
        self.directory.path().join("fdb.cluster")
    }

    /// Starts it on the same port and the same data.
    pub(crate) fn start_again(&mut self) {
        assert!(self.running.is_none(), "the server runs");
        let log = self.directory.path().join("log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&self.programs.server);
        command.args(["--public-address", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--listen-address", "public", "--cluster-file"]).arg(self.cluster_file());
        command.arg("--datadir").arg(self.directory.path().join("data"));
        command.arg("--logdir").arg(self.directory.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running = Some(command.spawn().expect("the server starts"));
    }

    fn configure(&self) {
        let mut cli = Command::new(&self.programs.cli);
        cli.arg("-C").arg(self.cluster_file()).args(["--timeout", "60", "--exec"]);
        let done = cli.arg("configure new single memory").output().expect("fdbcli runs");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "the cluster is not configured: {said}");
    }

    /// Ends it as a crash does: with what it has on disk.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        child.kill().expect("the server is killed");
        child.wait().expect("the server ends");
    }

    /// Stops it from doing anything, or lets it go on.
    pub(crate) fn pause(&self, is_paused: bool) {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        let child = self.running.as_ref().expect("the server runs");
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).expect("the server is there");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program in `$SEMEL_TEST_FDB`, or on the path.
fn program(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("SEMEL_TEST_FDB").filter(|it| !it.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = given.map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    directories.map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Says that something was not tested; the runner of all tests collects what it says.
pub(crate) fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
    if let Some(path) = std::env::var_os("SEMEL_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).expect("the skips");
        writeln!(file, "{what}").expect("the skips can be written");
    }
}
