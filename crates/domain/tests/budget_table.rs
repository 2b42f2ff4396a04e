//! What a budget's record answers to each command: what is there, what is asked, what is answered and what is
//! written, whole. Rows stand in the order of precedence of the answers.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

#[path = "support/budget.rs"]
mod support;

use semel_domain::Change;
use semel_domain::budget::ledger::{Slot, slot_of, start_of};
use semel_domain::budget::{
    Amount, Command, Done, Granted, Incarnation, Ledger, Member, Outcome, Policy, Record,
    ReplacePolicy, SetPolicy, SetPolicyOutcome, Settled, Spent, Sync, SyncOutcome, decide,
};
use semel_domain::limits::BUDGET_MEMBERS_MAX;
use semel_domain::time::Timestamp;

use support::*;

type Row = (&'static str, Option<Record>, Command, Change<Record>, Outcome);

fn check(rows: impl IntoIterator<Item = Row>) {
    let mut wrong = String::new();
    for (name, record, command, change, outcome) in rows {
        let actual = decide(record.as_ref(), &command, NOW);
        let expected = (change, outcome);
        if actual != expected {
            wrong += &format!("\n{name}\n  expected {expected:?}\n  got      {actual:?}\n");
        }
    }
    assert!(wrong.is_empty(), "these are wrong:\n{wrong}");
}

/// A record without a policy, whose floor is a hundred tokens a window.
fn record(slots: &[(u64, u64, u64)], members: Vec<Member>) -> Record {
    Record { policy: None, ledger: ledger(slots), members, touched_at: NOW.before(SECOND) }
}

fn under(policy: Policy, record: Record) -> Record {
    let (version, actor, set_at) = (3, "zoë".into(), NOW.before(60 * SECOND));
    Record { policy: Some(SetPolicy { policy, version, actor, set_at }), ..record }
}

/// The same, changed now.
fn put(record: Record) -> Change<Record> {
    Change::Put(Record { touched_at: NOW, ..record })
}

/// A member that synced now.
fn synced(node: Incarnation, seq: u64) -> Member {
    Member { touched_at: NOW, ..member(node, seq) }
}

/// A member that wanted something now, and got this.
fn served(node: Incarnation, seq: u64, granted: Granted) -> Member {
    let slices = vec![slice(seq, granted.milli, granted.expires_at)];
    Member { wants: true, granted: Some(granted), slices, ..synced(node, seq) }
}

fn done(granted: Option<Granted>, more_at: Option<Timestamp>) -> Outcome {
    Outcome::Sync(SyncOutcome::Done(Done { granted, more_at, others_want: false, repeated: false }))
}

/// The same, and others want something while there is nothing left.
fn others_want(granted: Option<Granted>) -> Outcome {
    Outcome::Sync(SyncOutcome::Done(Done {
        granted,
        more_at: None,
        others_want: true,
        repeated: false,
    }))
}

fn repeated(granted: Option<Granted>) -> Outcome {
    Outcome::Sync(SyncOutcome::Done(Done {
        granted,
        more_at: None,
        others_want: false,
        repeated: true,
    }))
}

fn this_slot() -> u64 {
    slot_of(NOW)
}

/// Brings everything that a sync can bring.
fn greedy(node: Incarnation, seq: u64) -> Sync {
    let spent = vec![Spent { offset_us: 0, milli: 100 }];
    Sync {
        deposits: vec![Amount { slot: ago(SECOND), milli: 9_000 }],
        settled: vec![Settled { slice: 4, spent, returned_milli: 400 }],
        want_milli: 2_000,
        ..sync(node, seq)
    }
}

#[rustfmt::skip]
#[test]
fn syncs_are_decided_in_order_of_precedence() {
    let holder = || Member { slices: vec![slice(4, 3_000, NOW.after(SECOND / 2))], ..member(A, 5) };
    let before = granted(700);
    let again = || Member { granted: Some(before), ..holder() };
    let crowd: Vec<_> = (0..BUDGET_MEMBERS_MAX).map(|number| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(number as u64 + 1_000).to_be_bytes());
        member(Incarnation(id), 1)
    }).collect();
    let silent: Vec<_> = crowd.iter().cloned().map(|member| Member { touched_at: NOW.before(30 * SECOND), ..member }).collect();
    check([
        ("an older one, whatever it brings", Some(record(&[], vec![again()])), Command::Sync(greedy(A, 4)), Change::Keep, Outcome::Sync(SyncOutcome::Stale)),
        ("the same again",           Some(record(&[], vec![again()])),   Command::Sync(greedy(A, 5)), Change::Keep, repeated(Some(before))),
        ("the same, granted nothing", Some(record(&[], vec![holder()])), Command::Sync(greedy(A, 5)), Change::Keep, repeated(None)),
        ("no room for another node", Some(record(&[], crowd.clone())),   Command::Sync(greedy(A, 1)), Change::Keep, done(None, None)),
        ("silent nodes make room",   Some(record(&[], silent)),          Command::Sync(wants(A, 1, 3_000)), put(record(&[], vec![served(A, 1, granted(3_000))])), done(Some(granted(3_000)), None)),
        ("it only asks how things stand", Some(record(&[], vec![again()])), Command::Sync(sync(A, 6)),      Change::Keep, done(None, None)),
        ("the same, of no record",   None,                               Command::Sync(sync(A, 1)),         Change::Keep, done(None, None)),
        ("no record, out of the floor", None,                            Command::Sync(wants(A, 1, 3_000)), put(record(&[], vec![served(A, 1, granted(3_000))])), done(Some(granted(3_000)), None)),
        ("a first number may be any", None,                              Command::Sync(wants(A, 77, 3_000)), put(record(&[], vec![served(A, 77, granted(3_000))])), done(Some(granted(3_000)), None)),
        ("all at once",              Some(record(&[(1_000, 500, 0)], vec![holder()])), Command::Sync(greedy(A, 6)),
            put(record(&[(1_000, 9_500, 0), (0, 0, 100)], vec![Member {
                slices: vec![slice(4, 2_500, NOW.after(SECOND / 2)), slice(6, 2_000, NOW.after(LEASE))], ..served(A, 6, granted(2_000))
            }])), done(Some(granted(2_000)), None)),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_node_hears_that_others_want_what_it_can_spare() {
    let wanting = |node| Member { wants: true, ..member(node, 1) };
    let poor = |members| Some(under(no_floor(), record(&[], members)));
    let asks = || Command::Sync(sync(A, 2));
    check([
        ("another wants, and there is nothing", poor(vec![wanting(B)]), asks(), Change::Keep, others_want(None)),
        ("another wants, but there is some", Some(record(&[], vec![wanting(B)])), asks(), Change::Keep, done(None, None)),
        ("nobody wants",             poor(vec![member(B, 1)]),           asks(), Change::Keep, done(None, None)),
        ("it alone wants",           poor(vec![wanting(A)]),             asks(), Change::Keep, done(None, None)),
    ]);
}

#[rustfmt::skip]
#[test]
fn deposits_count_in_their_slot_once_and_only_while_they_are_good() {
    let brings = |slot, milli| Command::Sync(Sync { deposits: vec![Amount { slot, milli }], ..sync(A, 1) });
    let with = |slots: &[_]| put(record(slots, vec![synced(A, 1)]));
    let nothing = || done(None, None);
    check([
        ("just now",                 None, brings(this_slot(), 50),              with(&[(0, 50, 0)]), nothing()),
        ("in a slot that is there",  Some(record(&[(500, 7, 8)], vec![])), brings(ago(500 * MS), 50), with(&[(500, 57, 8)]), nothing()),
        ("between two",              Some(record(&[(900, 7, 0), (100, 9, 0)], vec![])), brings(ago(500 * MS), 50), with(&[(900, 7, 0), (500, 50, 0), (100, 9, 0)]), nothing()),
        ("of the future: as of now", None, brings(this_slot() + 99, 50),         with(&[(0, 50, 0)]), nothing()),
        ("the oldest that is good",  None, brings(ago(WINDOW) + 1, 50),          with(&[(9_900, 50, 0)]), nothing()),
        ("a slot too old",           None, brings(ago(WINDOW), 50),              with(&[]), nothing()),
        ("of the beginning of time", None, brings(0, 50),                        with(&[]), nothing()),
        ("nothing",                  None, brings(this_slot(), 0),               with(&[]), nothing()),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_slice_is_accounted_for_once_and_never_for_more_than_it_held() {
    let ends = NOW.after(SECOND / 2);
    let holder = |slices| Member { slices, ..member(A, 5) };
    let there = || Some(record(&[], vec![holder(vec![slice(4, 3_000, ends)])]));
    let tells = |slice, spent: &[(i64, u64)], returned_milli| {
        let spent = spent.iter().map(|&(offset_us, milli)| Spent { offset_us, milli }).collect();
        Command::Sync(Sync { settled: vec![Settled { slice, spent, returned_milli }], ..sync(A, 6) })
    };
    let left = |slots: &[_], left| {
        let slices = if left == 0 { vec![] } else { vec![slice(4, left, ends)] };
        put(record(slots, vec![Member { slices, ..synced(A, 6) }]))
    };
    let nothing = || done(None, None);
    let ended = |ms| Some(record(&[], vec![holder(vec![slice(4, 3_000, NOW.before(ms * MS))])]));
    check([
        ("some was spent",           there(), tells(4, &[(0, 1_000)], 0),                 left(&[(0, 0, 1_000)], 2_000), nothing()),
        ("spent before",             there(), tells(4, &[(-200_000, 1_000)], 0),          left(&[(200, 0, 1_000)], 2_000), nothing()),
        ("to be spent later",        there(), tells(4, &[(300_000, 1_000)], 0),           Change::Put(Record { ledger: Ledger::of_slots([Slot { number: this_slot() + 3, deposited_milli: 0, spent_milli: 1_000 }]), members: vec![Member { slices: vec![slice(4, 2_000, ends)], ..synced(A, 6) }], touched_at: NOW, policy: None }), nothing()),
        ("the rest comes back",      there(), tells(4, &[(0, 1_000)], 2_000),             left(&[(0, 0, 1_000)], 0), nothing()),
        ("a part comes back",        there(), tells(4, &[], 1_000),                       left(&[], 2_000), nothing()),
        ("more was spent than it held", there(), tells(4, &[(0, 2_000), (0, 2_000)], 0),  left(&[(0, 0, 3_000)], 0), nothing()),
        ("more comes back than it held", there(), tells(4, &[(0, 2_000)], u64::MAX),      left(&[(0, 0, 2_000)], 0), nothing()),
        ("another slice",            there(), tells(3, &[(0, 1_000)], 500),               left(&[], 3_000), nothing()),
        ("it has ended: spent whole", ended(100), tells(4, &[(0, 100)], 2_900),           left(&[(100, 0, 3_000)], 0), nothing()),
        ("it ends now: spent whole", ended(0), tells(4, &[(0, 100)], 2_900),              left(&[(0, 0, 3_000)], 0), nothing()),
        ("it ended a window ago",    ended(10_100), tells(4, &[(0, 100)], 2_900),         left(&[], 0), nothing()),
        ("of another node",          Some(record(&[], vec![Member { node: B, ..holder(vec![slice(4, 3_000, ends)]) }])), tells(4, &[(0, 1_000)], 2_000),
            put(record(&[], vec![Member { node: B, ..holder(vec![slice(4, 3_000, ends)]) }, synced(A, 6)])), nothing()),
    ]);
}

#[rustfmt::skip]
#[test]
fn what_is_granted_is_never_more_than_is_there_and_fairly_split() {
    let asks = |milli| Command::Sync(wants(A, 1, milli));
    let gets = |old: Record, milli| put(Record { members: [old.members, vec![served(A, 1, granted(milli))]].concat(), ..old });
    let gets_none = |old: Record| put(Record { members: [old.members, vec![Member { wants: true, ..synced(A, 1) }]].concat(), ..old });
    let poor = |slots: &[_]| under(no_floor(), record(slots, vec![]));
    let wanting = |count: u64| -> Vec<_> {
        (0..count).map(|number| Member { wants: true, ..member(Incarnation([u8::try_from(number).expect("few") + 0x20; 16]), 1) }).collect()
    };
    let shared = |milli, count| under(no_floor(), record(&[(500, milli, 0)], wanting(count)));
    let holder = |milli| Member { slices: vec![slice(4, milli, NOW.after(SECOND))], ..member(B, 5) };
    let row = |name, old: Record, want, milli, more_at| -> Row {
        let (change, answer) = if milli == 0 { (gets_none(old.clone()), None) } else { (gets(old.clone(), milli), Some(granted(milli))) };
        (name, Some(old), asks(want), change, done(answer, more_at))
    };
    let end_of = |age_ms: u64| Some(start_of(ago(std::time::Duration::from_millis(age_ms)) + 1).after(WINDOW));
    check([
        row("all that is wanted",    poor(&[(500, 9_000, 0)]),          2_000, 2_000, None),
        row("all that is there",     poor(&[(500, 9_000, 0)]),          9_999, 9_000, None),
        row("what is not spent",     poor(&[(900, 0, 50), (500, 9_000, 3_950)]), 9_999, 5_000, end_of(900)),
        row("more is spent than deposited", poor(&[(500, 9_000, 9_001)]), 1_000, 0, end_of(500)),
        row("nothing is there",      poor(&[]),                         1_000, 0, None),
        row("what others hold",      Record { members: vec![holder(8_500)], ..poor(&[(500, 9_000, 0)]) }, 1_000, 500, None),
        row("others hold all",       Record { members: vec![holder(9_000)], ..poor(&[(500, 9_000, 0)]) }, 1_000, 0, None),
        row("a third of it",         shared(9_000, 2),                  9_000, 3_000, None),
        row("less than a third of it", shared(9_000, 2),                2_000, 2_000, None),
        row("more nodes than tokens: one whole", shared(9_000, 50),     9_000, 1_000, None),
        ("more nodes than tokens: the rest", Some(shared(700, 50)), asks(9_000), gets(shared(700, 50), 700), others_want(Some(granted(700)))),
        row("who wants nothing does not count", under(no_floor(), record(&[(500, 9_000, 0)], vec![member(B, 1), member(C, 1)])), 9_000, 9_000, None),
        row("nobody is turned away for saturation", poor(&[(900, u64::MAX, 0)]), u64::MAX, u64::MAX, None),
    ]);
    // Who has been silent for two leases wants nothing any more; his demand is not remembered either.
    let silent = Member { wants: true, touched_at: NOW.before(2 * LEASE), ..member(B, 1) };
    let old = under(no_floor(), record(&[(500, 9_000, 0)], vec![silent.clone()]));
    let quiet = Record { members: vec![Member { wants: false, ..silent }], ..old.clone() };
    check([("silent", Some(old), asks(9_000), gets(quiet, 9_000), done(Some(granted(9_000)), None))]);
}

#[rustfmt::skip]
#[test]
fn the_reserve_and_a_recovering_breaker_keep_their_parts_back() {
    let half = || Policy { reserve_per_mille: 500, ..no_floor() };
    let there = |policy: Policy, spent| under(policy, record(&[(500, 8_000, spent)], vec![]));
    let ask = |high_milli, admitted_per_mille, want_milli| Command::Sync(Sync { high_milli, admitted_per_mille, ..wants(A, 1, want_milli) });
    let more_at = Some(start_of(ago(500 * MS) + 1).after(WINDOW));
    let row = |name, old: Record, command, granted: Option<Granted>| -> Row {
        let new = match granted {
            Some(granted) => served(A, 1, granted),
            None => Member { wants: true, ..synced(A, 1) },
        };
        let spent = old.ledger.spent_milli() > 0;
        let change = put(Record { members: vec![new], ..old.clone() });
        (name, Some(old), command, change, done(granted, more_at.filter(|_| spent)))
    };
    let high_only = |milli| Some(Granted { high_only: true, ..granted(milli) });
    check([
        row("the half that is not reserved", there(half(), 0),  ask(0, 1_000, 9_000), Some(granted(4_000))),
        row("the reserve is not touched while there is something else", there(half(), 0), ask(9_000, 1_000, 9_000), Some(granted(4_000))),
        row("what needs no reserve is for all", there(half(), 0), ask(4_000, 1_000, 4_000), Some(granted(4_000))),
        row("all but the reserve is spent", there(half(), 4_000), ask(0, 1_000, 1_000), None),
        row("of the reserve alone",  there(half(), 4_000),      ask(9_000, 1_000, 9_000), high_only(4_000)),
        row("of the reserve only what the high want", there(half(), 4_000), ask(1_000, 1_000, 9_000), high_only(1_000)),
        row("a quarter is admitted", there(no_floor(), 0),      ask(0, 250, 9_000),   Some(granted(2_000))),
        row("nothing is admitted",   there(no_floor(), 0),      ask(0, 0, 9_000),     None),
        row("what was spent counts against the quarter", there(no_floor(), 1_500), ask(0, 250, 9_000), Some(granted(500))),
        row("both",                  there(half(), 0),          ask(0, 250, 9_000),   Some(granted(1_000))),
        row("all is reserved",       there(Policy { reserve_per_mille: 1_000, ..no_floor() }, 0), ask(0, 1_000, 9_000), None),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_policy_is_replaced_once_and_only_if_it_is_the_expected_one() {
    let there = || under(no_floor(), record(&[(500, 8_000, 0)], vec![member(A, 5)]));
    let same = |expected| Command::SetPolicy(ReplacePolicy { actor: "zoë".into(), ..replace(no_floor(), expected) });
    let other = |expected| Command::SetPolicy(replace(Policy { ratio_per_mille: 1, ..no_floor() }, expected));
    let set = |policy, version| SetPolicy { policy, version, actor: "olga".into(), set_at: NOW };
    let new = |version| put(Record { policy: Some(set(Policy { ratio_per_mille: 1, ..no_floor() }, version)), ..there() });
    let first = || put(Record { policy: Some(set(Policy { ratio_per_mille: 1, ..no_floor() }, 1)), ..record(&[], vec![]) });
    let last = || {
        let mut last = there();
        last.policy.as_mut().expect("a policy").version = u64::MAX;
        last
    };
    let answer = Outcome::SetPolicy;
    use SetPolicyOutcome::{Conflict, Replaced, Unchanged};
    check([
        ("the reply was lost",           Some(there()), same(Some(2)),  Change::Keep, answer(Unchanged { version: 3 })),
        ("just the same",                Some(there()), same(None),     Change::Keep, answer(Unchanged { version: 3 })),
        ("another was expected",         Some(there()), other(Some(2)), Change::Keep, answer(Conflict { current: 3 })),
        ("none was expected",            Some(there()), other(Some(0)), Change::Keep, answer(Conflict { current: 3 })),
        ("one was expected, none is there", None,       other(Some(1)), Change::Keep, answer(Conflict { current: 0 })),
        ("the expected one",             Some(there()), other(Some(3)), new(4),       answer(Replaced { version: 4 })),
        ("whatever is there",            Some(there()), other(None),    new(4),       answer(Replaced { version: 4 })),
        ("none was expected, none is there", None,      other(Some(0)), first(),      answer(Replaced { version: 1 })),
        ("the first",                    None,          other(None),    first(),      answer(Replaced { version: 1 })),
        ("the same of another operator", Some(there()), Command::SetPolicy(replace(no_floor(), Some(3))),
            put(Record { policy: Some(set(no_floor(), 4)), ..there() }), answer(Replaced { version: 4 })),
        ("versions end",                 Some(last()),  other(None),    new(u64::MAX), answer(Replaced { version: u64::MAX })),
    ]);
}

#[rustfmt::skip]
#[test]
fn looking_changes_nothing_and_only_what_says_nothing_is_removed() {
    let busy = || record(&[(9_900, 3, 4), (500, 8_000, 0)], vec![Member { slices: vec![slice(4, 7, NOW.after(SECOND))], ..member(A, 5) }]);
    let silent = || Member { touched_at: NOW.before(30 * SECOND), ..member(A, 5) };
    let outlived = || Record { touched_at: NOW.before(90 * SECOND), ..record(&[(20_000, 8_000, 8_000), (10_100, 1, 1)], vec![silent()]) };
    let get = |record| Outcome::Get(Box::new(record));
    let removed = |removed| Outcome::Expire { removed };
    check([
        ("look: nothing",            None,             Command::Get,    Change::Keep,   get(Record::default())),
        ("look: all of it",          Some(busy()),     Command::Get,    Change::Keep,   get(busy())),
        ("look: outlived",           Some(outlived()), Command::Get,    Change::Keep,   get(Record { touched_at: NOW.before(90 * SECOND), ..Record::default() })),
        ("remove: nothing",          None,             Command::Expire, Change::Keep,   removed(false)),
        ("remove: in use",           Some(busy()),     Command::Expire, Change::Keep,   removed(false)),
        ("remove: it has a policy",  Some(under(no_floor(), outlived())), Command::Expire, Change::Keep, removed(false)),
        ("remove: it has deposits",  Some(record(&[(9_900, 1, 0)], vec![])), Command::Expire, Change::Keep, removed(false)),
        ("remove: something was spent", Some(record(&[(10_000, 0, 1)], vec![])), Command::Expire, Change::Keep, removed(false)),
        ("remove: a node is followed", Some(record(&[], vec![member(A, 5)])), Command::Expire, Change::Keep, removed(false)),
        ("remove: outlived",         Some(outlived()), Command::Expire, Change::Delete, removed(true)),
        ("remove: empty",            Some(record(&[], vec![])), Command::Expire, Change::Delete, removed(true)),
    ]);
}

/// Time in a record never goes back: what has left the window stays out, and leases do not grow.
#[test]
fn a_clock_that_went_back_is_not_followed() {
    let touched =
        Record { touched_at: NOW, ..under(no_floor(), record(&[(500, 8_000, 0)], vec![])) };
    let behind = NOW.before(3_600 * SECOND);
    let (change, outcome) = decide(Some(&touched), &Command::Sync(wants(A, 1, 1_000)), behind);
    assert_eq!(outcome, done(Some(granted(1_000)), None), "granted by the record's time");
    assert_eq!(change, put(Record { members: vec![served(A, 1, granted(1_000))], ..touched }));
}
