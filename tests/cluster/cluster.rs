//! The cluster: a PostgreSQL server, nodes as processes, and a gate on either side of each node.
//!
//! Clients reach node `n` at a url that stays the same over its restarts; the node has another port each
//! time. All gates pass and all nodes run when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::call::Client;
use crate::gate::{Gate, Mode, Speech};
use crate::postgres::{Postgres, Stop};
use crate::standby::{Commits, Standby};
use crate::support::node::{Home, Node};

pub(crate) const NODES: usize = 3;

pub(crate) struct Cluster {
    // In the order in which they go: nodes before their store.
    pub(crate) members: Vec<Member>,
    pub(crate) postgres: Postgres,
    pub(crate) standby: Option<Standby>,
    _folder: TempDir,
}

/// A node with its gates.
pub(crate) struct Member {
    pub(crate) number: usize,
    process: Option<Process>,
    pub(crate) to_store: Gate,
    pub(crate) from_clients: Gate,
}

enum Process {
    Up(Box<Node>),
    Down(Home),
}

impl Cluster {
    /// A cluster, or `None` and a note of the skip if this machine has no PostgreSQL.
    pub(crate) async fn start(what: &str) -> Option<Self> {
        let postgres = blocking(|| Postgres::start(what, &[]))?;
        let folder = TempDir::with_prefix("semel-cluster-").unwrap();
        let store: SocketAddr = ([127, 0, 0, 1], postgres.port()).into();
        let mut members = Vec::new();
        for number in 0..NODES {
            let to_store = Gate::open(Speech::Postgres, Some(store)).await;
            let from_clients = Gate::open(Speech::Any, None).await;
            let url = format!("postgres://semel@{}/postgres?sslmode=disable", to_store.address);
            let place = folder.path().join(format!("node-{number}"));
            std::fs::create_dir(&place).unwrap();
            let home = Home::at(&place, &["--store", &url, "--workers", "1", "--grace", "5s"]);
            let process = Some(Process::Down(home));
            let mut member = Member { number, process, to_store, from_clients };
            member.start();
            members.push(member);
        }
        Some(Self { members, postgres, standby: None, _folder: folder })
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

    /// Stops the server and starts it again.
    pub(crate) fn restart_store(&mut self, how: Stop) {
        self.stop_store(how);
        self.start_store();
    }

    pub(crate) fn stop_store(&mut self, how: Stop) {
        blocking(|| self.postgres.stop(how));
    }

    /// Starts the server, and waits until its standby has all of it, too. Before that nobody may fail over:
    /// after a crash the server shows commits that still waited for their standby.
    pub(crate) fn start_store(&mut self) {
        blocking(|| {
            self.postgres.start_again();
            if let Some(standby) = &self.standby {
                standby.catch_up(&self.postgres);
            }
        });
    }

    /// Gives the server a standby.
    pub(crate) fn add_standby(&mut self, commits: Commits) {
        self.standby = Some(blocking(|| Standby::of(&self.postgres, commits)));
    }

    /// The server dies, and its standby takes its place; there is no standby then.
    pub(crate) fn fail_over(&mut self) {
        let standby = self.standby.take().expect("a standby");
        self.postgres = blocking(|| {
            self.postgres.stop(Stop::Immediate);
            standby.promote()
        });
        let store: SocketAddr = ([127, 0, 0, 1], self.postgres.port()).into();
        for member in &self.members {
            member.to_store.lead_to(Some(store));
        }
    }

    /// The standby is away for so long, and commits wait for it.
    pub(crate) async fn without_standby(&mut self, lasts: Duration) {
        let standby = self.standby.as_mut().expect("a standby");
        blocking(|| standby.stop());
        tokio::time::sleep(lasts).await;
        blocking(|| standby.start_again(&self.postgres));
    }

    /// Opens all gates.
    pub(crate) fn heal(&self) {
        for member in &self.members {
            member.to_store.set(Mode::Pass);
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
        std::fs::write(kept.join("postgres.log"), self.postgres.log()).unwrap();
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
