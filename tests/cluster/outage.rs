//! A dependency fails totally, and the fleet's retries stay a tenth of its first attempts, plus the floor.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1::{
    AcquireRetryTokenRequest, Deposits, Failure, FailureKind, ReportRequestsRequest, RequestReport,
    RetryVerdict,
};
use tokio::task::JoinSet;

use crate::call::{Client, micros, now_us, proto_us, timed, within};
use crate::cluster::{Cluster, NODES};
use crate::support::ask::TENANT;
use crate::support::settings::seed;

const CLIENTS: u32 = 12;
const REQUESTS_PER_SECOND: u32 = 300;
const DEADLINE: Duration = Duration::from_secs(1);
/// Of the whole test, of which the outage is the middle.
const LASTS_US: u64 = 20_000_000;
const OUTAGE_US: std::ops::Range<u64> = 4_000_000..16_000_000;
/// The default policy's; of it a tenth of the first attempts, and 10 a second.
const WINDOW_US: u64 = 10_000_000;

/// When attempts reached the dependency.
#[derive(Debug, Default)]
struct Attempts {
    first_us: Vec<u64>,
    retries_us: Vec<u64>,
    /// Retries that were wanted, and calls that had no answer.
    wanted: u64,
    unanswered: u64,
    /// The latest that a retry was sent after the node may have meant it to be.
    late_us: u64,
}

impl Attempts {
    fn add(&mut self, other: Self) {
        self.first_us.extend(other.first_us);
        self.retries_us.extend(other.retries_us);
        self.wanted += other.wanted;
        self.unanswered += other.unanswered;
        self.late_us = self.late_us.max(other.late_us);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_total_outage_does_not_multiply_the_load() {
    let Some(cluster) = Cluster::over_postgres("a total outage").await else { return };
    let seed = seed();
    let began_us = now_us();
    let mut fleet = JoinSet::new();
    for number in 0..CLIENTS {
        let node = cluster.members[usize::try_from(number).unwrap() % NODES].client();
        fleet.spawn(serve(node, seed ^ u64::from(number), began_us, number));
    }
    let mut all = Attempts::default();
    while let Some(attempts) = fleet.join_next().await {
        all.add(attempts.unwrap());
    }
    all.first_us.sort_unstable();
    all.retries_us.sort_unstable();
    let between = |times_us: &[u64], from_us: u64, until_us: u64| {
        let until = |us: u64| times_us.partition_point(|at_us| *at_us < us);
        u64::try_from(until(until_us) - until(from_us)).unwrap()
    };
    // What is sent within a window was due in it, or so much earlier.
    let floor = (10 * (WINDOW_US + all.late_us)).div_ceil(1_000_000);
    let windows = (0..=(LASTS_US - WINDOW_US) / 100_000).map(|slot| slot * 100_000);
    let worst = windows
        .map(|from_us| {
            let until_us = from_us + WINDOW_US;
            let first = between(&all.first_us, from_us.saturating_sub(all.late_us), until_us);
            (between(&all.retries_us, from_us, until_us), first / 10 + floor, first, from_us)
        })
        .max_by_key(|(retries, allowed, ..)| retries * 1_000 / allowed)
        .unwrap();
    let (retries, allowed, first, from_us) = worst;
    println!(
        "{} first attempts, {} retries of {} wanted, {} questions unanswered, at most {} ms late; the \
         worst 10 s, from {} ms: {first} first attempts, {retries} retries, {allowed} allowed",
        all.first_us.len(),
        all.retries_us.len(),
        all.wanted,
        all.unanswered,
        all.late_us / 1_000,
        from_us / 1_000,
    );
    let outage: Vec<u64> =
        all.retries_us.iter().copied().filter(|at_us| OUTAGE_US.contains(at_us)).collect();
    cluster.assert_calm();
    assert!(first > 2_000 && outage.len() > 100, "{} retries in the outage", outage.len());
    assert!(all.wanted > 2 * u64::try_from(all.retries_us.len()).unwrap(), "all were granted");
    assert!(all.late_us < 500_000, "this machine is too slow to tell");
    assert!(retries <= allowed, "over the bound");
}

/// One instance of a service that calls the dependency.
async fn serve(node: Client, seed: u64, began_us: u64, number: u32) -> Attempts {
    let mut random = SmallRng::seed_from_u64(seed);
    let reporter: [u8; 16] = random.random();
    let mut attempts = Attempts::default();
    let mut retrying = JoinSet::new();
    let node = Arc::new(node);
    let (mut seq, mut unreported, mut known) = (0, 0, Bytes::new());
    let pace = Duration::from_secs(1) * CLIENTS / REQUESTS_PER_SECOND;
    tokio::time::sleep(pace * number / CLIENTS).await;
    let mut ticks = tokio::time::interval(pace);
    loop {
        ticks.tick().await;
        let at_us = now_us() - began_us;
        if at_us >= LASTS_US {
            break;
        }
        attempts.first_us.push(at_us);
        unreported += 1;
        if unreported == 3 {
            seq += 1;
            let deposits = Deposits {
                reporter: Bytes::copy_from_slice(&reporter),
                seq,
                requests: unreported,
                node: known.clone(),
                ..Deposits::default()
            };
            match report(&node, deposits).await {
                Some(by) => known = by,
                None => attempts.unanswered += 1,
            }
            unreported = 0;
        }
        if OUTAGE_US.contains(&at_us) {
            let (node, request) = (Arc::clone(&node), random.random());
            retrying.spawn(async move { retry(&node, request, began_us).await });
        }
        while let Some(retried) = retrying.try_join_next() {
            attempts.add(retried.unwrap());
        }
    }
    while let Some(retried) = retrying.join_next().await {
        attempts.add(retried.unwrap());
    }
    attempts
}

async fn report(node: &Client, deposits: Deposits) -> Option<Bytes> {
    let report = RequestReport { dependency: "total".to_owned(), deposits: Some(deposits) };
    let request = ReportRequestsRequest { tenant: TENANT.to_owned(), reports: vec![report] };
    let mut retries = node.retries.clone();
    let asked = timed(DEADLINE, retries.report_requests(within(DEADLINE, request))).await;
    asked.result.ok().map(|reply| reply.node)
}

/// Asks and sends until the request succeeds, or the answer is no.
async fn retry(node: &Client, request_id: [u8; 16], began_us: u64) -> Attempts {
    let mut attempts = Attempts::default();
    for attempt in 1.. {
        attempts.wanted += 1;
        let request = AcquireRetryTokenRequest {
            tenant: TENANT.to_owned(),
            dependency: "total".to_owned(),
            request_id: Bytes::copy_from_slice(&request_id),
            failure: Some(Failure { kind: FailureKind::ServerError.into(), server_delay: None }),
            repeatable: true,
            attempt,
            ..AcquireRetryTokenRequest::default()
        };
        let mut retries = node.retries.clone();
        let asked = timed(DEADLINE, retries.acquire_retry_token(within(DEADLINE, request))).await;
        let Ok(reply) = asked.result else {
            attempts.unanswered += 1;
            break;
        };
        if reply.verdict() != RetryVerdict::Granted {
            break;
        }
        let delay_us = proto_us(reply.delay);
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
        let at_us = now_us() - began_us;
        if at_us > asked.ended_us - began_us + delay_us + micros(Duration::from_secs(1)) {
            // Too late for this token.
            break;
        }
        let due_us = asked.began_us - began_us + delay_us;
        attempts.late_us = attempts.late_us.max(at_us - due_us);
        attempts.retries_us.push(at_us);
        if !OUTAGE_US.contains(&at_us) {
            break;
        }
    }
    attempts
}
