//! Whether a recorded history of one record is linearizable.
//!
//! The record is a list that only grows, and every append has a number of its own. So the list at
//! the end names the one order in which the appends can have happened, and the list that a call saw
//! names its place in that order: no search is needed, and a history of any length is judged.

use std::collections::HashMap;

/// One call on the record, as its caller saw it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// When it began and when it was answered, by a counter that all callers share.
    pub(super) began: u64,
    pub(super) answered: u64,
    /// The number that it appended; `None` for a read.
    pub(super) appended: Option<u64>,
    /// The list before it.
    pub(super) saw: Vec<u64>,
    /// The store's time, if the call is known to have run once only.
    pub(super) now_us: Option<u64>,
}

/// Says what is wrong with the calls, given the list that they left.
pub(super) fn judge(calls: &[Call], left: &[u64]) -> Result<(), String> {
    let places: HashMap<u64, usize> = left.iter().copied().zip(0..).collect();
    if places.len() < left.len() {
        return Err(format!("a number was appended twice: {left:?}"));
    }
    // The calls in the one possible order: reads before the append that ended their list, and among
    // themselves by the store's time, then as they began.
    let mut order = Vec::new();
    for call in calls {
        let place = place(call, left, &places)?;
        order.push(((place, call.appended.is_some(), call.now_us, call.began), call));
    }
    order.sort_by_key(|(position, _)| *position);
    if calls.iter().filter(|call| call.appended.is_some()).count() < left.len() {
        return Err(format!("the list has numbers that no call appended: {left:?}"));
    }
    let mut latest_began = 0;
    let mut latest_now_us = 0;
    for (_, call) in order {
        if call.answered < latest_began {
            return Err(format!("{call:?} was overtaken by a call that began after its answer"));
        }
        let now_us = call.now_us.unwrap_or(latest_now_us);
        if now_us < latest_now_us {
            return Err(format!("{call:?} saw an earlier time than the call before it"));
        }
        latest_began = latest_began.max(call.began);
        latest_now_us = now_us;
    }
    Ok(())
}

/// How many appends come before the call.
fn place(call: &Call, left: &[u64], places: &HashMap<u64, usize>) -> Result<usize, String> {
    if !left.starts_with(&call.saw) {
        return Err(format!("{call:?} saw a list that never was; at the end it was {left:?}"));
    }
    let Some(appended) = call.appended else { return Ok(call.saw.len()) };
    match places.get(&appended) {
        None => Err(format!("{call:?} was answered and is lost: {left:?}")),
        Some(place) if *place != call.saw.len() => {
            Err(format!("{call:?} saw another list than the one that it was appended to: {left:?}"))
        }
        Some(place) => Ok(*place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(id: u64, (began, answered): (u64, u64), saw: &[u64]) -> Call {
        Call { began, answered, appended: Some(id), saw: saw.to_vec(), now_us: Some(1) }
    }

    fn read((began, answered): (u64, u64), saw: &[u64]) -> Call {
        Call { began, answered, appended: None, saw: saw.to_vec(), now_us: Some(1) }
    }

    fn assert_wrong(calls: &[Call], left: &[u64], reason: &str) {
        let found = judge(calls, left).expect_err("the history is wrong");
        assert!(found.contains(reason), "{found}");
    }

    #[test]
    fn calls_in_turn_and_calls_at_once_are_right() {
        let calls = [
            append(1, (1, 2), &[]),
            append(2, (3, 8), &[1]),
            append(3, (4, 5), &[1, 2]),
            read((6, 9), &[1, 2, 3]),
            read((7, 10), &[1, 2, 3]),
        ];
        assert_eq!(judge(&calls, &[1, 2, 3]), Ok(()));
        assert_eq!(judge(&[read((1, 9), &[]), append(1, (2, 3), &[])], &[1]), Ok(()));
    }

    #[test]
    fn a_lost_update_is_wrong() {
        let calls = [append(1, (1, 3), &[]), append(2, (2, 4), &[])];
        assert_wrong(&calls, &[2], "is lost");
    }

    #[test]
    fn an_answer_from_another_run_is_wrong() {
        let calls = [append(1, (1, 3), &[]), append(2, (2, 4), &[])];
        assert_wrong(&calls, &[1, 2], "another list");
    }

    #[test]
    fn a_read_that_is_late_or_early_is_wrong() {
        let stale = [append(1, (1, 2), &[]), read((3, 4), &[])];
        assert_wrong(&stale, &[1], "overtaken");
        let backwards = [append(1, (1, 9), &[]), read((2, 3), &[1]), read((4, 5), &[])];
        assert_wrong(&backwards, &[1], "overtaken");
    }

    #[test]
    fn appends_out_of_turn_are_wrong() {
        let calls = [append(1, (1, 2), &[2]), append(2, (3, 4), &[])];
        assert_wrong(&calls, &[2, 1], "overtaken");
    }

    #[test]
    fn a_list_that_never_was_is_wrong() {
        let calls = [append(1, (1, 2), &[]), append(2, (3, 4), &[1]), read((5, 6), &[2])];
        assert_wrong(&calls, &[1, 2], "never was");
    }

    #[test]
    fn numbers_twice_or_from_nowhere_are_wrong() {
        assert_wrong(&[append(1, (1, 2), &[])], &[1, 1], "twice");
        assert_wrong(&[append(1, (1, 2), &[])], &[1, 7], "no call");
    }

    #[test]
    fn a_time_that_goes_back_is_wrong() {
        let later = Call { now_us: Some(9), ..append(1, (1, 2), &[]) };
        assert_wrong(&[later, append(2, (3, 4), &[1])], &[1, 2], "earlier time");
    }
}
