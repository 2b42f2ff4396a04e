//! What can be true of retry budgets.
//!
//! The published bound: over any window W, a fleet is granted at most
//! `ratio * first attempts(W + B + L) + floor * (W + B + L)` retries. A grant surely lies within a
//! window if its whole interval does; a first attempt may pay for it if its interval touches the window
//! that pays. Every window that begins with a grant and ends with one is tried: no other can be worse.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Span;
use crate::log::{Log, Promise};

/// What one retry costs, in thousandths of a token.
const COST_MILLI: u64 = 1_000;

/// The terms of a budget, as they were set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ratio_per_mille: u32,
    pub(crate) floor_per_second: u32,
    pub(crate) window_us: u64,
    pub(crate) carry_over_us: u64,
    pub(crate) lease_us: u64,
}

/// What is known of all budgets.
#[derive(Debug)]
pub(crate) struct Budgets {
    log: Log,
    budgets: BTreeMap<String, Known>,
    /// What each node, by its id and the dependency, was told, and what it acknowledged.
    told: BTreeMap<(Bytes, String), Told>,
}

#[derive(Debug)]
struct Known {
    terms: Terms,
    deposits: Vec<Moment>,
    grants: Vec<Moment>,
    /// The position of each token among the grants.
    tokens: BTreeMap<Bytes, Granted>,
    asked: BTreeMap<(Bytes, u32), Bytes>,
}

/// Something that happened once or several times, at some moment between two.
#[derive(Clone, Copy, Debug)]
struct Moment {
    first_us: u64,
    last_us: u64,
    count: u64,
}

#[derive(Clone, Debug)]
struct Granted {
    asked: (Bytes, u32),
    position: usize,
    /// Since when it may be charged anew: it came back after this moment.
    back_us: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    sent: u64,
    acknowledged: u64,
}

/// First attempts whose report is not yet done with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsettled(Vec<usize>);

impl Budgets {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, budgets: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// A budget has these terms, before anybody asks for it.
    pub(crate) fn set(&mut self, dependency: &str, terms: Terms) {
        let known = Known {
            terms,
            deposits: Vec::new(),
            grants: Vec::new(),
            tokens: BTreeMap::new(),
            asked: BTreeMap::new(),
        };
        self.budgets.insert(dependency.to_owned(), known);
    }

    /// First attempts were made just now; they count from here on.
    pub(crate) fn attempted(
        &mut self,
        dependency: &str,
        count: u64,
        now_us: u64,
        unsettled: &mut Unsettled,
    ) {
        let Some(known) = self.budgets.get_mut(dependency) else { return };
        unsettled.0.push(known.deposits.len());
        known.deposits.push(Moment { first_us: now_us, last_us: u64::MAX, count });
    }

    /// The report of first attempts is done with: they were counted at `last_us` at the latest.
    pub(crate) fn settled(&mut self, dependency: &str, unsettled: &Unsettled, last_us: u64) {
        let Some(known) = self.budgets.get_mut(dependency) else { return };
        for position in &unsettled.0 {
            if let Some(deposit) = known.deposits.get_mut(*position) {
                deposit.last_us = last_us;
            }
        }
    }

    /// A report is on its way to a node for the first time.
    pub(crate) fn reporting(&mut self, node: &Bytes, dependency: &str, count: u64) {
        self.told.entry((node.clone(), dependency.to_owned())).or_default().sent += count;
    }

    /// A node said that a report counts.
    pub(crate) fn counted(&mut self, node: &Bytes, dependency: &str, count: u64) {
        self.told.entry((node.clone(), dependency.to_owned())).or_default().acknowledged += count;
    }

    /// What a node has to have counted by now, at the least.
    pub(crate) fn acknowledged(&self, node: &Bytes, dependency: &str) -> u64 {
        let told = self.told.get(&(node.clone(), dependency.to_owned()));
        told.map_or(0, |told| told.acknowledged)
    }

    /// A node says how many first attempts were reported to it. `least` had been acknowledged when it
    /// was asked.
    pub(crate) fn requests_said(&self, node: &Bytes, dependency: &str, said: u64, least: u64) {
        let told = self.told.get(&(node.clone(), dependency.to_owned()));
        let most = told.map_or(0, |told| told.sent);
        if said < least || said > most {
            let seen = format!(
                "{dependency}: a node counted {said} first attempts; it was told of {most} and had \
                 acknowledged {least}"
            );
            self.log.violated(Promise::DepositOnce, seen);
        }
    }

    /// A token was granted for an attempt of a request.
    pub(crate) fn granted(
        &mut self,
        dependency: &str,
        asked: (Bytes, u32),
        token: Bytes,
        span: Span,
    ) {
        let Some(known) = self.budgets.get_mut(dependency) else { return };
        let mut broken = None;
        if let Some(before) = known.asked.get(&asked)
            && *before != token
        {
            broken = Some("one question got two tokens");
        }
        match known.tokens.get(&token) {
            Some(before) if before.asked != asked => broken = Some("two questions got one token"),
            Some(Granted { back_us: None, position, .. }) => {
                if let Some(grant) = known.grants.get_mut(*position)
                    && grant.count == 0
                {
                    // The charge that stands may be the first or another.
                    *grant = Moment { last_us: span.answered_us, count: 1, ..*grant };
                }
            }
            before => {
                let first_us = before.and_then(|before| before.back_us).unwrap_or(span.sent_us);
                let position = known.grants.len();
                known.grants.push(Moment { first_us, last_us: span.answered_us, count: 1 });
                known.asked.insert(asked.clone(), token.clone());
                known.tokens.insert(token, Granted { asked, position, back_us: None });
            }
        }
        if let Some(seen) = broken {
            self.log.violated(Promise::TokenOnce, format!("{dependency}: {seen}"));
        }
    }

    /// A token is on its way back: it may pay for another from here on.
    pub(crate) fn refunding(&mut self, dependency: &str, token: &Bytes) {
        if let Some((_, grant)) = self.grant(dependency, token) {
            grant.count = 0;
        }
    }

    /// A token came back after `sent_us`, or its charge surely stands.
    pub(crate) fn refunded(
        &mut self,
        dependency: &str,
        token: &Bytes,
        came_back: bool,
        sent_us: u64,
    ) {
        let Some((granted, grant)) = self.grant(dependency, token) else { return };
        if came_back {
            granted.back_us = Some(sent_us);
        } else {
            grant.count = 1;
        }
    }

    fn grant(&mut self, dependency: &str, token: &Bytes) -> Option<(&mut Granted, &mut Moment)> {
        let known = self.budgets.get_mut(dependency)?;
        let granted = known.tokens.get_mut(token)?;
        let grant = known.grants.get_mut(granted.position)?;
        Some((granted, grant))
    }

    /// A retry was paid from what its sender held: its own share, or a lease.
    pub(crate) fn spent(&mut self, dependency: &str, now_us: u64) {
        if let Some(known) = self.budgets.get_mut(dependency) {
            known.grants.push(Moment { first_us: now_us, last_us: now_us, count: 1 });
        }
    }

    /// Holds all that was granted against the bound.
    pub(crate) fn judge(&self) {
        for (dependency, known) in &self.budgets {
            if let Some(seen) = known.overdrawn() {
                self.log.violated(Promise::RetryBound, format!("{dependency}: {seen}"));
            }
        }
    }
}

impl Terms {
    fn lookback_us(&self) -> u64 {
        self.window_us + self.carry_over_us + self.lease_us
    }

    /// What a window of so long, and all that may pay for it, allows in thousandths of a token.
    fn allows_milli(&self, window_us: u64, first_attempts: u64) -> u64 {
        let floor = u64::from(self.floor_per_second) * (window_us + self.lookback_us());
        u64::from(self.ratio_per_mille) * first_attempts + floor.div_ceil(1_000)
    }
}

impl Known {
    /// The first window found in which more was granted than the bound allows.
    fn overdrawn(&self) -> Option<String> {
        let mut grants: Vec<Moment> =
            self.grants.iter().copied().filter(|grant| grant.count > 0).collect();
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.first_us));
        let mut ends: Vec<u64> = grants.iter().map(|grant| grant.last_us).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut begun = self.deposits.clone();
        begun.sort_by_key(|deposit| deposit.first_us);
        let begun_by = |at_us: u64| -> u64 {
            let begun = begun.iter().take_while(|deposit| deposit.first_us <= at_us);
            begun.map(|deposit| deposit.count).sum()
        };
        let begun_by: Vec<u64> = ends.iter().map(|end_us| begun_by(*end_us)).collect();
        let mut granted_by = vec![0_u64; ends.len()];
        for grant in grants {
            // From the latest beginning to the earliest: each window gains what begins with it.
            let from = ends.partition_point(|end_us| *end_us < grant.last_us);
            granted_by.iter_mut().skip(from).for_each(|granted| *granted += grant.count);
            let since_us = grant.first_us.saturating_sub(self.terms.lookback_us());
            let too_early: u64 = self
                .deposits
                .iter()
                .filter(|deposit| deposit.last_us < since_us)
                .map(|deposit| deposit.count)
                .sum();
            let windows = ends.iter().zip(&granted_by).zip(&begun_by).skip(from);
            for ((end_us, granted), begun) in windows {
                let window_us = end_us - grant.first_us;
                let attempts = begun.saturating_sub(too_early);
                let allowed = self.terms.allows_milli(window_us, attempts);
                if granted * COST_MILLI > allowed {
                    return Some(format!(
                        "{granted} retries from {} ms for {} ms; {attempts} first attempts allow \
                         {allowed} thousandths",
                        grant.first_us / 1_000,
                        window_us / 1_000,
                    ));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::play;

    const SECOND_US: u64 = 1_000_000;

    fn broken(tell: impl FnOnce(&mut Budgets)) -> Vec<Promise> {
        play(async |world| {
            let mut budgets = Budgets::new(world.log.clone());
            let terms = Terms {
                ratio_per_mille: 100,
                floor_per_second: 1,
                window_us: 9 * SECOND_US,
                carry_over_us: 0,
                lease_us: SECOND_US,
            };
            budgets.set("d", terms);
            tell(&mut budgets);
            budgets.judge();
            let found = world.log.record().violations;
            found.into_iter().map(|violation| violation.promise).collect()
        })
        .unwrap()
    }

    #[test]
    fn the_bound_is_exact() {
        // 200 first attempts allow 20, the floor 10 in no time at all.
        for (granted, expected) in [(30, vec![]), (31, vec![Promise::RetryBound])] {
            let found = broken(|budgets| {
                let mut unsettled = Unsettled::default();
                budgets.attempted("d", 200, 50 * SECOND_US, &mut unsettled);
                budgets.settled("d", &unsettled, 50 * SECOND_US);
                (0..granted).for_each(|_| budgets.spent("d", 60 * SECOND_US));
            });
            assert_eq!(found, expected, "{granted}");
        }
    }

    #[test]
    fn what_was_attempted_too_early_pays_for_nothing() {
        let found = broken(|budgets| {
            let mut unsettled = Unsettled::default();
            budgets.attempted("d", 200, 49 * SECOND_US, &mut unsettled);
            budgets.settled("d", &unsettled, 49 * SECOND_US);
            (0..11).for_each(|_| budgets.spent("d", 60 * SECOND_US));
        });
        assert_eq!(found, [Promise::RetryBound]);
    }

    #[test]
    fn what_may_lie_outside_of_a_window_is_not_held_against_it() {
        let found = broken(|budgets| {
            for number in 0..20 {
                let asked = (Bytes::from(vec![number]), 1);
                let span = Span { sent_us: 40 * SECOND_US, answered_us: 60 * SECOND_US };
                budgets.granted("d", asked, Bytes::from(vec![number]), span);
            }
        });
        assert_eq!(found, []);
    }

    #[test]
    fn a_token_belongs_to_one_question() {
        let span = Span { sent_us: 0, answered_us: 1 };
        let (question, token) = (|request| (Bytes::from(request), 1), Bytes::from);
        for (request, second, expected) in [
            ("a", "t", vec![]),
            ("b", "t", vec![Promise::TokenOnce]),
            ("a", "u", vec![Promise::TokenOnce]),
        ] {
            let found = broken(|budgets| {
                budgets.granted("d", question("a"), token("t"), span);
                budgets.granted("d", question(request), token(second), span);
            });
            assert_eq!(found, expected, "{request} {second}");
        }
    }

    #[test]
    fn a_token_that_comes_back_counts_again_only_if_its_charge_stands_or_it_is_granted_anew() {
        let ask_at = |budgets: &mut Budgets, answered_us| {
            let asked = (Bytes::from("a"), 1);
            let span = Span { sent_us: answered_us, answered_us };
            budgets.granted("d", asked, Bytes::from("t"), span);
        };
        // The floor allows 10 at once.
        for (came_back, again, expected) in [
            (None, false, vec![]),
            (None, true, vec![Promise::RetryBound]),
            (Some(true), false, vec![]),
            (Some(true), true, vec![Promise::RetryBound]),
            (Some(false), false, vec![Promise::RetryBound]),
            (Some(false), true, vec![Promise::RetryBound]),
        ] {
            let found = broken(|budgets| {
                ask_at(budgets, 60 * SECOND_US);
                let token = Bytes::from("t");
                budgets.refunding("d", &token);
                if let Some(came_back) = came_back {
                    budgets.refunded("d", &token, came_back, 60 * SECOND_US);
                }
                if again {
                    ask_at(budgets, 60 * SECOND_US + 1);
                }
                (0..10).for_each(|_| budgets.spent("d", 60 * SECOND_US));
            });
            assert_eq!(found, expected, "{came_back:?} {again}");
        }
    }
}
