//! Three nodes over one PostgreSQL server, each at a port that stays the same over its restarts.

use tempfile::TempDir;

use crate::postgres::Postgres;
use crate::support::node::{Home, Node};

pub(crate) const NODES: usize = 3;

pub(crate) struct Fleet {
    // In the order in which they go: nodes before their store.
    nodes: Vec<Option<Node>>,
    _postgres: Postgres,
    _folder: TempDir,
}

impl Fleet {
    /// A fleet, or `None` and a note of the skip if this machine has no PostgreSQL.
    pub(crate) fn start(what: &str) -> Option<Self> {
        let postgres = Postgres::start(what, &[])?;
        let folder = TempDir::with_prefix("semel-fleet-").unwrap();
        let start = |number: usize| {
            let place = folder.path().join(format!("node-{number}"));
            std::fs::create_dir(&place).unwrap();
            let store = postgres.url();
            let options = ["--store", &store, "--workers", "1", "--grace", "5s"];
            Some(lasting(Home::at(&place, &options).start()))
        };
        let nodes = (0..NODES).map(start).collect();
        Some(Self { nodes, _postgres: postgres, _folder: folder })
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().expect("it runs")
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        (0..NODES).map(|number| self.node(number).url.clone()).collect()
    }

    /// Ends a node as a crash would, and gives its home.
    pub(crate) fn kill(&mut self, number: usize) -> Home {
        self.nodes[number].take().expect("it runs").kill()
    }

    /// Ends a node in order, and gives its home.
    pub(crate) fn terminate(&mut self, number: usize) -> Home {
        let node = self.nodes[number].take().expect("it runs");
        node.signal("TERM");
        let (status, home) = node.ended();
        assert!(status.success(), "{status}\n{}", home.log());
        home
    }

    pub(crate) fn start_again(&mut self, number: usize, home: Home) {
        self.nodes[number] = Some(home.start());
    }

    /// Checks that nothing in any node has panicked so far.
    pub(crate) fn assert_calm(&self) {
        (0..NODES).for_each(|number| self.node(number).assert_calm());
    }
}

/// The same node, which from now on listens where it listens now.
pub(crate) fn lasting(mut node: Node) -> Node {
    node.home.listen = node.url.trim_start_matches("http://").to_owned();
    node
}
