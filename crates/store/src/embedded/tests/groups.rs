//! What callers of one living store see.

use std::sync::Arc;

use fjall::Slice;

use super::support::*;
use crate::clock::ManualClock;
use crate::contract::{
    Change, Durability, IndexChange, Scan, Space, Store, StoreError, Transition, Update,
};
use crate::embedded::acknowledged::Mark;
use crate::embedded::stamp::{Stamp, StoreId};
use crate::embedded::tree::{Tree, Write};
use crate::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};

#[test]
fn every_item_of_every_caller_is_answered_and_syncs_are_shared() {
    const CALLERS: usize = 64;
    const ROUNDS: usize = 50;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let store = store.clone();
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    let key = |item| format!("{caller}/{round}/{item}");
                    let batch = (0..3).map(|item| update(key(item), Step::Put(key(item).into())));
                    let answers = store.update(batch.collect()).await;
                    assert_eq!(answers.len(), 3);
                    for answer in answers {
                        assert_eq!(answer.unwrap().0, None, "every key is new");
                    }
                }
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished.unwrap();
        }
    });
    let commits = usize::try_from(store.commits()).unwrap();
    assert!(commits < CALLERS * ROUNDS / 4, "{commits} commits for {} batches", CALLERS * ROUNDS);
    assert_eq!(run(records(&store)).len(), CALLERS * ROUNDS * 3);
    assert_eq!(run(rows(&store, Space::Index)).len(), CALLERS * ROUNDS * 3);
}

#[test]
fn a_key_twice_in_a_batch_sees_itself_and_a_refused_item_hurts_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    run(async {
        let batch = vec![
            update("key", Step::Put("first".into())),
            update("key", Step::Put("second".into())),
            update("", Step::Put("no key".into())),
            update("big", Step::Put(vec![0; (8 << 20) + 1].into())),
            update("bug", Step::Panic),
            update("key", Step::Read),
        ];
        let answers = store.update(batch).await;
        let old = |item: usize| answers[item].clone().map(|(old, _)| old);
        assert_eq!(old(0).unwrap(), None);
        assert_eq!(old(1).unwrap().as_deref(), Some(&b"first"[..]));
        for refused in 2..5 {
            assert!(matches!(old(refused), Err(StoreError::Invalid(_))), "item {refused}");
        }
        assert_eq!(old(5).unwrap().as_deref(), Some(&b"second"[..]));
        assert_eq!(records(&store).await.len(), 1);
    });
}

#[test]
fn a_change_too_large_for_one_commit_is_refused() {
    #[derive(Clone)]
    struct Entries(usize);

    impl Transition for Entries {
        type Outcome = ();

        fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
            let entry =
                IndexChange::Put { key: vec![1; 1_000].into(), value: vec![2; 1_000].into() };
            (Change { index: vec![entry; self.0], ..Change::default() }, ())
        }
    }

    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let durability = Durability::Synced;
    let batch = [100, 20_000, 15_000].map(|entries| {
        let transition = Entries(entries);
        Update { key: "key".into(), durability, patience: None, transition }
    });
    let answers = run(store.update(batch.to_vec()));
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert!(matches!(answers[1], Err(StoreError::Invalid(_))), "{:?}", answers[1]);
    store.close();
    open(directory.path());
}

#[test]
fn many_small_moves_from_memory_to_tables_never_block_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let tree = Tree::open(directory.path(), &options).unwrap();
    for sequence in 1..=100_u64 {
        while !tree.has_room().unwrap() {
            std::thread::yield_now();
        }
        let stamp = Stamp { sequence, ..Stamp::origin(StoreId([1; 16])) };
        let (space, key) = (Space::Records, Slice::new(&sequence.to_be_bytes()));
        let write = Write { space, key, value: Some(Slice::new(b"value")) };
        tree.commit(vec![write], &stamp, false).unwrap();
        tree.start_move().unwrap();
    }
    for sequence in 1..=100_u64 {
        assert!(tree.get(&sequence.to_be_bytes()).unwrap().is_some());
    }
}

#[test]
fn reads_cost_no_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    run(async {
        put(&store, "key", "value").await.unwrap();
        put_relaxed(&store, "other", "value").await;
        let before = store.commits();
        for _ in 0..100 {
            assert_eq!(read(&store, "key").await.unwrap().as_deref(), Some(&b"value"[..]));
            assert_eq!(read(&store, "other").await.unwrap().as_deref(), Some(&b"value"[..]));
        }
        assert_eq!(store.commits(), before);
    });
}

#[test]
fn a_relaxed_change_is_synced_soon_and_before_a_synced_read_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let synced = || Mark::open(directory.path()).unwrap().unwrap().sequence();
    run(async {
        for round in 0..3 {
            put_relaxed(&store, "key", "value").await;
            read(&store, "key").await.unwrap();
            assert_eq!(synced(), 2 * round + 1);
            put_relaxed(&store, "key", "value").await;
            // Nobody asks for it any more, so this ends only if it happens by itself.
            while synced() < 2 * round + 2 {
                tokio::task::yield_now().await;
            }
        }
    });
}

async fn put_relaxed(store: &EmbeddedStore, key: &'static str, value: &'static str) {
    let durability = Durability::Relaxed;
    let relaxed = Update { durability, ..update(key, Step::Put(value.into())) };
    store.update(vec![relaxed]).await.remove(0).unwrap();
}

#[test]
fn large_values_are_kept_and_a_batch_of_them_fits_no_single_group() {
    let directory = tempfile::tempdir().unwrap();
    let value = |number: u8| vec![number; 1 << 20];
    let batch = (0..12).map(|number| update(vec![number], Step::Put(value(number).into())));
    let store = open(directory.path());
    for answer in run(store.update(batch.collect())) {
        answer.unwrap();
    }
    assert!(store.commits() > 1);
    run(put(&store, "largest", vec![9; 8 << 20])).unwrap();
    store.close();
    let store = open(directory.path());
    for number in 0..12 {
        let found = run(read(&store, vec![number])).unwrap();
        assert!(found.unwrap() == value(number), "value {number}");
    }
    assert_eq!(run(read(&store, "largest")).unwrap().unwrap().len(), 8 << 20);
}

#[test]
fn enough_writes_to_fill_memory_many_times_over_move_to_tables_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { memtable_bytes: 16 << 20, ..options(directory.path()) };
    let store = EmbeddedStore::open(options.clone()).unwrap();
    let value = |number: u32| format!("{number:08}").repeat(2_000);
    for start in (0..12_000).step_by(100) {
        let puts = (start..start + 100).map(|number: u32| {
            update(number.to_be_bytes().to_vec(), Step::Put(value(number).into()))
        });
        for answer in run(store.update(puts.collect())) {
            answer.unwrap();
        }
    }
    store.close();
    drop(store);
    let journals = journal_bytes(directory.path());
    assert!(journals < 170 << 20, "{journals} bytes of journal are left of 192 million");
    let store = EmbeddedStore::open(options).unwrap();
    for number in (0..12_000_u32).step_by(97) {
        let found = run(read(&store, number.to_be_bytes().to_vec())).unwrap();
        assert!(found.unwrap() == value(number), "value {number}");
    }
}

fn journal_bytes(path: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(path.join("tree")).unwrap();
    let journal = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "jnl");
    let paths = entries.map(|entry| entry.unwrap().path()).filter(journal);
    paths.map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn time_never_goes_back_even_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(5_000_000);
    let with_clock = || EmbeddedOptions::new(directory.path()).with_clock(clock.clone());
    let now = |store: &EmbeddedStore| {
        let batch = vec![update("key", Step::Put("value".into()))];
        run(store.update(batch)).remove(0).unwrap().1
    };
    let store = EmbeddedStore::open(with_clock()).unwrap();
    assert_eq!(now(&store), 5_000_000);
    clock.set_us(4_000_000);
    assert_eq!(now(&store), 5_000_000);
    drop(store);
    let store = EmbeddedStore::open(with_clock()).unwrap();
    assert_eq!(now(&store), 5_000_000);
    clock.set_us(6_000_000);
    assert_eq!(now(&store), 6_000_000);
}

#[test]
fn a_directory_belongs_to_one_store_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let error = try_open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    store.close();
    drop(open(directory.path()));
    open(directory.path());
}

#[test]
fn a_closed_store_answers_what_it_took_and_takes_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let acknowledged = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..16 {
            let store = store.clone();
            tasks.spawn(async move {
                let mut acknowledged = 0;
                loop {
                    match put(&store, format!("{caller}/{acknowledged}"), "value").await {
                        Ok(()) => acknowledged += 1,
                        Err(StoreError::Unavailable(_)) => return acknowledged,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let closing = store.clone();
        while store.commits() < 20 {
            tokio::task::yield_now().await;
        }
        tokio::task::block_in_place(|| closing.close());
        let mut acknowledged = 0;
        while let Some(finished) = tasks.join_next().await {
            acknowledged += finished.unwrap();
        }
        acknowledged
    });
    assert!(!store.healthy());
    let scan = Scan {
        space: Space::Index,
        start: Default::default(),
        end: Default::default(),
        limit: 1,
        max_bytes: 1,
    };
    assert!(matches!(run(store.scan(scan)), Err(StoreError::Unavailable(_))));
    store.close();
    assert_eq!(run(records(&open(directory.path()))).len(), acknowledged);
}

#[test]
fn an_abandoned_answer_is_no_abandoned_change() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    run(async {
        let mut abandoned = std::pin::pin!(put(&store, "key", "value"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut watch = store.watch(b"key");
        assert!(abandoned.as_mut().poll(&mut context).is_pending());
        watch.changed().await;
        assert!(read(&store, "key").await.unwrap().is_some());
    });
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { group_bytes: 1, ..options(directory.path()) };
    let error = EmbeddedStore::open(options).unwrap_err().to_string();
    assert_eq!(error, "group_bytes is 1; it must be 64 KiB to 8 MiB");
}
