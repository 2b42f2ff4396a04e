//! Whether the history of one retry budget keeps its bound.
//!
//! > grants(W) ≤ ratio · deposits(W + B + L) + floor · (W + B + L)
//!
//! A grant surely lies in a window that holds its whole interval, moved by the delay that came with it: a
//! retry counts when it is to be sent. A deposit may pay for it if its interval touches the window or the
//! `B + L` before it. Windows from each grant to each later one are tried, up to [`WINDOW_MAX_US`]: none
//! in between can be worse.

use std::collections::HashMap;

use bytes::Bytes;

use super::{Broken, Promise};

/// The longest window that is tried.
const WINDOW_MAX_US: u64 = 30_000_000;
const SECOND_US: u64 = 1_000_000;

/// What was set for the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ratio_per_mille: u64,
    pub(crate) floor_per_second: u64,
    /// The window with its carry-over, and the lease: B + L.
    pub(crate) lookback_us: u64,
}

/// First attempts that were reported.
#[derive(Clone, Debug)]
pub(crate) struct Deposit {
    /// The node that was meant or that answered; `None` if neither is known.
    pub(crate) node: Option<Bytes>,
    pub(crate) count: u64,
    pub(crate) began_us: u64,
    /// By when they had been counted, if anybody said so.
    pub(crate) counted_us: Option<u64>,
}

/// A token that was granted.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) request: Bytes,
    pub(crate) attempt: u32,
    pub(crate) token: Bytes,
    /// When its retry is to be sent, between two moments.
    pub(crate) first_us: u64,
    pub(crate) last_us: u64,
    /// It was given back unused, or may have been.
    pub(crate) refunded: bool,
}

/// How many first attempts a node says it counted.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) node: Bytes,
    pub(crate) requests: u64,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
}

/// Everything that is known of a budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) deposits: Vec<Deposit>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) said: Vec<Said>,
    /// How many of the grants were leased.
    pub(crate) leased: u64,
    /// Errors that nothing explains.
    pub(crate) refused: Vec<String>,
}

/// The bound at its tightest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tightest {
    pub(crate) used_per_mille: u64,
    pub(crate) seen: String,
}

impl History {
    /// Everything that is wrong, and how near to the bound the fleet came.
    pub(crate) fn judge(&self, terms: Terms) -> (Vec<Broken>, Tightest) {
        let mut broken = self.tokens();
        broken.extend(self.counted());
        let refused = self.refused.iter();
        broken.extend(refused.map(|refused| Broken::new(Promise::Expected, refused)));
        let tightest = self.tightest(terms);
        if tightest.used_per_mille > 1_000 {
            broken.push(Broken::new(Promise::RetryBound, &tightest.seen));
        }
        (broken, tightest)
    }

    fn tokens(&self) -> Vec<Broken> {
        let (mut of_question, mut of_token) = (HashMap::new(), HashMap::new());
        let mut broken = Vec::new();
        for grant in &self.grants {
            let question = (&grant.request, grant.attempt);
            let token = of_question.entry(question).or_insert(&grant.token);
            if *token != &grant.token {
                broken.push(Broken::new(Promise::OneToken, format!("another: {grant:?}")));
            }
            if *of_token.entry(&grant.token).or_insert(question) != question {
                broken.push(Broken::new(Promise::OneToken, format!("of two: {grant:?}")));
            }
        }
        broken
    }

    /// Holds what nodes say they counted against what they were sent and acknowledged.
    fn counted(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut by_node: HashMap<Option<&Bytes>, Vec<&Deposit>> = HashMap::new();
        for deposit in &self.deposits {
            by_node.entry(deposit.node.as_ref()).or_default().push(deposit);
        }
        let sums = by_node.into_iter().map(|(node, its)| (node, Deposits::new(its)));
        let by_node: HashMap<Option<&Bytes>, Deposits> = sums.collect();
        let of = |node: Option<&Bytes>, count: &dyn Fn(&Deposits) -> u64| {
            by_node.get(&node).map_or(0, count)
        };
        for said in &self.said {
            let begun = |sums: &Deposits| before(&sums.begun, said.ended_us + 1);
            let least = of(Some(&said.node), &|sums| before(&sums.over, said.began_us));
            let most = of(Some(&said.node), &begun) + of(None, &begun);
            if !(least..=most).contains(&said.requests) {
                let seen = format!("{said:?}; acknowledged {least}, sent {most}");
                broken.push(Broken::new(Promise::DepositOnce, seen));
            }
        }
        broken
    }

    /// One interval for each question: it may be charged more than once and is used once.
    fn used(&self) -> Vec<(u64, u64)> {
        let mut used: HashMap<_, (u64, u64, bool)> = HashMap::new();
        for grant in &self.grants {
            let question = (&grant.request, grant.attempt);
            let at = used.entry(question).or_insert((grant.first_us, grant.last_us, false));
            at.0 = at.0.min(grant.first_us);
            at.1 = at.1.max(grant.last_us);
            at.2 |= grant.refunded;
        }
        let mut used: Vec<(u64, u64)> =
            used.into_values().filter(|it| !it.2).map(|(first, last, _)| (first, last)).collect();
        used.sort_by_key(|(_, last_us)| *last_us);
        used
    }

    fn tightest(&self, terms: Terms) -> Tightest {
        let used = self.used();
        let deposits = Deposits::new(&self.deposits);
        let mut tightest = Tightest::default();
        for (position, (from_us, _)) in used.iter().enumerate() {
            // Those of shorter intervals within this one's.
            let ended = used[..position].iter().rev().take_while(|(_, last_us)| last_us >= from_us);
            let within = ended.filter(|(first_us, _)| first_us >= from_us).count();
            let mut granted = u64::try_from(within).unwrap();
            for (first_us, last_us) in &used[position..] {
                if last_us - from_us > WINDOW_MAX_US {
                    break;
                }
                if first_us < from_us {
                    continue;
                }
                granted += 1;
                let paying_us = last_us - from_us + terms.lookback_us;
                let since_us = from_us.saturating_sub(terms.lookback_us);
                let paid = deposits.between(since_us, *last_us);
                let allowed_milli = terms.ratio_per_mille * paid
                    + (terms.floor_per_second * paying_us * 1_000).div_ceil(SECOND_US);
                let used_per_mille = granted * 1_000_000 / allowed_milli.max(1);
                if used_per_mille > tightest.used_per_mille {
                    let seen = format!(
                        "{granted} grants within {} ms, at {} ms; {paid} first attempts and the \
                         floor allow {allowed_milli} thousandths",
                        (last_us - from_us) / 1_000,
                        from_us / 1_000,
                    );
                    tightest = Tightest { used_per_mille, seen };
                }
            }
        }
        tightest
    }
}

/// First attempts, summed over the moments at which they may begin to count and surely have counted.
struct Deposits {
    begun: Vec<(u64, u64)>,
    over: Vec<(u64, u64)>,
}

impl Deposits {
    fn new<'a>(deposits: impl IntoIterator<Item = &'a Deposit>) -> Self {
        let (mut begun, mut over) = (Vec::new(), Vec::new());
        for it in deposits {
            begun.push((it.began_us, it.count));
            over.extend(it.counted_us.map(|by_us| (by_us, it.count)));
        }
        Self { begun: summed(begun), over: summed(over) }
    }

    /// How many may have been counted between these moments, at the most.
    fn between(&self, from_us: u64, until_us: u64) -> u64 {
        let begun = before(&self.begun, until_us + 1);
        begun - before(&self.over, from_us)
    }
}

fn summed(mut counts: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    counts.sort_unstable();
    let mut sum = 0;
    for (_, count) in &mut counts {
        sum += *count;
        *count = sum;
    }
    counts
}

fn before(summed: &[(u64, u64)], at_us: u64) -> u64 {
    let position = summed.partition_point(|(us, _)| *us < at_us);
    position.checked_sub(1).map_or(0, |last| summed[last].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { ratio_per_mille: 100, floor_per_second: 2, lookback_us: 5 * SECOND_US };
    const NODE: Bytes = Bytes::from_static(b"node");

    fn deposit(count: u64, began_us: u64, counted_us: Option<u64>) -> Deposit {
        Deposit { node: Some(NODE), count, began_us, counted_us }
    }

    fn grants(count: u32, first_us: u64, last_us: u64) -> Vec<Grant> {
        let grant = |number: u32| Grant {
            request: Bytes::copy_from_slice(&number.to_be_bytes()),
            attempt: 1,
            token: Bytes::copy_from_slice(&number.to_be_bytes()),
            first_us,
            last_us,
            refunded: false,
        };
        (0..count).map(grant).collect()
    }

    fn promises(history: &History) -> Vec<Promise> {
        history.judge(TERMS).0.into_iter().map(|broken| broken.promise).collect()
    }

    #[test]
    fn one_grant_too_many_is_seen() {
        for (count, expected) in [(30, vec![]), (31, vec![Promise::RetryBound])] {
            // 200 first attempts pay for 20, five seconds of the floor for 10.
            let deposits = vec![deposit(200, 9 * SECOND_US, Some(9 * SECOND_US))];
            let at_us = 10 * SECOND_US;
            let history =
                History { deposits, grants: grants(count, at_us, at_us), ..<_>::default() };
            assert_eq!(promises(&history), expected, "{count}");
        }
    }

    #[test]
    fn what_was_deposited_too_early_or_too_late_pays_for_nothing() {
        let at_us = 10 * SECOND_US;
        for (counted_us, expected) in [
            (Some(at_us - TERMS.lookback_us - 1), vec![Promise::RetryBound]),
            (Some(at_us - TERMS.lookback_us), vec![]),
            // Nobody knows when it counted.
            (None, vec![]),
        ] {
            let deposits = vec![deposit(200, 0, counted_us)];
            let history = History { deposits, grants: grants(11, at_us, at_us), ..<_>::default() };
            assert_eq!(promises(&history), expected, "{counted_us:?}");
        }
        let deposits = vec![deposit(200, at_us + 1, Some(at_us + 1))];
        let history = History { deposits, grants: grants(11, at_us, at_us), ..<_>::default() };
        assert_eq!(promises(&history), [Promise::RetryBound]);
    }

    #[test]
    fn grants_that_may_lie_apart_are_not_held_against_a_window() {
        let history = History { grants: grants(20, SECOND_US, 20 * SECOND_US), ..<_>::default() };
        assert_eq!(promises(&history), []);
    }

    #[test]
    fn a_refunded_token_counts_for_nothing() {
        let mut history = History { grants: grants(11, 0, 0), ..<_>::default() };
        history.grants[3].refunded = true;
        assert_eq!(promises(&history), []);
    }

    #[test]
    fn two_tokens_of_a_question_and_two_questions_of_a_token_are_seen() {
        let two = grants(2, 0, SECOND_US);
        let mut twice = two.clone();
        twice[1].request = twice[0].request.clone();
        let mut shared = two.clone();
        shared[1].token = shared[0].token.clone();
        for (grants, expected) in
            [(two, vec![]), (twice, vec![Promise::OneToken]), (shared, vec![Promise::OneToken])]
        {
            assert_eq!(promises(&History { grants, ..<_>::default() }), expected);
        }
    }

    #[test]
    fn deposits_lost_or_counted_twice_are_seen() {
        let deposits = [deposit(5, 0, Some(1)), deposit(3, 2, None)];
        let other = Deposit { node: Some(Bytes::from_static(b"other")), ..deposit(9, 0, None) };
        for (requests, expected) in [
            (4, vec![Promise::DepositOnce]),
            (5, vec![]),
            (8, vec![]),
            (9, vec![Promise::DepositOnce]),
        ] {
            let said = vec![Said { node: NODE, requests, began_us: 3, ended_us: 4 }];
            let deposits = deposits.iter().cloned().chain([other.clone()]).collect();
            let history = History { deposits, said, ..<_>::default() };
            assert_eq!(promises(&history), expected, "{requests}");
        }
    }
}
