//! One thread plays both the decider and the committer, so that every order can be tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::decider::View;
use super::*;
use crate::contract::StoreError;

/// A job that decides nothing by itself.
struct Idle;

impl Job for Idle {
    fn decide(&mut self, _view: &mut View<'_>) {}

    fn answer(self: Box<Self>, _result: Result<(), StoreError>) {}
}

const WAIT: Option<Duration> = Some(Duration::ZERO);

fn pipeline() -> Pipeline {
    Pipeline::new(&EmbeddedOptions { group_writes: 4, ..EmbeddedOptions::new("unused") })
}

fn put(value: &'static str) -> Change {
    Change { value: ValueChange::Put(value.into()), index: Vec::new() }
}

fn add(pipeline: &Pipeline, turn: &mut Turn, key: &'static str, value: &'static str) {
    let synced = Durability::Synced;
    pipeline.add(turn, &Bytes::from(key), put(value), synced, 7).unwrap();
}

/// A job of one synced put.
fn put_job(pipeline: &Pipeline, key: &'static str, value: &'static str) {
    let mut turn = pipeline.begin_job();
    add(pipeline, &mut turn, key, value);
    assert!(matches!(pipeline.end_job(&turn, Box::new(Idle)), Ended::Waiting));
}

/// A job of one relaxed put.
fn relaxed_job(pipeline: &Pipeline, key: &'static str, value: &'static str) {
    let mut turn = pipeline.begin_job();
    pipeline.add(&mut turn, &Bytes::from(key), put(value), Durability::Relaxed, 7).unwrap();
    assert!(matches!(pipeline.end_job(&turn, Box::new(Idle)), Ended::Waiting));
}

/// A job of one read: what was pending, and what became of the job.
fn read_job(pipeline: &Pipeline, key: &str, durability: Durability) -> (Option<String>, Ended) {
    let mut turn = pipeline.begin_job();
    let found = pipeline.pending(&mut turn, key.as_bytes(), durability);
    let found = found.map(|value| match value {
        Some(value) => String::from_utf8(value.to_vec()).unwrap(),
        None => "removed".to_owned(),
    });
    (found, pipeline.end_job(&turn, Box::new(Idle)))
}

fn next(pipeline: &Pipeline) -> Group {
    match pipeline.next(WAIT) {
        Next::Commit(group) => group,
        Next::Nothing | Next::Closed => panic!("no group"),
    }
}

fn nothing(pipeline: &Pipeline) -> bool {
    matches!(pipeline.next(WAIT), Next::Nothing)
}

#[test]
fn whatever_is_decided_during_a_commit_makes_up_the_next_group() {
    let pipeline = pipeline();
    assert!(nothing(&pipeline));
    put_job(&pipeline, "a", "1");
    assert_eq!(next(&pipeline).jobs.len(), 1);
    put_job(&pipeline, "b", "1");
    put_job(&pipeline, "c", "1");
    pipeline.committed(true);
    let group = next(&pipeline);
    assert_eq!((group.jobs.len(), group.writes.len(), group.now_us), (2, 2, 7));
    assert!(group.synced);
}

#[test]
fn a_value_is_pending_until_it_is_committed_and_its_readers_wait() {
    let pipeline = pipeline();
    put_job(&pipeline, "a", "1");
    let (found, ended) = read_job(&pipeline, "a", Durability::Synced);
    assert_eq!(found.as_deref(), Some("1"), "in the open group");
    assert!(matches!(ended, Ended::Waiting));
    assert_eq!(next(&pipeline).jobs.len(), 2);

    let (found, ended) = read_job(&pipeline, "a", Durability::Relaxed);
    assert_eq!(found.as_deref(), Some("1"), "in the commit");
    assert!(matches!(ended, Ended::Waiting));
    put_job(&pipeline, "a", "2");
    let (found, _) = read_job(&pipeline, "a", Durability::Synced);
    assert_eq!(found.as_deref(), Some("2"), "the newest counts");

    assert_eq!(pipeline.committed(true), ["a"]);
    next(&pipeline);
    assert_eq!(pipeline.committed(true), ["a"]);
    let (found, ended) = read_job(&pipeline, "a", Durability::Synced);
    assert_eq!(found, None);
    assert!(matches!(ended, Ended::Free(_)));
}

#[test]
fn a_removal_is_pending_too() {
    let pipeline = pipeline();
    let mut turn = pipeline.begin_job();
    let change = Change { value: ValueChange::Delete, index: Vec::new() };
    pipeline.add(&mut turn, &Bytes::from("a"), change, Durability::Synced, 7).unwrap();
    pipeline.end_job(&turn, Box::new(Idle));
    assert_eq!(read_job(&pipeline, "a", Durability::Synced).0.as_deref(), Some("removed"));
}

#[test]
fn a_synced_read_of_a_relaxed_change_waits_for_a_sync_and_a_relaxed_one_does_not() {
    let pipeline = pipeline();
    relaxed_job(&pipeline, "a", "1");
    assert!(!next(&pipeline).synced);
    assert_eq!(pipeline.committed(false), ["a"]);
    assert_eq!(pipeline.unsynced_records(), 1);

    let (_, ended) = read_job(&pipeline, "a", Durability::Relaxed);
    assert!(matches!(ended, Ended::Free(_)));
    let (found, ended) = read_job(&pipeline, "a", Durability::Synced);
    assert_eq!(found.as_deref(), Some("1"));
    assert!(matches!(ended, Ended::Waiting));
    let group = next(&pipeline);
    assert!(group.synced && group.writes.is_empty());
    pipeline.committed(true);
    let (_, ended) = read_job(&pipeline, "a", Durability::Synced);
    assert!(matches!(ended, Ended::Free(_)));

    relaxed_job(&pipeline, "a", "2");
    next(&pipeline);
    pipeline.committed(false);
    pipeline.synced();
    let (_, ended) = read_job(&pipeline, "a", Durability::Synced);
    assert!(matches!(ended, Ended::Free(_)));
}

#[test]
fn a_batch_is_not_spread_over_more_commits_than_it_needs() {
    let pipeline = pipeline();
    let mut turn = pipeline.begin_job();
    for key in ["a", "b", "c"] {
        add(&pipeline, &mut turn, key, "1");
        assert!(nothing(&pipeline), "the batch is not at its end");
    }
    add(&pipeline, &mut turn, "d", "1");
    assert_eq!(next(&pipeline).writes.len(), 4, "the group is full");
    add(&pipeline, &mut turn, "e", "1");
    pipeline.end_job(&turn, Box::new(Idle));
    pipeline.committed(true);
    let group = next(&pipeline);
    assert_eq!((group.writes.len(), group.jobs.len()), (1, 1));
    assert!(group.jobs[0].spans_groups);
}

#[test]
fn a_decider_that_finds_the_group_full_waits_until_it_is_taken() {
    let pipeline = Arc::new(pipeline());
    let added = Arc::new(AtomicUsize::new(0));
    let decider = std::thread::Builder::new()
        .spawn({
            let (pipeline, added) = (Arc::clone(&pipeline), Arc::clone(&added));
            move || {
                for _ in 0..100 {
                    let mut turn = pipeline.begin_job();
                    for key in ["a", "b", "c"] {
                        add(&pipeline, &mut turn, key, "1");
                        added.fetch_add(1, Ordering::SeqCst);
                    }
                    pipeline.end_job(&turn, Box::new(Idle));
                }
                pipeline.close();
            }
        })
        .unwrap();
    let (mut writes, mut jobs) = (0, 0);
    loop {
        match pipeline.next(None) {
            Next::Commit(group) => {
                assert!(group.writes.len() <= 4);
                writes += group.writes.len();
                jobs += group.jobs.len();
                // Besides what was taken there is at most one group.
                assert!(added.load(Ordering::SeqCst) <= writes + 4);
                pipeline.committed(true);
            }
            Next::Nothing => panic!("nobody asked for a timeout"),
            Next::Closed => break,
        }
    }
    decider.join().unwrap();
    assert_eq!((writes, jobs), (300, 100));
}

#[test]
fn a_failure_voids_what_was_decided_on_top_of_it() {
    let pipeline = pipeline();
    put_job(&pipeline, "a", "1");
    let failed = next(&pipeline);
    put_job(&pipeline, "b", "1");
    let mut turn = pipeline.begin_job();
    assert!(pipeline.pending(&mut turn, b"a", Durability::Synced).is_some());
    drop(failed);
    assert_eq!(pipeline.fail().len(), 1);

    let synced = Durability::Synced;
    assert!(pipeline.add(&mut turn, &Bytes::from("c"), put("1"), synced, 7).is_err());
    assert!(matches!(pipeline.end_job(&turn, Box::new(Idle)), Ended::Stale(_)));
    for key in ["a", "b", "c"] {
        assert_eq!(read_job(&pipeline, key, synced).0, None);
    }
    assert!(nothing(&pipeline));
    put_job(&pipeline, "d", "1");
    assert_eq!(next(&pipeline).writes.len(), 1);
}

#[test]
fn a_batch_with_a_part_in_a_failed_group_is_known_as_such() {
    let pipeline = pipeline();
    let mut turn = pipeline.begin_job();
    for key in ["a", "b", "c", "d"] {
        add(&pipeline, &mut turn, key, "1");
    }
    next(&pipeline);
    add(&pipeline, &mut turn, "e", "1");
    pipeline.end_job(&turn, Box::new(Idle));
    let void = pipeline.fail();
    assert_eq!(void.len(), 1);
    assert!(void[0].spans_groups);
}

#[test]
fn the_end_comes_after_what_is_left() {
    let pipeline = pipeline();
    put_job(&pipeline, "a", "1");
    pipeline.close();
    assert_eq!(next(&pipeline).jobs.len(), 1);
    pipeline.committed(true);
    assert!(matches!(pipeline.next(None), Next::Closed));
    assert!(pipeline.wait_closed(None));
}
