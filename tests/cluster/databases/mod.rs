//! The database under a cluster: how nodes reach it, and what can go wrong with it.
//!
//! - `postgres`: a server, perhaps with a standby, and a gate between it and each node
//! - `foundationdb`: three servers, which nodes reach at their own addresses

use std::fmt::Debug;
use std::path::Path;

use crate::cluster::Cluster;
use crate::faults::Strike;

mod foundationdb;
mod postgres;

pub(crate) use self::postgres::GatedPostgres;

/// A database that nodes share.
pub(crate) trait Database: Sized {
    /// What can go wrong with it, and between it and the nodes.
    type Fault: Copy + Debug + 'static;
    /// All of that.
    const FAULTS: &'static [Self::Fault];

    /// Where a node finds it, given its number and a folder of its own.
    fn address(&self, node: usize, folder: &Path) -> String;

    /// Lets one of these happen. Everything is whole again at its end.
    async fn fail(strike: &mut Strike<'_, Self>, fault: Self::Fault);

    /// Ends it as a crash does.
    fn stop(cluster: &mut Cluster<Self>);

    /// Starts it with what it has on disk, and waits until it takes transactions.
    fn start_again(cluster: &mut Cluster<Self>);

    /// What it wrote to its log so far.
    fn log(&self) -> String;
}
