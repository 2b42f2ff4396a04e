//! A PostgreSQL server under the nodes, perhaps with a standby, and a gate between it and each node.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rand::RngExt;

use super::Database;
use crate::cluster::{Cluster, NODES, blocking};
use crate::faults::Strike;
use crate::gate::{Gate, Mode, Speech};
use crate::postgres::{Postgres, Stop};
use crate::standby::{Commits, Standby};

/// The server, and how the nodes reach it.
pub(crate) struct GatedPostgres {
    pub(crate) server: Postgres,
    pub(crate) standby: Option<Standby>,
    /// One for each node.
    pub(crate) gates: Vec<Gate>,
}

/// What can go wrong with the server, and on the way to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A node is reset from its store, or hears nothing from it, or nothing passes.
    StoreCut,
    StoreMute,
    StoreHeld,
    /// Everything is late, everywhere.
    Slow,
    /// A node hears no wake-ups.
    Deaf,
    /// A node dies while another does not hear its store.
    KillAndStoreMute,
    /// The store is stopped, in order or as in a crash, and started.
    StoreRestart,
    StoreCrash,
    /// The store dies for good, and its standby takes its place.
    FailOver,
    /// The store's standby is away, and all commits wait for it.
    StandbyAway,
}

impl Cluster<GatedPostgres> {
    /// A cluster, or `None` and a note of the skip if this machine has no PostgreSQL.
    pub(crate) async fn over_postgres(what: &str) -> Option<Self> {
        let server = blocking(|| Postgres::start(what, &[]))?;
        let store: SocketAddr = ([127, 0, 0, 1], server.port()).into();
        let mut gates = Vec::new();
        for _ in 0..NODES {
            gates.push(Gate::open(Speech::Postgres, Some(store)).await);
        }
        let database = GatedPostgres { server, standby: None, gates };
        Some(Self::start(database).await)
    }

    /// Stops the server and starts it again.
    fn restart_store(&mut self, how: Stop) {
        blocking(|| self.database.server.stop(how));
        GatedPostgres::start_again(self);
    }

    /// Gives the server a standby.
    pub(crate) fn add_standby(&mut self, commits: Commits) {
        let database = &mut self.database;
        database.standby = Some(blocking(|| Standby::of(&database.server, commits)));
    }

    /// The server dies, and its standby takes its place; there is no standby then.
    pub(crate) fn fail_over(&mut self) {
        let database = &mut self.database;
        let standby = database.standby.take().expect("a standby");
        database.server = blocking(|| {
            database.server.stop(Stop::Immediate);
            standby.promote()
        });
        let store: SocketAddr = ([127, 0, 0, 1], database.server.port()).into();
        for gate in &database.gates {
            gate.lead_to(Some(store));
        }
    }

    /// The standby is away for so long, and commits wait for it.
    async fn without_standby(&mut self, lasts: Duration) {
        let GatedPostgres { server, standby, .. } = &mut self.database;
        let standby = standby.as_mut().expect("a standby");
        blocking(|| standby.stop());
        tokio::time::sleep(lasts).await;
        blocking(|| standby.start_again(server));
    }

    /// Opens the gates to the store, or shuts them.
    pub(crate) fn set_store_gates(&self, mode: Mode) {
        for gate in &self.database.gates {
            gate.set(mode);
        }
    }
}

impl Database for GatedPostgres {
    type Fault = Fault;
    const FAULTS: &'static [Fault] = &[
        Fault::StoreCut,
        Fault::StoreMute,
        Fault::StoreHeld,
        Fault::Slow,
        Fault::Deaf,
        Fault::KillAndStoreMute,
        Fault::StoreRestart,
        Fault::StoreCrash,
        Fault::FailOver,
        Fault::StandbyAway,
    ];

    fn address(&self, node: usize, _folder: &Path) -> String {
        format!("postgres://semel@{}/postgres?sslmode=disable", self.gates[node].address)
    }

    async fn fail(strike: &mut Strike<'_, Self>, fault: Fault) {
        match fault {
            Fault::StoreCut => between_store(strike, Mode::Cut).await,
            Fault::StoreMute => between_store(strike, Mode::HoldReplies).await,
            Fault::StoreHeld => between_store(strike, Mode::Hold).await,
            Fault::Deaf => between_store(strike, Mode::Deaf).await,
            Fault::Slow => slow(strike).await,
            Fault::KillAndStoreMute => {
                let muted = (strike.node + 1) % NODES;
                strike.cluster.database.gates[muted].set(Mode::HoldReplies);
                strike.a_while(100..300).await;
                strike.cluster.members[strike.node].kill();
                strike.start(strike.node);
                strike.a_while(500..1_500).await;
                strike.cluster.database.gates[muted].set(Mode::Pass);
            }
            Fault::StoreRestart => strike.cluster.restart_store(Stop::Fast),
            Fault::StoreCrash => strike.cluster.restart_store(Stop::Immediate),
            Fault::FailOver => {
                strike.cluster.fail_over();
                strike.a_while(500..2_000).await;
                strike.cluster.add_standby(Commits::WaitForStandby);
            }
            Fault::StandbyAway => {
                let away = Duration::from_millis(strike.random.random_range(300..2_500));
                strike.cluster.without_standby(away).await;
            }
        }
    }

    fn stop(cluster: &mut Cluster<Self>) {
        blocking(|| cluster.database.server.stop(Stop::Immediate));
    }

    /// It waits until its standby has all of it, too. Before that nobody may fail over: after a crash the
    /// server shows commits that still waited for their standby.
    fn start_again(cluster: &mut Cluster<Self>) {
        let GatedPostgres { server, standby, .. } = &mut cluster.database;
        blocking(|| {
            server.start_again();
            if let Some(standby) = standby {
                standby.catch_up(server);
            }
        });
    }

    fn log(&self) -> String {
        self.server.log()
    }
}

async fn between_store(strike: &mut Strike<'_, GatedPostgres>, mode: Mode) {
    strike.cluster.database.gates[strike.node].set(mode);
    strike.a_while(300..3_000).await;
    strike.cluster.database.gates[strike.node].set(Mode::Pass);
}

async fn slow(strike: &mut Strike<'_, GatedPostgres>) {
    for node in 0..NODES {
        let late = Mode::Delay(Duration::from_millis(strike.random.random_range(5..80)));
        strike.cluster.database.gates[node].set(late);
        strike.cluster.members[node].from_clients.set(late);
    }
    strike.a_while(1_000..3_000).await;
    strike.cluster.set_store_gates(Mode::Pass);
    strike.cluster.open_to_clients();
}
