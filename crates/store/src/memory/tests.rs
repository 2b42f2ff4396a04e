//! The faults of the memory engine. That it is a correct engine without them, the conformance suite
//! shows.

use super::*;
use crate::clock::ManualClock;
use crate::conformance::step::{Seen, Step, number};
use crate::contract::{Durability, Space};

type Answer = Result<Seen, StoreError>;

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::new(1)))
}

fn item(key: &'static str, durability: Durability, transition: Step) -> Update<Step> {
    Update { key: key.into(), durability, patience: None, transition }
}

async fn add(store: &MemoryStore, key: &'static str) -> Answer {
    store.update(vec![item(key, Durability::Synced, Step::Add(1))]).await.remove(0)
}

async fn relaxed_add(store: &MemoryStore, key: &'static str) -> Answer {
    store.update(vec![item(key, Durability::Relaxed, Step::Add(1))]).await.remove(0)
}

/// The number that is stored, looked up without an update, which would sync.
async fn stored(store: &MemoryStore, key: &'static str) -> u64 {
    let end = Bytes::from([key, "\0"].concat());
    let scan =
        Scan { space: Space::Records, start: key.into(), end, limit: 1, max_bytes: usize::MAX };
    let page = store.scan(scan).await.expect("the store is up");
    number(page.rows.first().map(|row| row.value.as_ref()))
}

#[tokio::test]
async fn a_script_meets_the_next_items_one_by_one() {
    let store = store();
    store.faults().script([Fault::Pass, Fault::Unavailable, Fault::Unknown { committed: true }]);
    let items = ["a", "b", "c"].map(|key| item(key, Durability::Synced, Step::Add(1)));
    let answers = store.update(items.into()).await;
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(StoreError::Unavailable(_))));
    assert!(matches!(answers[2], Err(StoreError::Unknown(_))));
    let found = [stored(&store, "a").await, stored(&store, "b").await, stored(&store, "c").await];
    assert_eq!(found, [1, 0, 1]);
    assert_eq!(store.faults().injected(), 2);
    assert!(add(&store, "b").await.is_ok(), "the script has run out");
}

#[tokio::test]
async fn an_unknown_commit_has_happened_or_not() {
    let store = store();
    store.faults().script([true, false].map(|committed| Fault::Unknown { committed }));
    assert!(matches!(add(&store, "a").await, Err(StoreError::Unknown(_))));
    assert_eq!(stored(&store, "a").await, 1);
    assert!(matches!(add(&store, "a").await, Err(StoreError::Unknown(_))));
    assert_eq!(stored(&store, "a").await, 1);
}

/// Counts its runs.
#[derive(Clone)]
struct Counted(Arc<std::sync::atomic::AtomicU32>);

impl Transition for Counted {
    type Outcome = u64;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (crate::Change, u64) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (Step::Add(1).apply(old, now_us).0, number(old))
    }
}

#[tokio::test]
async fn a_conflict_runs_the_transition_again_on_what_others_left() {
    let store = store();
    store.faults().script([Fault::Conflict { times: 2 }]);
    let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Update {
        key: "a".into(),
        durability: Durability::Synced,
        patience: None,
        transition: Counted(Arc::clone(&runs)),
    };
    // Both are polled in turn: the other update commits while the first one meets its conflict.
    let (answers, other) = tokio::join!(store.update(vec![counted]), add(&store, "a"));
    assert_eq!(number(other.expect("it met no fault").old.as_deref()), 0);
    assert_eq!(answers, [Ok(1)], "the last run saw the other update");
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 3);
    assert_eq!(stored(&store, "a").await, 2);
}

#[tokio::test]
async fn a_held_answer_waits_for_its_release_though_the_change_is_visible() {
    let store = store();
    store.faults().script([Fault::Hold, Fault::Hold]);
    let test = async {
        store.faults().until_held(2).await;
        assert_eq!(stored(&store, "a").await, 2);
        store.faults().release();
    };
    let (first, second, ()) = tokio::join!(add(&store, "a"), add(&store, "a"), test);
    assert!(first.is_ok() && second.is_ok());
    // A release is for those that wait: the next one to come is held again.
    store.faults().script([Fault::Hold]);
    let test = async {
        store.faults().until_held(1).await;
        store.faults().release();
    };
    let (third, ()) = tokio::join!(add(&store, "a"), test);
    assert!(third.is_ok());
}

#[tokio::test]
async fn a_held_answer_is_lost_in_a_crash() {
    let store = store();
    store.faults().script([Fault::Hold]);
    let test = async {
        store.faults().until_held(1).await;
        store.crash();
        store.faults().release();
    };
    let (answer, ()) = tokio::join!(add(&store, "a"), test);
    assert!(matches!(answer, Err(StoreError::Unknown(_))));
    assert_eq!(stored(&store, "a").await, 1, "the synced change itself is safe");
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_its_time_on_tokios_clock() {
    let store = store();
    let (before, after) = (Duration::from_secs(5), Duration::from_secs(3));
    store.faults().script([Fault::Delay { before, after }]);
    let mut update = std::pin::pin!(add(&store, "a"));
    let until = |seconds: u64| Duration::from_millis(seconds * 1_000 - 1);
    assert!(tokio::time::timeout(until(5), &mut update).await.is_err());
    assert_eq!(stored(&store, "a").await, 0);
    assert!(tokio::time::timeout(until(3), &mut update).await.is_err());
    assert_eq!(stored(&store, "a").await, 1);
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut update).await.is_ok());
}

#[tokio::test]
async fn a_crash_loses_the_answers_of_its_batch_and_what_was_relaxed() {
    let store = store();
    add(&store, "synced").await.unwrap();
    relaxed_add(&store, "relaxed").await.unwrap();
    relaxed_add(&store, "relaxed").await.unwrap();
    relaxed_add(&store, "synced").await.unwrap();
    let mut watch = store.watch(b"relaxed");
    store.faults().script([Fault::Pass, Fault::Crash { lose_relaxed: true }]);
    let items = ["a", "b", "c"].map(|key| item(key, Durability::Relaxed, Step::Add(1)));
    for answer in store.update(items.into()).await {
        assert!(matches!(answer, Err(StoreError::Unknown(_))));
    }
    for (key, expected) in [("synced", 1), ("relaxed", 0), ("a", 0), ("b", 0), ("c", 0)] {
        assert_eq!(stored(&store, key).await, expected, "{key}");
    }
    watch.changed().await;
    assert!(add(&store, "c").await.is_ok(), "the store came back");
}

#[tokio::test]
async fn a_crash_keeps_what_was_synced_after_it_was_relaxed() {
    let store = store();
    relaxed_add(&store, "a").await.unwrap();
    add(&store, "b").await.unwrap();
    store.faults().script([Fault::Crash { lose_relaxed: true }]);
    assert!(matches!(relaxed_add(&store, "a").await, Err(StoreError::Unknown(_))));
    assert_eq!(stored(&store, "a").await, 1);
    store.faults().script([Fault::Crash { lose_relaxed: false }]);
    assert!(matches!(relaxed_add(&store, "a").await, Err(StoreError::Unknown(_))));
    assert_eq!(stored(&store, "a").await, 2, "this crash was to lose nothing");
}

#[tokio::test]
async fn a_store_that_is_down_answers_nothing_and_comes_back() {
    let store = store();
    store.faults().set_down(true);
    store.faults().script([Fault::Unknown { committed: true }]);
    assert!(matches!(add(&store, "a").await, Err(StoreError::Unavailable(_))));
    let scan = Scan {
        space: Space::Records,
        start: Bytes::new(),
        end: Bytes::new(),
        limit: 1,
        max_bytes: 1,
    };
    assert!(matches!(store.scan(scan).await, Err(StoreError::Unavailable(_))));
    store.faults().set_down(false);
    assert!(matches!(add(&store, "a").await, Err(StoreError::Unknown(_))), "the script waited");
    assert_eq!(number(add(&store, "a").await.unwrap().old.as_deref()), 1);
}

#[tokio::test]
async fn nodes_share_records_and_time_but_not_faults() {
    let first = store();
    let late = first.share(Arc::new(ManualClock::new(1_000)), Faults::none());
    let mut watch = late.watch(b"a");
    assert_eq!(add(&first, "a").await.unwrap().now_us, 1);
    watch.changed().await;
    assert_eq!(add(&late, "a").await.unwrap().now_us, 1_000);
    assert_eq!(add(&first, "a").await.unwrap().now_us, 1_000, "time went back");
    first.faults().set_down(true);
    assert!(add(&first, "a").await.is_err());
    assert_eq!(number(add(&late, "a").await.unwrap().old.as_deref()), 3);
}

fn even_odds() -> Odds {
    Odds {
        conflict_per_mille: 150,
        unknown_per_mille: 150,
        unavailable_per_mille: 150,
        crash_per_mille: 150,
        delay_per_mille: 150,
        delay_max: Duration::from_millis(1),
    }
}

#[test]
fn a_seed_draws_the_same_faults_each_time_and_every_kind_of_them() {
    let draw = |seed| Faults::seeded(seed, even_odds()).take(1_000).expect("the store is up");
    let drawn = draw(7);
    assert_eq!(drawn, draw(7));
    assert_ne!(drawn, draw(8));
    let count = |wanted: fn(&Fault) -> bool| drawn.iter().filter(|it| wanted(it)).count();
    for (kind, found) in [
        ("pass", count(|it| *it == Fault::Pass)),
        ("conflict", count(|it| matches!(it, Fault::Conflict { times: 1..=3 }))),
        ("unknown, committed", 2 * count(|it| *it == Fault::Unknown { committed: true })),
        ("unknown, lost", 2 * count(|it| *it == Fault::Unknown { committed: false })),
        ("unavailable", count(|it| *it == Fault::Unavailable)),
        ("crash", count(|it| matches!(it, Fault::Crash { .. }))),
        ("delay", count(|it| matches!(it, Fault::Delay { .. }))),
    ] {
        assert!((100..400).contains(&found), "{kind}: {found} of 1,000");
    }
    for fault in drawn {
        if let Fault::Delay { before, after } = fault {
            assert!(before + after <= even_odds().delay_max && before + after > Duration::ZERO);
        }
    }
}

#[tokio::test]
async fn odds_can_be_changed_while_the_store_runs() {
    let store = store();
    store.faults().set_odds(Odds { unavailable_per_mille: 1_000, ..Odds::default() });
    assert!(add(&store, "a").await.is_err());
    store.faults().set_odds(Odds::default());
    assert!(add(&store, "a").await.is_ok());
}
