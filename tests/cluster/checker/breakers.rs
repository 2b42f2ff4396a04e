//! Whether the history of one breaker keeps its promises.
//!
//! A permit is surely held from its first answer until its lease ends, counted from before it was last asked
//! for, or until its holder begins to report. A generation is one state for everybody, and who asks one node
//! again sees no older generation than that node had told before. A watch tells generations in their order, and
//! one that is open is told each, unless a newer one comes soon.

use std::collections::BTreeMap;

use bytes::Bytes;
use semel_proto::v1::BreakerCondition;

use super::{Broken, Promise};

/// A permit to probe, as its holder knows it.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pub(crate) id: Bytes,
    /// The question that it was the answer to.
    pub(crate) asked: Bytes,
    pub(crate) answered_us: u64,
    pub(crate) until_us: u64,
    /// When its holder began to report what became of it.
    pub(crate) reported_us: Option<u64>,
}

/// Where somebody saw the breaker stand.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// The start of a node that told it.
    pub(crate) node: String,
    pub(crate) generation: u64,
    pub(crate) condition: BreakerCondition,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
}

/// What a stream of changes told.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    #[allow(dead_code, reason = "for whoever reads a history that is wrong")]
    pub(crate) node: String,
    pub(crate) told: Vec<Told>,
    /// It has not ended.
    pub(crate) open: bool,
}

impl Watch {
    /// A watch that has just begun.
    pub(crate) fn of(node: &str) -> Self {
        Self { node: node.to_owned(), told: Vec::new(), open: true }
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) generation: u64,
    pub(crate) condition: BreakerCondition,
    pub(crate) at_us: u64,
}

/// Everything that is known of a breaker.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) permits: Vec<Permit>,
    pub(crate) sights: Vec<Sight>,
    pub(crate) watches: Vec<Watch>,
    /// From when on until the end of the load all was well, for long enough to be told of changes.
    pub(crate) well_us: Option<u64>,
    /// Errors that nothing explains.
    pub(crate) refused: Vec<String>,
}

impl History {
    /// Everything that is wrong. At most `probes_max` permits may be held at once.
    pub(crate) fn judge(&self, probes_max: usize) -> Vec<Broken> {
        let mut broken = self.permits(probes_max);
        broken.extend(self.states());
        broken.extend(self.watched());
        let refused = self.refused.iter();
        broken.extend(refused.map(|refused| Broken::new(Promise::Expected, refused)));
        broken
    }

    fn permits(&self, probes_max: usize) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut held: BTreeMap<&Bytes, Permit> = BTreeMap::new();
        for permit in &self.permits {
            let known = held.entry(&permit.id).or_insert_with(|| permit.clone());
            if known.asked != permit.asked {
                broken.push(Broken::new(Promise::OneProbe, format!("given to two: {permit:?}")));
            }
            known.answered_us = known.answered_us.min(permit.answered_us);
            known.until_us = known.until_us.max(permit.until_us);
            known.reported_us = [known.reported_us, permit.reported_us].into_iter().flatten().min();
        }
        let mut held: Vec<Permit> = held.into_values().collect();
        held.sort_by_key(|permit| permit.answered_us);
        let mut live: Vec<&Permit> = Vec::new();
        for permit in &held {
            live.push(permit);
            live.retain(|other| {
                let end_us = other.reported_us.unwrap_or(u64::MAX).min(other.until_us);
                permit.answered_us < end_us
            });
            if live.len() > probes_max {
                broken.push(Broken::new(Promise::OneProbe, format!("at once: {live:?}")));
            }
        }
        broken
    }

    fn watched(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let seen = self.sights.iter().map(|sight| (sight.generation, sight.condition));
        let conditions: BTreeMap<u64, BreakerCondition> = seen.collect();
        // Seen by somebody when all had been well for some time.
        let well_us = self.well_us.unwrap_or(0);
        let known = self.sights.iter().filter(|sight| sight.ended_us <= well_us);
        let newest = known.map(|sight| sight.generation).max().unwrap_or(0);
        for watch in &self.watches {
            for pair in watch.told.windows(2) {
                if pair[1].generation < pair[0].generation {
                    let seen = format!("{:?} after {:?}", pair[1], pair[0]);
                    broken.push(Broken::new(Promise::ToldInOrder, seen));
                }
            }
            for told in &watch.told {
                let condition = conditions.get(&told.generation);
                if condition.is_some_and(|condition| *condition != told.condition) {
                    let seen = format!("{told:?}, and seen as {condition:?}");
                    broken.push(Broken::new(Promise::OneState, seen));
                }
            }
            let last = watch.told.last().map_or(0, |told| told.generation);
            if watch.open && last < newest {
                let seen = format!("{newest} was seen, and the last of {watch:?} is {last}");
                broken.push(Broken::new(Promise::ChangeTold, seen));
            }
        }
        broken
    }

    fn states(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut conditions: BTreeMap<u64, &Sight> = BTreeMap::new();
        let mut by_node: BTreeMap<&str, Vec<&Sight>> = BTreeMap::new();
        for sight in &self.sights {
            let first = conditions.entry(sight.generation).or_insert(sight);
            if first.condition != sight.condition {
                broken.push(Broken::new(Promise::OneState, format!("{sight:?}, and {first:?}")));
            }
            by_node.entry(&sight.node).or_default().push(sight);
        }
        for sights in by_node.values_mut() {
            sights.sort_by_key(|sight| sight.ended_us);
            let mut newest: Vec<&Sight> = Vec::new();
            for sight in sights.iter() {
                if newest.last().is_none_or(|it| it.generation < sight.generation) {
                    newest.push(sight);
                }
            }
            for sight in sights.iter() {
                let told = newest.partition_point(|it| it.ended_us < sight.began_us);
                let before = told.checked_sub(1).map(|last| newest[last]);
                if let Some(before) = before.filter(|it| it.generation > sight.generation) {
                    let seen = format!("{sight:?}, after {before:?}");
                    broken.push(Broken::new(Promise::OneState, seen));
                }
            }
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(id: &'static str, answered_us: u64, until_us: u64) -> Permit {
        Permit { id: id.into(), asked: id.into(), answered_us, until_us, reported_us: None }
    }

    fn sight(generation: u64, condition: BreakerCondition, span: (u64, u64)) -> Sight {
        let (began_us, ended_us) = span;
        Sight { node: "0".to_owned(), generation, condition, began_us, ended_us }
    }

    fn promises(history: &History) -> Vec<Promise> {
        history.judge(1).into_iter().map(|broken| broken.promise).collect()
    }

    #[test]
    fn a_permit_at_a_time_is_right() {
        let reported = Permit { reported_us: Some(30), ..permit("c", 25, 90) };
        // The second answer to a question whose first was lost.
        let again = permit("a", 15, 12);
        let permits =
            vec![permit("a", 0, 10), again, permit("b", 12, 20), reported, permit("d", 31, 40)];
        assert_eq!(promises(&History { permits, ..<_>::default() }), []);
    }

    #[test]
    fn two_permits_at_once_are_seen() {
        let permits = vec![permit("a", 0, 10), permit("b", 5, 15)];
        assert_eq!(promises(&History { permits, ..<_>::default() }), [Promise::OneProbe]);
    }

    #[test]
    fn a_permit_of_two_callers_is_seen() {
        let permits = vec![permit("a", 0, 10), Permit { asked: "b".into(), ..permit("a", 20, 30) }];
        assert_eq!(promises(&History { permits, ..<_>::default() }), [Promise::OneProbe]);
    }

    #[test]
    fn a_generation_of_two_states_is_seen() {
        let open = sight(1, BreakerCondition::Open, (0, 1));
        let sights = vec![open.clone(), open.clone(), sight(2, BreakerCondition::HalfOpen, (2, 3))];
        assert_eq!(promises(&History { sights, ..<_>::default() }), []);
        let sights = vec![open, sight(1, BreakerCondition::Closed, (0, 1))];
        assert_eq!(promises(&History { sights, ..<_>::default() }), [Promise::OneState]);
    }

    fn watch(generations: &[u64], open: bool) -> Watch {
        let told = |generation: &u64| Told {
            generation: *generation,
            condition: BreakerCondition::Open,
            at_us: 0,
        };
        Watch { told: generations.iter().map(told).collect(), open, ..Watch::of("0") }
    }

    #[test]
    fn a_watch_that_goes_back_or_tells_another_state_is_seen() {
        for (generations, expected) in [
            // Once at first, and again when what is known of it changes.
            (&[1, 1, 2, 5][..], vec![]),
            (&[1, 2, 1], vec![Promise::ToldInOrder]),
        ] {
            let watches = vec![watch(generations, true)];
            assert_eq!(promises(&History { watches, ..<_>::default() }), expected);
        }
        let sights = vec![sight(1, BreakerCondition::Closed, (0, 1))];
        let history = History { sights, watches: vec![watch(&[1], true)], ..<_>::default() };
        assert_eq!(promises(&history), [Promise::OneState]);
    }

    #[test]
    fn a_change_that_a_watch_is_not_told_is_seen() {
        let sights = vec![sight(3, BreakerCondition::Open, (4, 5))];
        for (generations, open, well_us, expected) in [
            (&[1, 3][..], true, 5, vec![]),
            (&[1, 4], true, 5, vec![]),
            (&[1, 2], true, 5, vec![Promise::ChangeTold]),
            (&[], true, 5, vec![Promise::ChangeTold]),
            // It had no time to be told, or ended before.
            (&[1, 2], true, 4, vec![]),
            (&[1, 2], false, 5, vec![]),
        ] {
            let watches = vec![watch(generations, open)];
            let well_us = Some(well_us);
            let history = History { sights: sights.clone(), watches, well_us, ..<_>::default() };
            assert_eq!(promises(&history), expected, "{generations:?} {open} {well_us:?}");
        }
    }

    #[test]
    fn a_node_that_goes_back_is_seen() {
        let later = sight(2, BreakerCondition::HalfOpen, (2, 5));
        for (span, node, expected) in
            [((6, 7), "0", vec![Promise::OneState]), ((5, 7), "0", vec![]), ((6, 7), "1", vec![])]
        {
            let older = Sight { node: node.to_owned(), ..sight(1, BreakerCondition::Open, span) };
            let sights = vec![later.clone(), older];
            assert_eq!(promises(&History { sights, ..<_>::default() }), expected, "{span:?}");
        }
    }
}
