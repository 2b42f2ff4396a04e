//! A running node, and everything that can happen to its process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use semel_proto::v1::keys_client::KeysClient;
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::command::semel;

/// A node's data directory and log, which outlive its process.
pub(crate) struct Home {
    pub(crate) data: PathBuf,
    /// Where to listen: a free port of this machine unless the test says otherwise.
    pub(crate) listen: String,
    log: PathBuf,
    /// Options of `semel serve` beside where it listens and keeps its data.
    options: Vec<String>,
    /// Variables of its environment, by name.
    pub(crate) variables: Vec<(String, String)>,
    /// Removed with everything in it when the home is dropped.
    _folder: Option<TempDir>,
}

impl Home {
    /// A home in a new folder.
    pub(crate) fn new(options: &[&str]) -> Self {
        let folder = TempDir::with_prefix("semel-test-").unwrap();
        let home = Self::at(folder.path(), options);
        Self { _folder: Some(folder), ..home }
    }

    /// A home in a folder that the caller looks after.
    pub(crate) fn at(folder: &Path, options: &[&str]) -> Self {
        Self {
            data: folder.join("data"),
            listen: "127.0.0.1:0".to_owned(),
            log: folder.join("log"),
            options: options.iter().map(ToString::to_string).collect(),
            variables: Vec::new(),
            _folder: None,
        }
    }

    /// The command line that serves this home.
    pub(crate) fn serve(&self) -> Command {
        let mut command = semel();
        command.args(["serve", "--json", "--listen", &self.listen, "--data"]);
        command.arg(&self.data).args(&self.options);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a node here.
    pub(crate) fn start(self) -> Node {
        let serve = self.serve();
        Node::spawn(self, serve)
    }

    /// Starts a node here, or tells why it would not start.
    pub(crate) fn try_start(self) -> Result<Node, Box<Refused>> {
        let serve = self.serve();
        Node::try_spawn(self, serve)
    }

    /// Starts a node that survives writing past a limit of its file sizes: it gets an error instead of
    /// a signal, as on a full disk.
    pub(crate) fn start_with_size_errors(self) -> Node {
        let serve = self.serve();
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(serve.get_program());
        shell.args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Node::spawn(self, shell)
    }

    /// What nodes here wrote to their standard error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A node that ended before it listened.
pub(crate) struct Refused {
    pub(crate) home: Home,
    /// What it said on its standard output.
    pub(crate) said: Value,
    pub(crate) code: Option<i32>,
}

impl std::fmt::Debug for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "it said {} and ended with {:?}", self.said, self.code)
    }
}

/// A node, ended by force when it is dropped.
pub(crate) struct Node {
    process: Process,
    pub(crate) home: Home,
    pub(crate) url: String,
    pub(crate) opened_ms: u64,
}

impl Node {
    /// A node with an empty store of its own.
    pub(crate) fn start(options: &[&str]) -> Self {
        Home::new(options).start()
    }

    fn spawn(home: Home, serve: Command) -> Self {
        Self::try_spawn(home, serve).unwrap_or_else(|refused| {
            panic!("the node did not start: {refused:?}\n{}", refused.home.log())
        })
    }

    fn try_spawn(home: Home, mut serve: Command) -> Result<Self, Box<Refused>> {
        let log = File::options().create(true).append(true).open(&home.log).unwrap();
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = Process(serve.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(address) = said["listening"].as_str() else {
            let code = process.0.wait().unwrap().code();
            return Err(Box::new(Refused { home, said, code }));
        };
        let opened_ms = said["opened_ms"].as_u64().unwrap();
        Ok(Self { process, home, url: format!("http://{address}"), opened_ms })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Ends the process as a crash would: no handler runs.
    pub(crate) fn kill(self) -> Home {
        drop(self.process);
        self.home
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let killed = Command::new("sh").args(["-c", "kill -s $0 $1", name, &pid]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits for the end of the process.
    pub(crate) fn ended(mut self) -> (ExitStatus, Home) {
        let status = self.process.0.wait().unwrap();
        (status, self.home)
    }

    /// Bounds the size of every file that the node writes; `None` takes the bound away.
    pub(crate) fn limit_file_bytes(&self, limit: Option<u64>) {
        let limit = limit.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let pid = self.pid().to_string();
        // The soft limit alone, so that it can be raised again.
        let option = format!("--fsize={limit}:");
        let set = Command::new("prlimit").args(["--pid", &pid, &option]).status().unwrap();
        assert!(set.success());
    }

    /// What the process holds of memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1_024
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.url.clone()).unwrap();
        endpoint.connect_timeout(Duration::from_secs(10)).connect().await.unwrap()
    }

    /// A client on a connection of its own.
    pub(crate) async fn keys(&self) -> KeysClient<Channel> {
        KeysClient::new(self.connect().await).max_decoding_message_size(usize::MAX)
    }

    /// Clients on connections of their own.
    pub(crate) async fn clients(&self, connections: usize) -> Vec<KeysClient<Channel>> {
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(self.keys().await);
        }
        clients
    }

    /// Checks that nothing in the node has panicked so far.
    pub(crate) fn assert_calm(&self) {
        let log = self.home.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// A process that ends with its handle.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
