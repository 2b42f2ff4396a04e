//! Every kind of load under every kind of fault, and what must have held.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use semel_proto::v1::ReplayKeyRequest;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{Client, now_us, timed, within};
use crate::checker::keys::Answered;
use crate::checker::{self, Broken};
use crate::cluster::{Cluster, NODES, kept_folder};
use crate::databases::Database;
use crate::faults;
use crate::load::batches::BatchClient;
use crate::load::breakers::BreakerClient;
use crate::load::budgets::{BUDGETS, BudgetClient};
use crate::load::keys::{KeyClient, Slots};
use crate::load::operators::Operator;
use crate::load::watchers::Watcher;
use crate::load::{Caller, Records, breakers, budgets};
use crate::standby::Commits;
use crate::support::ask::replay;
use crate::support::settings::{number, seed};

const KEY_CLIENTS: u64 = 16;
const BATCH_CLIENTS: u64 = 3;
const OPERATORS: u64 = 2;
const BUDGET_CLIENTS: u64 = 6;
const BREAKER_CLIENTS: u64 = 6;
const SLOTS: usize = 9;
/// Clients that ask for all keys at the end.
const ASKING: usize = 8;
/// How long it takes at the most, once all is well, until everybody knows everything.
const CALM: Duration = Duration::from_millis(1_500);
/// How long the dependencies of the breakers stay as they are.
const SICK_FOR: Duration = Duration::from_millis(2_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_whatever_fails() {
    let Some(mut cluster) = Cluster::over_postgres("the cluster under faults").await else {
        return;
    };
    cluster.add_standby(Commits::WaitForStandby);
    soak(cluster).await;
}

/// Plays the load under faults for `SEMEL_CLUSTER_SECONDS`, and judges.
pub(crate) async fn soak<D: Database>(mut cluster: Cluster<D>) {
    let seed = seed();
    let lasts = Duration::from_secs(number("SEMEL_CLUSTER_SECONDS", 60));
    let records = Arc::<Records>::default();
    budgets::set_policies(&cluster.clients()[0]).await;
    breakers::set_policies(&cluster.clients()[0]).await;
    let stop = CancellationToken::new();
    let mut load = start(&cluster, &records, seed, &stop);

    let played = faults::play(&mut cluster, &mut SmallRng::seed_from_u64(seed), lasts).await;
    for client in cluster.clients() {
        answers(&client).await;
    }
    tokio::time::sleep(CALM).await;
    let calm_us = now_us();
    tokio::time::sleep(CALM).await;
    stop.cancel();
    for history in records.breakers.lock().unwrap().values_mut() {
        history.well_us = Some(calm_us);
    }
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }
    let mut asking = JoinSet::new();
    for part in 0..ASKING {
        let caller = Caller::new(cluster.clients(), seed, &records);
        let client = KeyClient::new(caller, &Arc::new(Slots::new(1)));
        asking.spawn(client.ask_for_all(part, ASKING));
    }
    let completed = asking.join_all().await.into_iter().sum();

    let (calls, unknown) = records.counted();
    println!("{played}");
    println!("{calls} calls, {unknown} with an unknown end");
    let judging_us = now_us();
    let broken = judge(&records, completed);
    let judged_ms = (now_us() - judging_us) / 1_000;
    println!("judged within {judged_ms} ms; this process held {} MiB at the most", peak_mib());
    cluster.assert_calm();
    if !broken.is_empty() {
        let kept = cluster.keep_logs(&format!("cluster-{seed}"));
        panic!("{} promises are broken; the histories are in {}", broken.len(), kept.display());
    }
}

fn start<D: Database>(
    cluster: &Cluster<D>,
    records: &Arc<Records>,
    seed: u64,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut load = JoinSet::new();
    let slots = Arc::new(Slots::new(SLOTS));
    let sick = Arc::new(AtomicBool::new(false));
    let caller = |number: u64| {
        let own = seed.wrapping_mul(1_000).wrapping_add(number);
        Caller::new(cluster.clients(), own, records)
    };
    for number in 0..KEY_CLIENTS {
        load.spawn(KeyClient::new(caller(number), &slots).work(stop.clone()));
    }
    for number in 0..BATCH_CLIENTS {
        load.spawn(BatchClient::new(caller(300 + number), &slots).work(stop.clone()));
    }
    for number in 0..OPERATORS {
        load.spawn(Operator::new(caller(400 + number), &slots).work(stop.clone()));
    }
    for node in 0..NODES {
        load.spawn(Watcher::new(caller(500), node).work(stop.clone()));
    }
    for number in 0..BUDGET_CLIENTS {
        load.spawn(BudgetClient::new(caller(100 + number)).work(stop.clone()));
    }
    for number in 0..BREAKER_CLIENTS {
        load.spawn(BreakerClient::new(caller(200 + number), &sick).work(stop.clone()));
    }
    let stop = stop.clone();
    load.spawn(async move {
        while tokio::time::timeout(SICK_FOR, stop.cancelled()).await.is_err() {
            sick.fetch_xor(true, Ordering::Relaxed);
        }
    });
    load
}

/// Waits until the node answers.
async fn answers(client: &Client) {
    let deadline = Duration::from_secs(1);
    for _ in 0..30 {
        let mut keys = client.keys.clone();
        let request: ReplayKeyRequest = replay("nobody-has-it");
        let asked = timed(deadline, keys.replay_key(within(deadline, request))).await;
        if asked.told_us().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a node does not answer although all is well again");
}

/// Judges all histories, says what was seen, and keeps those that are wrong.
fn judge(records: &Records, completed: usize) -> Vec<Broken> {
    let mut all = Vec::new();
    let keys = records.keys.lock().unwrap();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (key, history) in &*keys {
        for call in history {
            *kinds.entry(kind(call)).or_default() += 1;
        }
        let broken = checker::keys::judge(history);
        keep(key, history, &broken);
        all.extend(broken);
    }
    let calls: u64 = kinds.values().sum();
    println!("{} keys with {calls} calls, {completed} completed: {kinds:?}", keys.len());
    assert!(completed > 0, "the load completed nothing");
    let budgets = records.budgets.lock().unwrap();
    for (dependency, terms) in BUDGETS {
        let history = &budgets[dependency];
        let (broken, tightest) = history.judge(terms);
        println!(
            "budget {dependency}: {} deposits, {} grants ({} leased), {} looks; at the tightest {} ‰ of the \
             bound ({})",
            history.deposits.len(),
            history.grants.len(),
            history.leased,
            history.said.len(),
            tightest.used_per_mille,
            tightest.seen,
        );
        keep(dependency, &[history], &broken);
        all.extend(broken);
        assert!(!history.grants.is_empty(), "nothing was granted of {dependency}");
    }
    for (dependency, history) in &*records.breakers.lock().unwrap() {
        let broken = history.judge(1);
        let newest = history.sights.iter().map(|sight| sight.generation).max();
        println!(
            "breaker {dependency}: {} permits, {} sights, {} watches that told {}, generation {newest:?}",
            history.permits.len(),
            history.sights.len(),
            history.watches.len(),
            history.watches.iter().map(|watch| watch.told.len()).sum::<usize>(),
        );
        keep(dependency, &[history], &broken);
        all.extend(broken);
        assert!(!history.permits.is_empty(), "nobody probed {dependency}");
    }
    all
}

/// The most memory that this process held.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1_024
}

/// What was asked and answered, in two words.
fn kind(call: &checker::keys::Call) -> String {
    let word = |text: String| text.split([' ', '(']).next().unwrap_or_default().to_owned();
    let resumed = matches!(call.answered, Answered::Granted { resumed: true, .. });
    let again = if resumed { " again" } else { "" };
    format!("{} {}{again}", word(format!("{:?}", call.asked)), word(format!("{:?}", call.answered)))
}

/// Writes a history down in which something is wrong.
fn keep<T: Debug>(name: &str, history: &[T], broken: &[Broken]) {
    if broken.is_empty() {
        return;
    }
    let folder =
        kept_folder(&format!("cluster-{}", number("SEMEL_SEED", std::process::id().into())));
    let mut file = std::fs::File::create(folder.join(format!("{name}.txt"))).unwrap();
    for broken in broken {
        println!("BROKEN {:?} of {name}: {}", broken.promise, broken.seen);
        writeln!(file, "{broken:?}").unwrap();
    }
    for part in history {
        writeln!(file, "{part:?}").unwrap();
    }
}
