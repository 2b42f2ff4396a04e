//! Outcomes that are brought, and records that may go.

use semel_domain::breaker::{
    AbsorbOutcome, Counts, ForceKind, NodeSeen, Outcome, Record, ReporterId, Ring, Slot, Tracked,
    Window,
};
use semel_domain::limits::{BREAKER_NODE_FORGOTTEN_AFTER, BREAKER_NODES_MAX};
use semel_domain::time::Timestamp;

use crate::support::*;
use crate::{check, keep, make, put, row};

fn absorbed(stale_calls: u64, due: bool) -> Outcome {
    Outcome::Absorb { absorbed: AbsorbOutcome::Absorbed { stale_calls }, due }
}

fn not(absorbed: AbsorbOutcome) -> Outcome {
    Outcome::Absorb { absorbed, due: false }
}

fn seen(seq: u64, at: Timestamp) -> Vec<NodeSeen> {
    vec![NodeSeen { node: NODE, seq, at }]
}

/// The record after these came in report 5.
fn after(all: &[(ReporterId, Counts)]) -> impl FnOnce(Record) -> Record + use<> {
    let all = all.to_vec();
    move |old| Record { nodes: seen(5, NOW), ..reported(&all, old) }
}

const IGNORED: Counts = Counts { succeeded: 0, failed: 0, slow: 0, ignored: 900 };

/// A record that follows as many nodes as it may, all of them since `at`.
fn crowded(at: Timestamp) -> Record {
    let node = |number: usize| {
        let mut node = [0; 16];
        node[..8].copy_from_slice(&u64::try_from(number + 100).expect("small").to_be_bytes());
        NodeSeen { node, seq: 1, at }
    };
    Record { nodes: (0..BREAKER_NODES_MAX).map(node).collect(), ..closed() }
}

#[rustfmt::skip]
#[test]
fn outcomes_are_taken_in_in_order_of_precedence() {
    use AbsorbOutcome::{Full, Repeated, Stale};
    let g = GENERATION;
    let some = &[(A, counts(3, 1))];
    // The default window has slots of 3 s.
    let fresh = || Record { nodes: seen(5, NOW), ..reported_at(NOW.before(2 * SECOND), some, Record::fresh(NOW)) };
    let silent = BEGAN.after(BREAKER_NODE_FORGOTTEN_AFTER);
    let slot = |starts_at, counts| Ring(vec![Slot { starts_at, counts }]);
    let alone = move |old| Record {
        touched_at: silent,
        nodes: seen(5, silent),
        window: Window {
            totals: slot(silent, counts(3, 1)),
            reporters: vec![Tracked { reporter: A, ring: slot(silent, counts(3, 1)), isolated_until: None }],
        },
        ..old
    };
    check(vec![
        row("the newest again",          closed(), absorb(4, g, some), NOW, keep(not(Repeated))),
        row("an older one, late",        closed(), absorb(2, g, some), NOW, keep(not(Repeated))),
        row("repeated outranks stale",   closed(), absorb(4, 1, some), NOW, keep(not(Repeated))),
        row("of an older generation",    closed(), absorb(5, g - 1, some), NOW, keep(not(Stale))),
        row("of a later generation",     closed(), absorb(5, g + 1, some), NOW, keep(not(Stale))),
        row("no record, generation 1",   None, absorb(5, 1, some), NOW, keep(not(Stale))),
        row("stale, opening is due",     reported(&[(A, counts(0, 20))], closed()), absorb(5, 1, some), NOW,
            keep(Outcome::Absorb { absorbed: Stale, due: true })),
        row("nothing at all",            closed(), absorb(5, g, &[]), NOW, keep(not(Stale))),
        row("too many nodes",            crowded(NOW), absorb(5, g, some), NOW, keep(not(Full))),
        row("nodes that are silent go",  crowded(BEGAN), absorb(5, g, some), silent, put(absorbed(0, false), alone)),
        row("no record",                 None, absorb(5, 0, some), NOW, make(absorbed(0, false), fresh())),
        row("counts",                    closed(), absorb(5, g, some), NOW, put(absorbed(0, false), after(&[(A, counts(3, 1))]))),
        row("skips numbers",             closed(), absorb(9, g, some), NOW,
            put(absorbed(0, false), |old| Record { nodes: seen(9, NOW), ..after(&[(A, counts(3, 1))])(old) })),
        row("by reporter",               closed(), absorb(5, g, &[(B, counts(1, 0)), (A, counts(2, 0)), (B, counts(0, 1))]), NOW,
            put(absorbed(0, false), after(&[(A, counts(2, 0)), (B, counts(1, 1))]))),
        row("while open",                open_until(NOW, 0), absorb(5, g, some), NOW, put(absorbed(0, false), after(&[(A, counts(3, 1))]))),
        row("while half-open",           half_open(1, vec![]), absorb(5, g, some), NOW, put(absorbed(0, false), after(&[(A, counts(3, 1))]))),
        row("opening is due",            closed(), absorb(5, g, &[(A, counts(10, 10))]), NOW, put(absorbed(0, true), after(&[(A, counts(10, 10))]))),
        row("below the threshold",       closed(), absorb(5, g, &[(A, counts(11, 10))]), NOW, put(absorbed(0, false), after(&[(A, counts(11, 10))]))),
        row("too few calls",             closed(), absorb(5, g, &[(A, counts(0, 19))]), NOW, put(absorbed(0, false), after(&[(A, counts(0, 19))]))),
        row("ignored never open",        closed(), absorb(5, g, &[(A, IGNORED)]), NOW, put(absorbed(0, false), after(&[(A, IGNORED)]))),
        row("metrics only never opens",  forced(ForceKind::MetricsOnly, None), absorb(5, g, &[(A, counts(0, 99))]), NOW,
            put(absorbed(0, false), after(&[(A, counts(0, 99))]))),
        row("an override is over",       forced(ForceKind::Open, Some(NOW)), absorb(5, g, some), NOW,
            put(absorbed(0, true), after(&[(A, counts(3, 1))]))),
        row("the clock went back",       Record { touched_at: NOW, ..closed() }, absorb(5, g, some), BEGAN,
            put(absorbed(0, false), after(&[(A, counts(3, 1))]))),
    ], &["Repeated", "Stale", "Full", "Absorbed"]);
}

#[rustfmt::skip]
#[test]
fn records_go_once_they_say_nothing() {
    let (kept, removed) = (|| keep(Outcome::Expire { removed: false }), || -> crate::Expected {
        Box::new(|_| (semel_domain::Change::Delete, Outcome::Expire { removed: true }))
    });
    let idle = || Record { touched_at: BEGAN, nodes: seen(4, BEGAN), ..Record::fresh(BEGAN) };
    let gone = BEGAN.after(BREAKER_NODE_FORGOTTEN_AFTER);
    let expire = || semel_domain::breaker::Command::Expire;
    let counted = Record { nodes: vec![], ..reported(&[(A, counts(1, 0))], Record::fresh(NOW)) };
    let after_window = NOW.after(std::time::Duration::from_secs(30));
    check(vec![
        row("no record",                  None, expire(), gone, kept()),
        row("it has left its state",      Record { generation: 1, ..idle() }, expire(), gone, kept()),
        row("somebody set a policy",      Record { policy: closed().policy, ..idle() }, expire(), gone, kept()),
        row("somebody forces it",         Record { force: forced(ForceKind::Closed, None).force, ..idle() }, expire(), gone, kept()),
        row("a node may repeat itself",   idle(), expire(), gone.before(MICROSECOND), kept()),
        row("something is in its window", counted.clone(), expire(), after_window.before(MICROSECOND), kept()),
        row("its window is over",         counted, expire(), after_window, removed()),
        row("nobody may repeat itself",   idle(), expire(), gone, removed()),
    ], &["Kept", "Removed"]);
}
