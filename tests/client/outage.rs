//! A dependency fails for a while under load of three processes behind all layers: its breaker opens in all of
//! them, one probe at a time finds out when it is well again, the load comes back in steps, and the retries of
//! all stay within the published bound, with a node in reach and without.
//!
//! All times of the policies are the defaults, shortened as the outage is: a minute's outage plays them as
//! they are.

use std::ops::Range;
use std::time::Duration;

use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{BreakerPolicy, RetryPolicy, SetBreakerPolicyRequest, SetRetryPolicyRequest};
use serde_json::Value;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::dependency::{Arrival, Dependency, now_ms};
use crate::dependents::{Change, Dependents, PROCESSES, Said};
use crate::fleet::lasting;
use crate::support::ask::TENANT;
use crate::support::node::Node;
use crate::support::settings;

/// As the example has it.
const DEPENDENCY: &str = "flaky";
/// Requests of all processes.
const RATE: u64 = 500;
/// How long tokens are good for, as by default.
const LEASE_MS: u64 = 1_000;
const FLOOR: u64 = 10;
/// A change reaches every process within this.
const TOLD_MS: u64 = 1_000;
/// What fails at once does so within this, on a machine that is busy with other things.
const AT_ONCE_US: u64 = 50_000;
/// Arrivals are counted by so many milliseconds.
const SLOT_MS: u64 = 100;

/// The defaults, shortened.
#[derive(Clone, Copy, Debug)]
struct Times {
    outage_ms: u64,
    budget_window_ms: u64,
    window_ms: u64,
    cool_down_ms: u64,
    ramp_step_ms: u64,
}

impl Times {
    fn get() -> Self {
        let outage_ms = settings::number("SEMEL_STACK_SECONDS", 7).max(6) * 1_000;
        let shortened = |default_ms: u64| default_ms * outage_ms / 60_000;
        Self {
            outage_ms,
            budget_window_ms: (shortened(10_000) / 100 * 100).max(1_000),
            window_ms: shortened(30_000),
            cool_down_ms: shortened(30_000),
            ramp_step_ms: shortened(5_000),
        }
    }

    async fn set(&self, node: &Node) {
        let ms = |ms: u64| prost_types::Duration::try_from(Duration::from_millis(ms)).ok();
        let (tenant, dependency) = (TENANT.to_owned(), DEPENDENCY.to_owned());
        let policy =
            Some(RetryPolicy { window: ms(self.budget_window_ms), ..RetryPolicy::default() });
        let request = SetRetryPolicyRequest {
            tenant: tenant.clone(),
            dependency: dependency.clone(),
            policy,
            actor: "test".to_owned(),
            ..SetRetryPolicyRequest::default()
        };
        RetriesClient::new(node.connect().await).set_retry_policy(request).await.unwrap();
        let policy = Some(BreakerPolicy {
            window: ms(self.window_ms),
            cool_down: ms(self.cool_down_ms),
            cool_down_max: ms(self.cool_down_ms * 10),
            ramp_step: ms(self.ramp_step_ms),
            ..BreakerPolicy::default()
        });
        let actor = "test".to_owned();
        let request = SetBreakerPolicyRequest {
            tenant,
            dependency,
            policy,
            actor,
            ..SetBreakerPolicyRequest::default()
        };
        BreakersClient::new(node.connect().await).set_breaker_policy(request).await.unwrap();
    }
}

async fn pause(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

/// A node, a dependency that is well, and processes that have called it for a while.
async fn begin(times: Times) -> (Node, Dependency, Dependents) {
    let node = block_in_place(|| lasting(Node::start(&[])));
    times.set(&node).await;
    let dependency = Dependency::start().await;
    let dependents = Dependents::start(&node.url, &dependency.url, RATE);
    let limit = Duration::from_secs(30);
    dependents
        .until("all call", limit, |all| all.iter().all(|said| !said.seconds.is_empty()))
        .await;
    // Not for so long that something is forgotten before half has failed: a node forgets a tenth of its window at
    // a time, and it would cross earlier than an exact one.
    pause(times.window_ms / 3).await;
    (node, dependency, dependents)
}

async fn all_open(dependents: &Dependents, limit_ms: u64) {
    let limit = Duration::from_millis(limit_ms);
    dependents.until("all are open", limit, |all| all.iter().all(|said| !said.is_closed())).await;
}

/// Waits for the recovery, and for the end of the ramp.
async fn recovery(dependents: &Dependents, times: Times) {
    // A probe that failed doubles the cool-down, which is a fifth longer or shorter.
    let limit = Duration::from_millis(times.cool_down_ms * 10 + 10_000);
    dependents.until("all are closed", limit, |all| all.iter().all(Said::is_closed)).await;
    pause(times.ramp_step_ms * 4 + TOLD_MS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_that_fails_is_spared_by_the_whole_fleet_and_comes_back_in_steps() {
    let times = Times::get();
    let (node, dependency, dependents) = begin(times).await;
    let sick_ms = dependency.is_sick(true);
    all_open(&dependents, times.window_ms + 5_000).await;
    let opened: Vec<u64> = dependents.each(|said| said.opened().unwrap().at_ms);
    pause((sick_ms + times.outage_ms).saturating_sub(*opened.iter().max().unwrap())).await;
    let well_ms = dependency.is_sick(false);
    recovery(&dependents, times).await;

    let arrivals = dependency.arrivals();
    let crossed_ms = crossing(&arrivals, times.window_ms);
    let late: Vec<i64> =
        opened.iter().map(|at_ms| at_ms.cast_signed() - crossed_ms.cast_signed()).collect();
    println!("{times:?}: half of the calls had failed after {} ms", crossed_ms - sick_ms);
    println!("the processes' breakers were open {late:?} ms later");
    let changes = dependents.each(|said| said.changes.clone());
    let in_time = late.iter().all(|late_ms| *late_ms < TOLD_MS.cast_signed());
    assert!(in_time, "sick at {sick_ms}: {changes:?}\n{}", node.home.log());

    let closed: Vec<u64> = dependents.each(|said| closing(&said.changes, well_ms));
    let shut = opened.iter().max().unwrap() + TOLD_MS..*closed.iter().min().unwrap();
    let probes = until_closed(&within(&arrivals, &shut));
    println!("{} probes in {} ms while it was open", probes.len(), shut.end - shut.start);
    assert_eq!(most_at_once(&probes), 1, "one probe at a time in the whole fleet: {probes:?}");
    assert!(probes.iter().all(|probe| probe.is_first), "{probes:?}");
    assert_fast(&dependents, &(shut.start..well_ms));
    assert_ramp(&arrivals, *closed.iter().max().unwrap(), times);
    assert_bound(&arrivals, times, sick_ms..well_ms);
    node.assert_calm();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_each_process_spares_it_by_itself_and_the_fleet_does_again_afterwards() {
    let times = Times::get();
    let (node, dependency, dependents) = begin(times).await;
    let away_ms = now_ms();
    let home = block_in_place(|| node.kill());
    let sick_ms = dependency.is_sick(true);
    all_open(&dependents, times.window_ms + 5_000).await;
    let alone = dependents.each(|said| said.opened().unwrap());
    pause(times.cool_down_ms * 3 / 2).await;
    let back_ms = now_ms();
    let node = block_in_place(|| home.start());
    // The node has it closed: the fleet finds out anew, perhaps before some of it are back at the node.
    all_open_again(&dependents, back_ms).await;
    let well_ms = dependency.is_sick(false);
    recovery(&dependents, times).await;

    let arrivals = dependency.arrivals();
    let opened: Vec<u64> = alone.iter().map(|change| change.at_ms - sick_ms).collect();
    println!("{times:?}: without a node the breakers opened after {opened:?} ms");
    assert!(alone.iter().all(|change| change.is_local && !change.is_closed), "{alone:?}");
    let shut = alone.iter().map(|change| change.at_ms).max().unwrap() + 100..back_ms;
    let probes = within(&arrivals, &shut);
    println!("{} attempts in {} ms while they were open", probes.len(), shut.end - shut.start);
    assert!(most_at_once(&probes) <= PROCESSES, "one probe at a time of each: {probes:?}");
    assert!((1..=PROCESSES * 3).contains(&probes.len()), "{probes:?}");
    assert_fast(&dependents, &shut);

    // What was leased is over after this.
    let alone = within(&arrivals, &(away_ms + LEASE_MS..back_ms));
    let retries = alone.len() - firsts(&alone);
    let paying = firsts(&within(&arrivals, &(away_ms - times.budget_window_ms..back_ms)));
    println!("without a node {retries} retries were sent, {paying} first attempts paid");
    assert!(retries > 0, "what a process has of its own is spent");
    assert!(retries * 10 <= paying, "a tenth, and no floor");
    assert_bound(&arrivals, times, sick_ms..well_ms);
    node.assert_calm();
}

async fn all_open_again(dependents: &Dependents, back_ms: u64) {
    let opened = |change: &Change| change.at_ms >= back_ms && !change.is_closed && !change.is_local;
    dependents
        .until("the fleet's breaker is open", Duration::from_secs(20), |all| {
            all.iter().all(|said| said.changes.iter().any(opened) && !said.is_closed())
        })
        .await;
}

/// When more than half of the calls of the last window had failed.
fn crossing(arrivals: &[Arrival], window_ms: u64) -> u64 {
    let mut answers: Vec<(u64, bool)> =
        arrivals.iter().map(|arrival| (arrival.answered_ms, arrival.is_good)).collect();
    answers.sort_unstable();
    let (mut oldest, mut failed) = (0, 0);
    for (newest, (at_ms, is_good)) in answers.iter().enumerate() {
        failed += usize::from(!is_good);
        while answers[oldest].0 + window_ms < *at_ms {
            failed -= usize::from(!answers[oldest].1);
            oldest += 1;
        }
        let calls = newest + 1 - oldest;
        if calls >= 20 && failed * 2 >= calls {
            return *at_ms;
        }
    }
    panic!("it never failed that often");
}

/// When a breaker closed after this moment.
fn closing(changes: &[Change], after_ms: u64) -> u64 {
    let mut changes = changes.iter().filter(|change| change.at_ms >= after_ms);
    changes.find(|change| change.is_closed).unwrap().at_ms
}

fn within(arrivals: &[Arrival], time: &Range<u64>) -> Vec<Arrival> {
    arrivals.iter().filter(|arrival| time.contains(&arrival.came_ms)).copied().collect()
}

fn firsts(arrivals: &[Arrival]) -> usize {
    arrivals.iter().filter(|arrival| arrival.is_first).count()
}

/// Those up to the third that succeeds: that one closes the breaker.
fn until_closed(probes: &[Arrival]) -> Vec<Arrival> {
    let mut good = probes.iter().enumerate().filter(|(_, probe)| probe.is_good);
    let (last, _) = good.nth(2).unwrap_or_else(|| panic!("three close it: {probes:?}"));
    probes[..=last].to_vec()
}

fn most_at_once(arrivals: &[Arrival]) -> usize {
    let at_once = |at_ms| {
        let under_way = |other: &&Arrival| other.came_ms <= at_ms && at_ms < other.answered_ms;
        arrivals.iter().filter(under_way).count()
    };
    arrivals.iter().map(|arrival| at_once(arrival.came_ms)).max().unwrap_or_default()
}

/// Whoever is refused is told at once.
fn assert_fast(dependents: &Dependents, time: &Range<u64>) {
    let refused = |second: &Value, name: &str| second["refused"][name].as_u64();
    let all = dependents.each(|said| said.seconds.clone()).concat();
    // Those that lie in it as a whole.
    let time = time.start + 1_000..time.end;
    let inside = all.iter().filter(|second| time.contains(&second["at_ms"].as_u64().unwrap()));
    let mut p99_us: Vec<u64> =
        inside.clone().filter_map(|second| refused(second, "p99_us")).collect();
    p99_us.sort_unstable();
    let count: u64 = inside.filter_map(|second| refused(second, "count")).sum();
    let (median_us, most_us) = (p99_us[p99_us.len() / 2], p99_us[p99_us.len() - 1]);
    println!(
        "{count} requests were refused; p99 of a second: {median_us} µs, of the worst {most_us} µs"
    );
    assert!(median_us < AT_ONCE_US, "{p99_us:?}");
}

/// A twentieth, a quarter, a half, and all: in the second half of each step, when all were told.
fn assert_ramp(arrivals: &[Arrival], closed_ms: u64, times: Times) {
    let step_ms = times.ramp_step_ms;
    let share = |step: u64| {
        let from_ms = closed_ms + step * step_ms + step_ms / 2;
        let came = within(arrivals, &(from_ms..from_ms + step_ms / 2));
        came.len() as f64 * 1_000.0 / (step_ms / 2) as f64 / RATE as f64
    };
    let shares: Vec<f64> = (0..4).map(share).collect();
    println!("the load came back so: {shares:.2?}");
    let expected = [0.0..0.15, 0.1..0.4, 0.3..0.7, 0.8..1.2];
    for (share, expected) in shares.iter().zip(&expected) {
        assert!(expected.contains(share), "{shares:.2?}");
    }
}

/// The retries of any window are at most a tenth of the first attempts, and ten a second, of that window, the
/// budget's, and a lease.
fn assert_bound(arrivals: &[Arrival], times: Times, outage: Range<u64>) {
    let sick = within(arrivals, &outage);
    let (all, first) = (sick.len(), firsts(&sick));
    println!("{all} attempts for {first} requests during the outage");
    let before = usize::try_from((times.budget_window_ms + LEASE_MS) / SLOT_MS).unwrap();
    let start_ms = arrivals[0].came_ms;
    let slot = |arrival: &Arrival| {
        before + usize::try_from((arrival.came_ms - start_ms) / SLOT_MS).unwrap()
    };
    let slots = slot(&arrivals[arrivals.len() - 1]) + 1;
    let (mut first, mut again) = (vec![0_u64; slots], vec![0_u64; slots]);
    for arrival in arrivals {
        let counts = if arrival.is_first { &mut first } else { &mut again };
        counts[slot(arrival)] += 1;
    }
    for length_ms in [500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000] {
        let length = usize::try_from(length_ms / SLOT_MS).unwrap();
        let used = (before..slots.saturating_sub(length)).map(|from| {
            let retries: u64 = again[from..from + length].iter().sum();
            let paying: u64 = first[from - before..from + length].iter().sum();
            let floor = FLOOR * (length_ms + times.budget_window_ms + LEASE_MS) / 1_000;
            (retries, paying / 10 + floor)
        });
        let Some((retries, bound)) = used.max_by_key(|(retries, bound)| retries * 1_000 / bound)
        else {
            continue;
        };
        println!("within {length_ms} ms at worst {retries} retries, where {bound} are allowed");
        assert!(retries <= bound, "within {length_ms} ms {retries} retries, and not {bound}");
    }
}
