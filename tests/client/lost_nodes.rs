//! Nodes are frozen, killed and stopped in order under load: a lost node may cost a caller a delay under two
//! seconds, and no call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use semel_client::fingerprint::Intent;
use semel_client::keys::{ClaimAnswer, ClaimRequest, Response, Work};
use semel_client::once::{Outcome, Record};
use semel_client::{Client, Deadline};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;

const CALLERS: usize = 12;
const DEADLINE: Duration = Duration::from_secs(10);
const DELAY_MAX: Duration = Duration::from_secs(2);

/// What the callers met.
#[derive(Default)]
struct Met {
    calls: u64,
    /// By hundreds of milliseconds, from half a second on.
    slow: BTreeMap<u128, u64>,
    worst: Duration,
}

impl Met {
    fn count(&mut self, took: Duration) {
        self.calls += 1;
        self.worst = self.worst.max(took);
        if took >= Duration::from_millis(500) {
            *self.slow.entry(took.as_millis() / 100 * 100).or_default() += 1;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the test measures the machine's time")]
fn now() -> Instant {
    Instant::now()
}

fn request(key: &str) -> ClaimRequest {
    let intent = Intent::new("payments.charge", key).bytes(b"");
    ClaimRequest::new("payments.charge", key).fingerprint(intent)
}

/// Claims, completes and asks again, key after key. No call may fail, and every answer must be the one of
/// the work.
async fn steadily(client: Client, numbers: Arc<AtomicU64>, stop: CancellationToken) -> Met {
    let mut met = Met::default();
    while !stop.is_cancelled() {
        let key = format!("order-{}", numbers.fetch_add(1, Ordering::Relaxed));
        let asked = request(&key);
        let claim = client.claim(&asked, Deadline::within(DEADLINE));
        let answer = timed(&mut met, claim).await;
        let ClaimAnswer::Yours(claim) = answer.unwrap() else { panic!("nobody else has {key}") };
        let work = Work::Succeeded(Response::new(200, format!("{key} {}", claim.fence)));
        let done = client.complete(&claim, &work, Deadline::within(DEADLINE));
        timed(&mut met, done).await.unwrap();
        let again = client.claim(&asked, Deadline::within(DEADLINE));
        match timed(&mut met, again).await.unwrap() {
            ClaimAnswer::Done(answer) => {
                assert_eq!(answer.response.map(Work::Succeeded), Some(work));
                assert_eq!(answer.fence, claim.fence);
            }
            other => panic!("{key}: {other:?}"),
        }
        sleep(Duration::from_millis(2)).await;
    }
    met
}

async fn timed<T>(met: &mut Met, call: impl Future<Output = T>) -> T {
    let began = now();
    let done = call.await;
    met.count(began.elapsed());
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_nodes_cost_a_moment_and_no_call() {
    let Some(mut fleet) = block_in_place(|| Fleet::start("lost nodes")) else { return };
    let (stop, numbers) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let client = Client::connect("acme", fleet.urls()).unwrap();
        callers.spawn(steadily(client, Arc::clone(&numbers), stop.clone()));
    }
    let calm = || sleep(Duration::from_secs(2));
    calm().await;
    fleet.node(0).signal("STOP");
    sleep(Duration::from_secs(4)).await;
    fleet.node(0).signal("CONT");
    calm().await;
    let home = block_in_place(|| fleet.kill(1));
    calm().await;
    block_in_place(|| fleet.start_again(1, home));
    calm().await;
    let home = block_in_place(|| fleet.terminate(2));
    block_in_place(|| fleet.start_again(2, home));
    calm().await;
    stop.cancel();
    let (mut calls, mut worst) = (0, Duration::ZERO);
    while let Some(met) = callers.join_next().await {
        let met = met.unwrap();
        println!("{} calls, the slowest took {:?}; slow ones {:?}", met.calls, met.worst, met.slow);
        (calls, worst) = (calls + met.calls, worst.max(met.worst));
    }
    println!("{calls} calls, none failed, the slowest took {worst:?}");
    assert!(worst < DELAY_MAX, "{worst:?}");
    assert!(calls > 1_000, "{calls}");
    fleet.assert_calm();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_at_a_node_that_freezes_loses_less_than_two_seconds() {
    let Some(fleet) = block_in_place(|| Fleet::start("a frozen node with waiters")) else { return };
    let client = |urls: Vec<String>| Client::connect("acme", urls).unwrap();
    let urls = fleet.urls();
    let once = |client: &Client| {
        let intent = Intent::new("payments.charge", "slow").bytes(b"");
        let once = client.once("payments.charge", "slow").fingerprint(intent);
        once.wait(Duration::from_secs(20)).deadline(Deadline::within(Duration::from_secs(30)))
    };
    // The work is claimed by way of a node that stays.
    let owner = client(vec![urls[1].clone()]);
    let (began, go) = (CancellationToken::new(), CancellationToken::new());
    let work = once(&owner).run(async |_| {
        began.cancel();
        go.cancelled().await;
        Work::Succeeded(Response::new(200, "done"))
    });
    let waiting = async {
        began.cancelled().await;
        let mut waiters = JoinSet::new();
        for _ in 0..6 {
            let waiter = once(&client(urls.clone()));
            waiters.spawn(waiter.run(async |_| panic!("the owner is at it")));
        }
        sleep(Duration::from_millis(500)).await;
        fleet.node(0).signal("STOP");
        // They are seen to be at a node that is gone, and ask another one.
        sleep(DELAY_MAX).await;
        go.cancel();
        let all = async {
            while let Some(outcome) = waiters.join_next().await {
                let outcome = outcome.unwrap().unwrap();
                assert!(matches!(outcome, Outcome::Replayed(_)), "{outcome:?}");
            }
        };
        let late = timeout(Duration::from_millis(500), all).await;
        fleet.node(0).signal("CONT");
        late.expect("nobody waits at the frozen node any more");
    };
    let (outcome, ()) = tokio::join!(work, waiting);
    let outcome = outcome.unwrap();
    assert!(matches!(outcome, Outcome::Ran { record: Record::Stored(_), .. }), "{outcome:?}");
    fleet.assert_calm();
}
