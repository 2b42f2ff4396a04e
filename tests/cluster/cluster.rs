//! The cluster: nodes as processes over one database, and a gate between each node and its clients.
//!
//! Clients reach node `n` at a url that stays the same over its restarts; the node has another port each
//! time. All gates pass and all nodes run when it starts.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::call::Client;
use crate::databases::Database;
use crate::gate::{Gate, Mode, Speech};
use crate::support::node::{Home, Node};

pub(crate) const NODES: usize = 3;

pub(crate) struct Cluster<D> {
    // In the order in which they go: nodes before their store.
    pub(crate) members: Vec<Member>,
    pub(crate) database: D,
    _folder: TempDir,
}

/// A node with its gate.
pub(crate) struct Member {
    pub(crate) number: usize,
    process: Option<Process>,
    pub(crate) from_clients: Gate,
}

enum Process {
    Up(Box<Node>),
    Down(Home),
}

impl<D: Database> Cluster<D> {
    /// Starts nodes over a database that runs.
    pub(crate) async fn start(database: D) -> Self {
        let folder = TempDir::with_prefix("semel-cluster-").unwrap();
        let mut members = Vec::new();
        for number in 0..NODES {
            let from_clients = Gate::open(Speech::Any, None).await;
            let place = folder.path().join(format!("node-{number}"));
            std::fs::create_dir(&place).unwrap();
            let store = database.address(number, &place);
            let home = Home::at(&place, &["--store", &store, "--workers", "1", "--grace", "5s"]);
            let process = Some(Process::Down(home));
            let mut member = Member { number, process, from_clients };
            member.start();
            members.push(member);
        }
        Self { members, database, _folder: folder }
    }

    /// Stops the nodes one by one, and starts them again on ports that stay the same from then on; clients
    /// can reach those without a gate in between.
    pub(crate) fn settle_on_ports(&mut self) {
        for member in &mut self.members {
            member.terminate();
            let Some(Process::Down(home)) = member.process.as_mut() else { panic!("it runs") };
            home.listen = format!("127.0.0.1:{}", lasting_port());
            member.start();
        }
    }

    /// A client of each node, on connections of their own that no gate stands in.
    pub(crate) fn clients_without_gates(&self) -> Vec<Client> {
        self.members.iter().map(|member| Client::at(&member.node().url)).collect()
    }

    /// A client of each node, on connections of their own.
    pub(crate) fn clients(&self) -> Vec<Client> {
        self.members.iter().map(Member::client).collect()
    }

    /// Opens all gates between nodes and their clients.
    pub(crate) fn open_to_clients(&self) {
        for member in &self.members {
            member.from_clients.set(Mode::Pass);
        }
    }

    /// Checks that nothing in any node has panicked so far.
    pub(crate) fn assert_calm(&self) {
        for member in &self.members {
            let log = member.log();
            assert!(!log.contains("panicked"), "node {}: {log}", member.number);
        }
    }

    /// Keeps the logs of all nodes, and says where.
    pub(crate) fn keep_logs(&self, name: &str) -> PathBuf {
        let kept = kept_folder(name);
        for member in &self.members {
            std::fs::write(kept.join(format!("node-{}.log", member.number)), member.log()).unwrap();
        }
        std::fs::write(kept.join("database.log"), self.database.log()).unwrap();
        kept
    }
}

/// A free port that no outgoing connection will take while its node is down.
fn lasting_port() -> u16 {
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (first..32_000).find(free).expect("a free port")
}

/// A folder beside the built tests that outlives the test.
pub(crate) fn kept_folder(name: &str) -> PathBuf {
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&kept).unwrap();
    kept
}

impl Member {
    pub(crate) fn client(&self) -> Client {
        Client::at(&format!("http://{}", self.from_clients.address))
    }

    pub(crate) fn node(&self) -> &Node {
        match self.process.as_ref() {
            Some(Process::Up(node)) => node,
            _ => panic!("node {} is down", self.number),
        }
    }

    pub(crate) fn log(&self) -> String {
        match self.process.as_ref() {
            Some(Process::Up(node)) => node.home.log(),
            Some(Process::Down(home)) => home.log(),
            None => String::new(),
        }
    }

    /// Starts the node, on a port of its own.
    pub(crate) fn start(&mut self) {
        let Some(Process::Down(home)) = self.process.take() else { panic!("it runs") };
        let node = blocking(|| home.start());
        let address = node.url.strip_prefix("http://").unwrap().parse().unwrap();
        self.from_clients.lead_to(Some(address));
        self.process = Some(Process::Up(Box::new(node)));
    }

    /// Ends the node as a crash would.
    pub(crate) fn kill(&mut self) {
        let Some(Process::Up(node)) = self.process.take() else { panic!("it is down") };
        self.process = Some(Process::Down(blocking(|| node.kill())));
    }

    /// Tells the node to stop, and waits until it did.
    pub(crate) fn terminate(&mut self) {
        let Some(Process::Up(node)) = self.process.take() else { panic!("it is down") };
        let (status, home) = blocking(|| {
            node.signal("TERM");
            node.ended()
        });
        assert!(status.success(), "node {} ended with {status}: {}", self.number, home.log());
        self.process = Some(Process::Down(home));
    }

    /// Sets the environment of the next start.
    pub(crate) fn set_variables(&mut self, variables: &[(&str, &str)]) {
        let Some(Process::Down(home)) = self.process.as_mut() else { panic!("it runs") };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        home.variables = variables.iter().map(owned).collect();
    }
}

/// Waits for a process without keeping the other tasks of this thread waiting.
pub(crate) fn blocking<R>(wait: impl FnOnce() -> R) -> R {
    tokio::task::block_in_place(wait)
}
