//! Histories of erased keys.

use super::*;

const TOLD_MAX_US: u64 = 5_000_000;

fn forget(span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Forget, span, answered)
}

/// A key that was completed, and erased by the sixth microsecond; and then this.
fn then(call: Call) -> Vec<Call> {
    let completed = [granted(1, 10, (0, 1)), complete(1, 10, "a", (2, 3), DONE)];
    completed.into_iter().chain([forget((4, 6), DONE), call]).collect()
}

#[test]
fn a_life_that_is_erased_is_right() {
    assert_right(&[
        forget((0, 1), Answered::NoSuchKey),
        granted(1, 10, (2, 3)),
        forget((4, 5), Answered::NotCompleted),
        complete(1, 10, "a", (6, 7), DONE),
        forget((8, 9), DONE),
        forget((10, 11), DONE),
        replay((12, 13), Answered::Erased),
        claim(2, (14, 15), Answered::Erased),
        complete(1, 10, "a", (16, 17), Answered::Erased),
        renew(1, 10, (18, 19), Answered::Fenced),
        release(1, 10, (20, 21), Answered::Fenced),
    ]);
    // For a while a node may not know.
    assert_right(&then(replay((7, 8), told(10, "a"))));
    assert_right(&then(claim(2, (6 + TOLD_MAX_US, 7 + TOLD_MAX_US), told(10, "a"))));
    // Whose completion nobody knows of.
    assert_right(&[
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 3), Answered::Unknown),
        forget((4, 5), Answered::Unknown),
        claim(2, (6, 7), Answered::Erased),
    ]);
}

#[test]
fn an_erased_answer_that_is_told_too_long_is_seen() {
    let late = (7 + TOLD_MAX_US, 8 + TOLD_MAX_US);
    assert_breaks(Promise::Erased, &then(replay(late, told(10, "a"))));
    assert_breaks(Promise::Erased, &then(claim(2, late, told(10, "a"))));
}

#[test]
fn an_erased_key_that_runs_again_is_seen() {
    assert_breaks(Promise::CompletionKept, &then(granted(2, 11, (7, 8))));
    // Even if nobody was ever told that it was completed.
    let untold = [
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 3), Answered::Unknown),
        forget((4, 6), DONE),
        granted(2, 11, (2_000, 2_001)),
    ];
    assert_breaks(Promise::Linearizable, &untold);
}

#[test]
fn an_erasure_that_is_lost_is_seen() {
    for answered in [Answered::Held, Answered::NoSuchKey, Answered::GivenBack] {
        assert_breaks(Promise::Linearizable, &then(replay((7, 8), answered)));
    }
    assert_breaks(Promise::Linearizable, &then(forget((7, 8), Answered::NotCompleted)));
    assert_breaks(Promise::Linearizable, &then(complete(1, 10, "a", (7, 8), DONE)));
}

#[test]
fn an_erasure_of_nobody_is_seen() {
    let calls = [
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 3), DONE),
        replay((4, 5), Answered::Erased),
    ];
    assert_breaks(Promise::CompletionKept, &calls);
}
