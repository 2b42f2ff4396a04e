//! A node that is stopped in the middle of its updates: a process of its own, since a thread can't be
//! stopped.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use semel_store::{Clock, Durability, Store, SystemClock, Update};
use semel_store_postgres::{PostgresOptions, PostgresStore};

use crate::postgres::Postgres;
use crate::steps::{Step, foreign, item, node};

const URL: &str = "SEMEL_TEST_STOPPED_NODE";
const ROUNDS: usize = 60;

fn batch() -> Vec<Update<Step>> {
    (0..64).map(|key| item(&format!("key {key:02}"), Durability::Synced, Step::Add)).collect()
}

/// Not a test: the node that is stopped. It runs until it is killed.
#[tokio::test]
async fn the_node_that_is_stopped() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = PostgresStore::open(PostgresOptions::parse(&url).unwrap()).await.unwrap();
    loop {
        // It may lose against the other one, or find that its connections are gone.
        let _ = store.update(batch()).await;
    }
}

struct Stopped(Child);

impl Stopped {
    fn start(server: &Postgres) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "stopped::the_node_that_is_stopped"]).env(URL, server.url());
        Self(command.stdout(Stdio::null()).spawn().expect("the node starts"))
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().expect("a process id"));
        kill_process(pid.expect("a process"), signal).expect("the node runs");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_stopped_is_in_nobodys_way() {
    let Some(server) = Postgres::start("a stopped node", &[]) else { return };
    let node = node(&server).await;
    let stopped = Stopped::start(&server);
    let client = foreign(&server).await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'semel'";
    while client.count(sessions).await < 12 {}
    let mut slowest_us = 0;
    for round in 0..ROUNDS {
        // Each time at another moment of its rounds, which take some milliseconds.
        tokio::time::sleep(Duration::from_micros(u64::try_from(round).unwrap() * 337 % 7_000))
            .await;
        stopped.signal(Signal::STOP);
        let began_us = SystemClock.monotonic_us();
        for answer in node.update(batch()).await {
            answer.expect("nobody holds anything");
        }
        slowest_us = slowest_us.max(SystemClock.monotonic_us() - began_us);
        stopped.signal(Signal::CONT);
    }
    println!("beside a stopped node, the slowest of {ROUNDS} updates took {slowest_us} µs");
    assert!(slowest_us < 1_000_000, "an update took {slowest_us} µs");
}
