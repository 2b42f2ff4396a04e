//! The promises of a cluster over three FoundationDB servers. What clients may see is what they may see over
//! PostgreSQL, and the same load and the same checkers judge it.

use std::time::Duration;

use crate::call::now_us;
use crate::cluster::{Cluster, blocking};
use crate::support::command::run;
use crate::{clocks, losses, one_key, rolling, soak, wakes, watches};

/// How long a client of the losses waits for one node.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How soon a cluster that lost a server must serve again, on a machine that runs other tests.
const RECOVERED_MAX_US: u64 = 10_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_whatever_fails() {
    let what = "the cluster over FoundationDB under faults";
    let Some(cluster) = Cluster::over_foundationdb(what).await else { return };
    soak::soak(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_is_given_the_claim_and_all_get_the_same_bytes() {
    let what = "one key on three nodes over FoundationDB";
    let Some(cluster) = Cluster::over_foundationdb(what).await else { return };
    one_key::race(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_on_another_node_is_woken() {
    let what = "wake-ups between nodes over FoundationDB";
    let Some(cluster) = Cluster::over_foundationdb(what).await else { return };
    wakes::wake(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_is_told_by_every_node() {
    let what = "watches of breakers over FoundationDB";
    let Some(cluster) = Cluster::over_foundationdb(what).await else { return };
    watches::watch(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_whose_clock_is_off_goes_by_the_stores_and_then_refuses() {
    let what = "a node over FoundationDB whose clock is off";
    let Some(mut cluster) = Cluster::over_foundationdb(what).await else { return };
    clocks::go_off(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rolling_restart_fails_no_call_and_grants_no_token_twice() {
    let what = "a rolling restart over FoundationDB";
    let Some(mut cluster) = Cluster::over_foundationdb(what).await else { return };
    rolling::roll(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_node_costs_its_clients_a_delay_and_nothing_else() {
    let what = "a lost node over FoundationDB";
    let Some(mut cluster) = Cluster::over_foundationdb(what).await else { return };
    losses::lose_nodes(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_store_is_told_in_time_and_forgotten_when_it_is_back() {
    let what = "a lost FoundationDB";
    let Some(mut cluster) = Cluster::over_foundationdb(what).await else { return };
    // The client library goes on looking for it, so a transaction is given up after 10 s, and nobody knows
    // before.
    let lost = losses::Lost { says_so: false, noticed_max_us: 14_000_000 };
    losses::lose_store(&mut cluster, &lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_server_costs_a_delay_and_nothing_else() {
    let what = "a lost server of FoundationDB";
    let Some(mut cluster) = Cluster::over_foundationdb(what).await else { return };
    for server in 0..cluster.database.servers() {
        let name = format!("server-{server}");
        blocking(|| cluster.database.await_spare());
        let met = losses::working(&mut cluster, &name, PATIENCE, async |cluster| {
            cluster.database.kill(server);
            let began_us = now_us();
            blocking(|| cluster.database.await_ready());
            println!("without server {server}, ready after {} ms", (now_us() - began_us) / 1_000);
            tokio::time::sleep(Duration::from_secs(3)).await;
            cluster.database.start_again(server);
            tokio::time::sleep(Duration::from_secs(3)).await;
        })
        .await;
        println!("server {server} is killed and started again: {met}");
        assert!(met.failed.is_empty(), "{:?}", met.failed);
        assert!(met.slowest_us < RECOVERED_MAX_US && met.answered > 100, "{met}");
        assert!(met.repeated.keys().all(|why| is_by_design(why)), "{met}");
    }
    cluster.assert_calm();
}

/// While the cluster recovers, a node says that the store is not there, or does not answer in time.
fn is_by_design(why: &str) -> bool {
    why == "STORE_UNAVAILABLE"
        || why.starts_with("DeadlineExceeded")
        || why.starts_with("Cancelled: Timeout expired")
}

/// Of smoke size: that it runs without an error, and what it comes to here.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_benchmark_runs_without_errors() {
    let what = "a benchmark of nodes over FoundationDB";
    let Some(cluster) = Cluster::over_foundationdb(what).await else { return };
    let words = ["--client", "lean", "--seconds", "3", "--warmup", "1", "--json"];
    let targets = cluster.members.iter().flat_map(|it| ["--target", it.node().url.as_str()]);
    let options: Vec<&str> = words.into_iter().chain(targets).collect();
    for name in ["claim", "claim-complete", "hot-key", "acquire"] {
        let arguments = [&["bench", name], options.as_slice()].concat();
        let measured = blocking(|| run(&arguments)).ended_with(0).json();
        println!("{name}: {measured}");
        assert!(measured["per_second"].as_f64().unwrap() > 0.0, "{measured}");
    }
    cluster.assert_calm();
}
