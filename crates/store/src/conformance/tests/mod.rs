//! The suite on the memory engine; and on engines that are wrong in one way each, to show that it
//! can fail.

mod wrong;

use std::sync::Arc;
use std::time::Duration;

use self::wrong::{Bug, WrongHarness};
use super::{End, Harness, run_all, run_theme, theme_failures};
use crate::clock::ManualClock;
use crate::memory::{Faults, MemoryStore, Odds};

/// The memory engine, meeting these faults.
struct Memory(Faults);

impl Harness for Memory {
    type Store = MemoryStore;

    async fn open(&self, clock: ManualClock) -> MemoryStore {
        MemoryStore::with_faults(Arc::new(clock), self.0.clone())
    }

    async fn reopen(&self, store: MemoryStore, _: ManualClock, end: End) -> Option<MemoryStore> {
        match end {
            End::Closed => None,
            End::Crashed => {
                store.crash();
                Some(store)
            }
        }
    }
}

mod memory {
    crate::conformance_tests!(super::Memory(super::Faults::none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_engine_is_correct_under_conflicts() {
    let faults = Faults::seeded(1, Odds { conflict_per_mille: 300, ..Odds::default() });
    run_all(Memory(faults.clone())).await;
    assert!(faults.injected() > 1_000, "{} conflicts", faults.injected());
}

#[tokio::test(start_paused = true)]
async fn the_memory_engine_is_linearizable_under_every_fault() {
    for seed in 0..10 {
        let odds = Odds {
            conflict_per_mille: 200,
            unknown_per_mille: 100,
            unavailable_per_mille: 50,
            crash_per_mille: 20,
            delay_per_mille: 100,
            delay_max: Duration::from_millis(10),
        };
        let faults = Faults::seeded(seed, odds);
        let failures = theme_failures(Memory(faults.clone()), "linearizability").await;
        assert_eq!(failures, [], "seed {seed}");
        assert!(faults.injected() > 100, "seed {seed} injected {} faults", faults.injected());
    }
}

#[tokio::test]
#[should_panic(expected = "no theme of the suite")]
async fn an_unknown_theme_is_not_a_success() {
    run_theme(Memory(Faults::none()), "concurency").await;
}

#[tokio::test]
async fn the_engine_that_the_wrong_ones_wrap_is_correct() {
    run_all(WrongHarness(Bug::None)).await;
}

#[tokio::test]
#[should_panic(expected = "values::the_largest_keys_and_values_are_kept: ")]
async fn a_failure_is_reported_with_the_name_of_its_check() {
    run_theme(WrongHarness(Bug::KeysCut), "values").await;
}

/// Time is paused, so that a check that waits for ever fails at once.
#[tokio::test(start_paused = true)]
async fn every_wrong_engine_is_found_out() {
    let cases: [(Bug, &str, &[&str]); 22] = [
        (Bug::AnswersReversed, "updates", &["answers_come_item_by_item_in_order"]),
        (
            Bug::BatchOnOldSnapshot,
            "updates",
            &[
                "items_on_one_key_see_each_other_in_order",
                "the_largest_batch_may_be_all_on_one_key",
            ],
        ),
        (
            Bug::UpdatesNotAtomic,
            "concurrency",
            &["concurrent_increments_lose_nothing", "concurrent_batches_lose_nothing"],
        ),
        (Bug::UpdatesNotAtomic, "linearizability", &["a_concurrent_history_is_linearizable"]),
        (
            Bug::BatchAbandoned,
            "concurrency",
            &["an_abandoned_batch_is_committed_whole_or_not_at_all"],
        ),
        (Bug::LastIndexChangeDropped, "index", &["every_entry_of_a_change_is_applied"]),
        (Bug::IndexChangedLater, "index", &["record_and_entry_agree_under_concurrent_moves"]),
        (
            Bug::TimeGoesBack,
            "time",
            &[
                "time_follows_the_clock_and_never_goes_back",
                "time_never_goes_back_across_a_reopening",
            ],
        ),
        (Bug::TimeInMilliseconds, "time", &["time_is_in_microseconds_since_the_epoch"]),
        (
            Bug::SyncForgotten,
            "durability",
            &[
                "a_reopened_store_has_every_synced_change",
                "a_synced_read_is_as_durable_as_a_synced_change",
            ],
        ),
        (Bug::RelaxedLate, "durability", &["a_relaxed_change_is_visible_at_once"]),
        (
            Bug::WatchesSleep,
            "watches",
            &[
                "a_watch_wakes_after_every_kind_of_change",
                "every_watch_of_a_record_wakes",
                "who_watches_first_and_reads_second_misses_nothing",
            ],
        ),
        (Bug::WatchesWakeForAll, "watches", &["changes_of_other_records_and_reads_wake_nobody"]),
        (Bug::WatchesWakeEarly, "watches", &["a_change_can_be_read_once_its_watch_woke"]),
        (Bug::EndIncluded, "scans", &["a_range_begins_at_its_start_and_ends_before_its_end"]),
        (Bug::PagesEndEarly, "scans", &["pages_visit_every_row_once"]),
        (Bug::PagesEndLate, "scans", &["a_page_has_no_more_rows_than_its_limit"]),
        (Bug::BytesUnbounded, "scans", &["a_page_has_no_more_bytes_than_its_limit"]),
        (Bug::OrderReversed, "values", &["keys_of_all_bytes_are_kept_in_their_order"]),
        (Bug::KeysCut, "values", &["the_largest_keys_and_values_are_kept"]),
        (Bug::ValuesCut, "values", &["values_of_every_size_are_kept"]),
        (Bug::LimitsStretched, "limits", &["scans_out_of_bounds_are_refused"]),
    ];
    for (bug, theme, checks) in cases {
        let failures = theme_failures(WrongHarness(bug), theme).await;
        for check in checks {
            assert!(
                failures.iter().any(|failure| failure.check == *check),
                "{bug:?} was not found out by {check}, only by {failures:?}"
            );
        }
    }
}
