//! Histories of doubt: declared by owners, left by owners that are lost, and settled.

use super::*;

fn doubt(by: u8, fence: u64, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Doubt { owner: owner(by), fence }, span, answered)
}

fn not_done(fence: u64, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Settle { fence, found: None }, span, answered)
}

fn found(fence: u64, body: &'static str, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Settle { fence, found: Some(body.into()) }, span, answered)
}

/// The same history of a key that nobody takes over.
fn blocking(calls: &[Call]) -> Vec<Call> {
    let blocks = |call: &Call| match call.asked {
        Asked::Claim { owner, .. } => {
            Call { asked: Asked::Claim { owner, blocks: true }, ..call.clone() }
        }
        _ => call.clone(),
    };
    calls.iter().map(blocks).collect()
}

#[test]
fn a_life_in_doubt_is_right() {
    assert_right(&[
        granted(1, 10, (0, 1)),
        not_done(10, (2, 3), Answered::Live),
        doubt(1, 10, (4, 5), DONE),
        doubt(1, 10, (6, 7), DONE),
        replay((8, 9), Answered::Doubtful),
        renew(1, 10, (10, 11), Answered::Fenced),
        release(1, 10, (12, 13), Answered::Fenced),
        // Who comes next looks first, at once.
        granted(2, 11, (14, 15)),
        complete(1, 10, "a", (16, 17), Answered::Fenced),
        doubt(2, 11, (18, 19), DONE),
        // Its owner found out.
        complete(2, 11, "b", (20, 21), DONE),
        doubt(2, 11, (22, 23), Answered::Conflict),
        not_done(11, (24, 25), Answered::Conflict),
        found(11, "b", (26, 27), DONE),
        found(11, "c", (28, 29), Answered::Conflict),
    ]);
}

#[test]
fn a_life_of_a_key_that_blocks_is_right() {
    let lapsed = 500_000;
    assert_right(&blocking(&[
        granted(1, 10, (0, 1)),
        claim(2, (2, 3), Answered::Held),
        claim(2, (lapsed, lapsed + 1), Answered::Doubtful),
        replay((lapsed + 2, lapsed + 3), Answered::Held),
        not_done(10, (lapsed + 4, lapsed + 5), DONE),
        claim(1, (lapsed + 6, lapsed + 7), Answered::GivenBack),
        release(1, 10, (lapsed + 6, lapsed + 7), Answered::Fenced),
        granted(2, 11, (lapsed + 8, lapsed + 9)),
        not_done(10, (lapsed + 10, lapsed + 11), DONE),
        doubt(2, 11, (lapsed + 12, lapsed + 13), DONE),
        claim(3, (lapsed + 14, lapsed + 15), Answered::Doubtful),
        found(11, "seen", (lapsed + 16, lapsed + 17), DONE),
        claim(3, (lapsed + 18, lapsed + 19), told(11, "seen")),
        complete(2, 11, "seen", (lapsed + 20, lapsed + 21), DONE),
    ]));
}

#[test]
fn a_claim_that_only_an_operator_saw_is_no_wonder() {
    let lost = claim(1, (0, 5), Answered::Unknown);
    let settled = not_done(10, (2_000, 2_001), DONE);
    let next = granted(2, 11, (2_002, 2_003));
    assert_right(&blocking(&[lost.clone(), settled.clone(), next.clone()]));
    let unanswered = not_done(10, (2_000, 2_001), Answered::Unknown);
    assert_right(&blocking(&[lost, unanswered, replay((2_002, 2_003), Answered::GivenBack)]));
    assert_breaks(Promise::OneFence, &blocking(&[settled, next]));
}

#[test]
fn a_key_that_blocks_and_is_given_on_is_seen() {
    let lost = [granted(1, 10, (0, 1)), granted(2, 11, (500_000, 500_001))];
    assert_right(&lost);
    assert_breaks(Promise::Blocked, &blocking(&lost));
    let doubted = [granted(1, 10, (0, 1)), doubt(1, 10, (2, 3), DONE), granted(2, 11, (4, 5))];
    assert_right(&doubted);
    assert_breaks(Promise::Blocked, &blocking(&doubted));
    let too_late = not_done(10, (500_002, 500_003), DONE);
    assert_breaks(Promise::Blocked, &blocking(&[&lost[..], &[too_late]].concat()));
}

#[test]
fn a_key_that_blocks_and_does_not_say_so_is_seen() {
    let late = |answered| claim(2, (500_000, 500_001), answered);
    let held = [granted(1, 10, (0, 1)), late(Answered::Held)];
    assert_right(&held);
    assert_breaks(Promise::Linearizable, &blocking(&held));
    // A renewal that nobody knows of may have come.
    let renewed = renew(1, 10, (2, 3), Answered::Unknown);
    assert_right(&blocking(&[&held[..], &[renewed]].concat()));
    let not_settled = not_done(10, (500_000, 500_001), Answered::Live);
    assert_breaks(Promise::Blocked, &[granted(1, 10, (0, 1)), not_settled]);
}

#[test]
fn a_doubt_that_nobody_has_is_seen() {
    assert_breaks(
        Promise::Linearizable,
        &[granted(1, 10, (0, 1)), replay((2, 3), Answered::Doubtful)],
    );
    assert_breaks(
        Promise::Linearizable,
        &[granted(1, 10, (0, 1)), claim(2, (2_000, 2_001), Answered::Doubtful)],
    );
    // Of a lease that runs; but a claim may be renewed after it had lapsed for a while.
    let renewed = [granted(1, 10, (0, 1)), renew(1, 10, (2_000, 2_001), DONE)];
    let with = |span: (u64, u64)| {
        let told = claim(2, span, Answered::Doubtful);
        blocking(&[&renewed[..], &[told]].concat())
    };
    assert_breaks(Promise::LiveClaimHolds, &with((2, 3)));
    assert_right(&with((1_500, 1_501)));
    assert_breaks(Promise::LiveClaimHolds, &with((2_002, 2_003)));
}

#[test]
fn a_doubt_that_is_lost_is_seen() {
    let doubted = [granted(1, 10, (0, 1)), doubt(1, 10, (2, 3), DONE)];
    let then = |call: Call| doubted.iter().cloned().chain([call]).collect::<Vec<_>>();
    assert_breaks(Promise::Linearizable, &then(replay((4, 5), Answered::Held)));
    assert_breaks(Promise::Linearizable, &then(renew(1, 10, (4, 5), DONE)));
    assert_breaks(Promise::Linearizable, &then(resumed(1, 10, (4, 5))));
    assert_breaks(Promise::Linearizable, &then(doubt(1, 10, (4, 5), Answered::Fenced)));
}

#[test]
fn a_live_claim_that_is_settled_is_seen() {
    assert_breaks(Promise::LiveClaimHolds, &[granted(1, 10, (0, 1)), not_done(10, (2, 3), DONE)]);
    assert_breaks(Promise::LiveClaimHolds, &[granted(1, 10, (0, 1)), found(10, "a", (2, 3), DONE)]);
}

#[test]
fn a_settlement_that_is_lost_or_changed_is_seen() {
    let settled = [granted(1, 10, (0, 1)), found(10, "a", (2_000, 2_001), DONE)];
    let then = |call: Call| settled.iter().cloned().chain([call]).collect::<Vec<_>>();
    assert_breaks(Promise::CompletionKept, &then(replay((2_002, 2_003), told(10, "b"))));
    assert_breaks(Promise::CompletionKept, &then(granted(2, 11, (2_002, 2_003))));
    assert_breaks(Promise::Linearizable, &then(replay((2_002, 2_003), Answered::Held)));
    assert_breaks(Promise::Linearizable, &then(not_done(10, (2_002, 2_003), DONE)));
    let fenced = complete(1, 10, "b", (2_002, 2_003), Answered::Fenced);
    assert_breaks(Promise::Linearizable, &then(fenced));
}
