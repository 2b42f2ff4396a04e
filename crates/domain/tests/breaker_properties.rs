//! What holds for every sequence of commands, whoever sends them and whatever the clocks say.
//!
//! Each property is told from the trace of a random walk: from what was asked, answered and left,
//! never by asking the rules what they would have done.

#[path = "breaker_support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use semel_domain::Change;
use semel_domain::breaker::{
    AbsorbOutcome, AdvanceOutcome, Command, Condition, Counts, ForceKind, Outcome, Policy,
    ProbeOutcome, ProbeResult, Record, ReporterId, SetPolicy, SettleOutcome, State, decide, decode,
    encode, snapshot,
};
use semel_domain::time::Timestamp;

use support::*;

/// Where a walk begins, and its steps: some time goes by, and a node whose clock is off by up to a
/// second asks for something.
type Walk = (Option<Record>, Vec<(Duration, Duration, Command)>);

/// In a walk: whatever generation the breaker has by then.
const CURRENT: u64 = u64::MAX;

/// One decision of a walk.
struct Event {
    /// What counts: never earlier than the record's last change.
    at: Timestamp,
    before: Option<Record>,
    command: Command,
    outcome: Outcome,
    after: Option<Record>,
}

impl Event {
    fn generations(&self) -> (u64, u64) {
        let of = |record: &Option<Record>| record.as_ref().map_or(0, |record| record.generation);
        (of(&self.before), of(&self.after))
    }
}

fn walk((start, steps): &Walk) -> Vec<Event> {
    let (mut desk, mut time, mut trace) = (Desk(start.clone()), BEGAN, Vec::new());
    for (idle, ahead, command) in steps {
        let mut command = command.clone();
        if let Command::Absorb(absorb) = &mut command {
            let current = desk.0.as_ref().map_or(0, |record| record.generation);
            let told = absorb.outcomes.iter_mut().filter(|one| one.generation == CURRENT);
            told.for_each(|one| one.generation = current);
        }
        time = time.after(*idle);
        let now = time.before(SECOND).after(*ahead);
        let before = desk.0.clone();
        let at = before.as_ref().map_or(now, |record| now.max(record.touched_at));
        let outcome = desk.ask(&command, now);
        trace.push(Event { at, before, command, outcome, after: desk.0.clone() });
    }
    trace
}

fn walks() -> impl Strategy<Value = Walk> {
    let start = select(vec![None, Some(closed()), Some(recovered(1)), Some(open_until(BEGAN, 0))]);
    let idle = prop_oneof![
        4 => Just(Duration::ZERO),
        4 => (0..1_000_u64).prop_map(Duration::from_millis),
        1 => (3..40_u64).prop_map(Duration::from_secs),
        1 => Just(Duration::from_secs(700)),
    ];
    let ahead = (0..2_000_u64).prop_map(Duration::from_millis);
    (start, vec((idle, ahead, commands()), 1..60))
}

fn commands() -> impl Strategy<Value = Command> {
    let kind = select(vec![
        None,
        Some(ForceKind::Open),
        Some(ForceKind::Closed),
        Some(ForceKind::MetricsOnly),
    ]);
    let result = prop_oneof![
        6 => Just(ProbeResult::Succeeded),
        1 => Just(ProbeResult::Failed),
        1 => Just(ProbeResult::Inconclusive),
    ];
    let expires_in =
        prop_oneof![Just(None), (1..20_u64).prop_map(|s| Some(Duration::from_secs(s)))];
    prop_oneof![
        10 => absorbs(),
        6 => any::<u64>().prop_map(|random| Command::Advance { random }),
        8 => (0..3_u8).prop_map(probe_of),
        8 => (0..3_u8, result).prop_map(|(byte, result)| settle(byte, result)),
        1 => (any::<u8>(), kind, expires_in).prop_map(|(byte, kind, left)| force(byte, kind, left)),
        1 => (1..4_u32, 1..4_u32).prop_map(|(probes_max, calls)| set(probes_max, calls)),
        1 => Just(Command::Get),
        2 => Just(Command::Expire),
    ]
}

fn set(probes_max: u32, calls_min: u32) -> Command {
    let policy = Policy { probes_max, calls_min, successes_to_close: 2, ..POLICY };
    Command::SetPolicy(SetPolicy { policy, expected_version: None, actor: "ops".into() })
}

fn absorbs() -> impl Strategy<Value = Command> {
    let outcomes = (reporters(), 0..4_u64, 0..4_u64).prop_map(|(who, s, f)| (who, counts(s, f)));
    let generation = prop_oneof![3 => Just(CURRENT), 1 => 0..9_u64];
    (0..3_u8, 1..40_u64, generation, vec(outcomes, 1..4))
        .prop_map(|(node, seq, generation, all)| absorb_from([node; 16], seq, generation, &all))
}

fn reporters() -> impl Strategy<Value = ReporterId> {
    (0..40_u8).prop_map(|byte| ReporterId([byte; 16]))
}

fn totals(record: Option<&Record>) -> Counts {
    record.map_or_else(Counts::default, |record| {
        let slots = record.window.totals.0.iter();
        slots.fold(Counts::default(), |sum, slot| sum.plus(slot.counts))
    })
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn generations_only_rise_and_time_never_goes_back(steps in walks()) {
        for event in walk(&steps) {
            let (before, after) = event.generations();
            prop_assert!(after >= before, "{:?}", event.command);
            let touched = |record: &Option<Record>| record.as_ref().map(|record| record.touched_at);
            if let (Some(before), Some(after)) = (touched(&event.before), touched(&event.after)) {
                prop_assert!(before <= after);
            }
            if event.before.is_some() && event.after.is_none() {
                prop_assert_eq!(before, 0, "a record that left its first state is never removed");
            }
        }
    }

    #[test]
    fn a_state_changes_under_a_new_generation_and_only_by_its_commands(steps in walks()) {
        for event in walk(&steps) {
            let kind = |record: &Option<Record>| match record.as_ref().map(|record| &record.state) {
                None | Some(State::Closed { .. }) => Condition::Closed,
                Some(State::Open { .. }) => Condition::Open,
                Some(State::HalfOpen { .. }) => Condition::HalfOpen,
            };
            let (before, after) = event.generations();
            if kind(&event.before) != kind(&event.after) {
                prop_assert!(before < after, "{:?}", event.command);
            }
            let may_change = match &event.outcome {
                Outcome::Absorb { .. } | Outcome::Get(_) | Outcome::Expire { .. } => false,
                Outcome::Advance(outcome) => {
                    matches!(outcome, AdvanceOutcome::OverrideEnded | AdvanceOutcome::Opened)
                }
                Outcome::Probe(outcome) => matches!(outcome, ProbeOutcome::Granted(_)),
                Outcome::Settle(outcome) => {
                    matches!(outcome, SettleOutcome::Closed | SettleOutcome::Reopened)
                }
                Outcome::Override { already } => !already,
                // It writes down that an override has ended.
                Outcome::SetPolicy(_) => true,
            };
            prop_assert!(may_change || before == after, "{:?}", event.command);
        }
    }

    #[test]
    fn no_more_permits_are_live_than_the_policy_has_probes(steps in walks()) {
        // What callers hold, told from the answers alone: a permit ends when it runs out or is
        // settled, or when its half-open period does.
        let mut held: BTreeMap<[u8; 16], (u64, Timestamp)> = BTreeMap::new();
        for event in walk(&steps) {
            let (before, generation) = event.generations();
            // Time that nobody wrote down may be a fast clock's: the next node's may be slower.
            let is_written = event.before != event.after;
            held.retain(|_, (of, end)| *of == before && !(is_written && *end <= event.at));
            match &event.outcome {
                Outcome::Probe(ProbeOutcome::Granted(grant)) => {
                    prop_assert_eq!(grant.generation, generation);
                    held.retain(|_, (of, _)| *of == generation);
                    held.insert(grant.permit, (generation, event.at.after(grant.expires_in)));
                    let most = event.after.as_ref().map_or(0, |record| record.policy().probes_max);
                    prop_assert!(held.len() <= usize::try_from(most).unwrap_or(0), "{:?}", held);
                }
                Outcome::Probe(ProbeOutcome::Repeated(grant)) => {
                    let end = event.at.after(grant.expires_in);
                    prop_assert_eq!(held.get(&grant.permit), Some(&(generation, end)));
                }
                Outcome::Settle(SettleOutcome::Unknown) => {}
                Outcome::Settle(_) => {
                    let Command::Settle(settle) = event.command else { continue };
                    let known = held.remove(&settle.permit).is_some();
                    prop_assert!(known, "only a live permit counts");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_a_node_brought_counts_once_and_only_under_its_generation(steps in walks()) {
        let mut newest: BTreeMap<[u8; 16], u64> = BTreeMap::new();
        for event in walk(&steps) {
            if event.after.is_none() {
                newest.clear();
            }
            let (Command::Absorb(absorb), Outcome::Absorb { absorbed, .. }) =
                (&event.command, &event.outcome) else { continue };
            let (generation, _) = event.generations();
            let current = absorb.outcomes.iter().filter(|one| one.generation == generation);
            let sum = current.fold(Counts::default(), |sum, one| sum.plus(one.counts));
            match absorbed {
                AbsorbOutcome::Absorbed { .. } => {
                    let before = newest.insert(absorb.node, absorb.seq);
                    let silent = event.before.as_ref().is_some_and(|record| {
                        !record.nodes.iter().any(|seen| seen.node == absorb.node
                            && event.at.since(seen.at) < Duration::from_secs(600))
                    });
                    prop_assert!(before.is_none_or(|before| before < absorb.seq) || silent);
                    let kept = totals(event.before.as_ref()).plus(sum);
                    let after = totals(event.after.as_ref());
                    prop_assert!(after.calls() <= kept.calls() && after.calls() >= sum.calls());
                }
                _ => prop_assert_eq!(&event.before, &event.after),
            }
        }
    }

    #[test]
    fn run_again_at_once_a_command_changes_nothing(steps in walks()) {
        for event in walk(&steps) {
            let again = decide(event.after.as_ref(), &event.command, event.at).0;
            // One change of itself may make way for the next that is due.
            let may_act_again = matches!(&event.outcome, Outcome::Advance(outcome)
                if *outcome != AdvanceOutcome::NothingDue);
            prop_assert!(again == Change::Keep || may_act_again, "{:?}", event.command);
        }
    }

    #[test]
    fn readers_of_a_record_agree_before_and_after_a_change_of_itself_is_written(steps in walks()) {
        for event in walk(&steps) {
            if event.outcome == Outcome::Advance(AdvanceOutcome::OverrideEnded) {
                let seen = |record: &Option<Record>| snapshot(record.as_ref(), event.at);
                prop_assert_eq!(seen(&event.before), seen(&event.after));
            }
            if let Some(record) = &event.after {
                prop_assert_eq!(decode(&encode(record)), Ok(record.clone()));
                prop_assert!(record.window.reporters.len() <= 32);
                prop_assert!(record.window.totals.0.len() <= 22);
            }
        }
    }

    /// Whatever one reporter says, in whatever order, as long as all others are well.
    #[test]
    fn no_reporter_alone_opens_what_others_find_well(
        reports in vec((0..50_u8, 1..40_u64, 0..3_000_u64), 1..80),
        sick in 0..50_u8,
        witness in 1..20_u64,
    ) {
        let healthy = ReporterId([200; 16]);
        let (mut desk, mut now) = (Desk(Some(closed())), NOW);
        let ask = |number: u64, all: &[(ReporterId, Counts)], desk: &mut Desk, now| {
            desk.ask(&absorb_from([9; 16], number, GENERATION, all), now);
            desk.ask(&Command::Advance { random: number }, now)
        };
        for (number, &(who, calls, idle_ms)) in (1_u64..).zip(&reports) {
            now = now.after(Duration::from_millis(idle_ms));
            let own = if who == sick { counts(0, calls * 100) } else { counts(calls, 0) };
            // Somebody else is calling, too: in the same report, so that there always is a witness.
            let all = [(ReporterId([who; 16]), own), (healthy, counts(witness, 0))];
            let outcome = ask(number, &all, &mut desk, now);
            prop_assert!(outcome != Outcome::Advance(AdvanceOutcome::Opened));
        }
    }

    /// A dependency that is down for everybody opens its breaker, however many report it.
    #[test]
    fn failures_of_all_open_it(reporters in 1..60_u8, each in 1..10_u64) {
        let mut desk = Desk(Some(closed()));
        let all: Vec<_> = (0..reporters).map(|byte| (ReporterId([byte; 16]), counts(0, each))).collect();
        desk.ask(&absorb(5, GENERATION, &all), NOW);
        let opened = desk.ask(&advance(), NOW) == Outcome::Advance(AdvanceOutcome::Opened);
        let calls = u64::from(reporters) * each;
        let corroborated = reporters == 1 || calls - each >= 5;
        prop_assert_eq!(opened, calls >= 20 && corroborated);
    }
}

#[test]
fn a_walk_meets_every_state() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut met = BTreeSet::new();
    for _ in 0..200 {
        let steps = walks().new_tree(&mut runner).expect("steps").current();
        for event in walk(&steps) {
            met.insert(match event.outcome {
                Outcome::Advance(AdvanceOutcome::Opened) => "opened",
                Outcome::Advance(AdvanceOutcome::OverrideEnded) => "ended",
                Outcome::Probe(ProbeOutcome::Granted(_)) => "granted",
                Outcome::Probe(ProbeOutcome::Repeated(_)) => "repeated",
                Outcome::Probe(ProbeOutcome::Taken(_)) => "taken",
                Outcome::Settle(SettleOutcome::Closed) => "closed",
                Outcome::Settle(SettleOutcome::Reopened) => "reopened",
                Outcome::Absorb { absorbed: AbsorbOutcome::Absorbed { .. }, .. } => "absorbed",
                Outcome::Absorb { absorbed: AbsorbOutcome::Repeated, .. } => "again",
                Outcome::Expire { removed: true } => "removed",
                _ => continue,
            });
        }
    }
    assert_eq!(met.len(), 10, "only these were met: {met:?}");
}
