//! Three FoundationDB servers under the nodes. Whoever uses FoundationDB connects to the servers' own
//! addresses, so no gate stands between a node and its store: what fails is the servers.

use std::path::Path;

use rand::RngExt;

use super::Database;
use crate::cluster::{Cluster, blocking};
use crate::faults::Strike;
use crate::foundationdb_server::{FoundationDb, Redundancy};
use crate::support::settings::skip;

/// What can go wrong with the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// One of the servers dies, and is started again.
    ServerKill,
    /// One of the servers stands still for a while.
    ServerPause,
    /// All servers die, as when the power fails, and are started again.
    AllServersKill,
    /// All servers stand still, for longer than a node waits for any transaction.
    AllServersPause,
    /// A node dies while a server is away.
    KillAndServerKill,
}

impl Cluster<FoundationDb> {
    /// A cluster, or `None` and a note of the skip if this machine has no servers of FoundationDB.
    pub(crate) async fn over_foundationdb(what: &str) -> Option<Self> {
        let Some(database) = blocking(|| FoundationDb::start(Redundancy::Double)) else {
            skip(&format!("{what}: fdbserver and fdbcli are not on PATH"));
            return None;
        };
        Some(Self::start(database).await)
    }
}

impl Database for FoundationDb {
    type Fault = Fault;
    const FAULTS: &'static [Fault] = &[
        Fault::ServerKill,
        Fault::ServerPause,
        Fault::AllServersKill,
        Fault::AllServersPause,
        Fault::KillAndServerKill,
    ];

    fn address(&self, _node: usize, folder: &Path) -> String {
        format!("fdb:{}", self.cluster_file_in(folder).display())
    }

    async fn fail(strike: &mut Strike<'_, Self>, fault: Fault) {
        let server = strike.random.random_range(0..strike.cluster.database.servers());
        match fault {
            Fault::ServerKill => {
                strike.cluster.database.kill(server);
                strike.a_while(0..2_500).await;
                strike.cluster.database.start_again(server);
            }
            Fault::ServerPause => {
                strike.cluster.database.pause(server, true);
                strike.a_while(1_000..3_000).await;
                strike.cluster.database.pause(server, false);
            }
            Fault::AllServersKill => {
                strike.cluster.database.kill_all();
                strike.a_while(0..1_500).await;
                strike.cluster.database.start_all_again();
            }
            Fault::AllServersPause => {
                strike.cluster.database.pause_all(true);
                strike.a_while(10_500..12_000).await;
                strike.cluster.database.pause_all(false);
            }
            Fault::KillAndServerKill => {
                strike.cluster.database.kill(server);
                strike.a_while(100..300).await;
                strike.cluster.members[strike.node].kill();
                strike.a_while(500..1_500).await;
                strike.cluster.database.start_again(server);
                strike.start(strike.node);
            }
        }
        blocking(|| strike.cluster.database.await_ready());
    }

    fn stop(cluster: &mut Cluster<Self>) {
        cluster.database.kill_all();
    }

    fn start_again(cluster: &mut Cluster<Self>) {
        cluster.database.start_all_again();
        blocking(|| cluster.database.await_ready());
    }

    fn log(&self) -> String {
        FoundationDb::log(self)
    }
}
