//! What can be true of breakers.

use std::collections::BTreeMap;

use bytes::Bytes;
use semel_proto::v1::{BreakerCondition, BreakerSnapshot, ProbeOutcome};

use super::Span;
use crate::log::{Log, Promise};

/// The terms of a breaker, as they were set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) failure_per_mille: u32,
    pub(crate) calls_min: u32,
    pub(crate) probes_max: u32,
    pub(crate) successes_to_close: u32,
}

/// Who saw a state: an incarnation of a node by its name, or one watch of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Observer {
    /// Answers of a node.
    Node(String),
    /// One stream.
    Watch(u64),
}

/// What is known of one breaker.
#[derive(Debug)]
pub(crate) struct Breaker {
    log: Log,
    terms: Terms,
    generations: BTreeMap<u64, Generation>,
    /// What each observer saw last, and when.
    seen: BTreeMap<Observer, (u64, u64)>,
    permits: BTreeMap<Bytes, Permit>,
}

/// What was reported under one generation, at the most.
#[derive(Debug, Default)]
struct Generation {
    condition: Option<BreakerCondition>,
    failed: u64,
    probes_succeeded: u64,
    probes_failed: u64,
}

/// A permit, as far as its holder can tell.
#[derive(Clone, Copy, Debug)]
struct Permit {
    generation: u64,
    answered_us: u64,
    /// When it lapses at the earliest: counted from before it was asked for.
    until_us: u64,
}

impl Breaker {
    pub(crate) fn new(log: Log, terms: Terms) -> Self {
        let generations = BTreeMap::from([(
            0,
            Generation { condition: Some(BreakerCondition::Closed), ..Generation::default() },
        )]);
        let (seen, permits) = (BTreeMap::new(), BTreeMap::new());
        Self { log, terms, generations, seen, permits }
    }

    /// Outcomes are on their way to a node, for the first time.
    pub(crate) fn reporting(&mut self, generation: u64, failed: u64) {
        self.generations.entry(generation).or_default().failed += failed;
    }

    /// The outcome of a probe is on its way to a node: its permit may end.
    pub(crate) fn reporting_probe(&mut self, permit: &Bytes, outcome: ProbeOutcome, now_us: u64) {
        let Some(permit) = self.permits.get_mut(permit) else { return };
        permit.until_us = permit.until_us.min(now_us);
        let generation = self.generations.entry(permit.generation).or_default();
        match outcome {
            ProbeOutcome::Succeeded => generation.probes_succeeded += 1,
            ProbeOutcome::Failed => generation.probes_failed += 1,
            _ => {}
        }
    }

    /// The newest generation that anybody saw.
    pub(crate) fn newest(&self) -> u64 {
        let seen = self.generations.iter().rev();
        seen.filter(|(_, known)| known.condition.is_some())
            .map(|(number, _)| *number)
            .next()
            .unwrap_or(0)
    }

    /// A permit was given.
    pub(crate) fn permitted(&mut self, id: Bytes, generation: u64, lease_us: u64, span: Span) {
        let until_us = span.sent_us.saturating_add(lease_us);
        let permit = Permit { generation, answered_us: span.answered_us, until_us };
        self.permits.entry(id).or_insert(permit);
        let of_generation =
            || self.permits.values().filter(move |permit| permit.generation == generation);
        for at_us in of_generation().map(|permit| permit.answered_us) {
            let live = of_generation()
                .filter(|permit| permit.answered_us <= at_us && at_us < permit.until_us)
                .count();
            if live > usize::try_from(self.terms.probes_max).unwrap_or(usize::MAX) {
                let seen = format!("{live} permits of generation {generation} were live at once");
                return self.log.violated(Promise::OneProbe, seen);
            }
        }
    }

    /// Somebody saw the breaker.
    pub(crate) fn observed(&mut self, by: &Observer, snapshot: &BreakerSnapshot, span: Span) {
        let (generation, condition) = (snapshot.generation, snapshot.condition());
        if let Some((before, answered_us)) = self.seen.get(by)
            && *answered_us < span.sent_us
            && generation < *before
        {
            let seen = format!("{by:?} says generation {generation} after {before}");
            self.log.violated(Promise::GenerationsRise, seen);
        }
        let newest = self.seen.entry(by.clone()).or_insert((generation, span.answered_us));
        if generation >= newest.0 {
            *newest = (generation, span.answered_us);
        }
        let known = self.generations.entry(generation).or_default();
        match known.condition {
            None => {
                known.condition = Some(condition);
                self.judge(generation, condition);
            }
            Some(before) if before != condition => {
                let seen = format!("generation {generation} is {condition:?} and {before:?}");
                self.log.violated(Promise::GenerationsRise, seen);
            }
            Some(_) => {}
        }
    }

    /// Whether what was reported under the generation before can have led to this one.
    fn judge(&self, generation: u64, condition: BreakerCondition) {
        let Some(before) = generation.checked_sub(1).and_then(|last| self.generations.get(&last))
        else {
            return;
        };
        let Some(was) = before.condition else { return };
        let terms = self.terms;
        let need_failed =
            (u64::from(terms.calls_min) * u64::from(terms.failure_per_mille)).div_ceil(1_000);
        let enough = match (was, condition) {
            (BreakerCondition::Closed, BreakerCondition::Open) => before.failed >= need_failed,
            (BreakerCondition::HalfOpen, BreakerCondition::Open) => before.probes_failed > 0,
            (BreakerCondition::HalfOpen, BreakerCondition::Closed) => {
                before.probes_succeeded >= u64::from(terms.successes_to_close)
            }
            (BreakerCondition::Open, BreakerCondition::HalfOpen) => true,
            _ => false,
        };
        if !enough {
            let seen = format!("{was:?} became {condition:?}, generation {generation}: {before:?}");
            self.log.violated(Promise::OutcomesOfThisGeneration, seen);
        }
    }
}
