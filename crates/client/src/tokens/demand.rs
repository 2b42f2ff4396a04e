//! How many tokens were wanted lately, and how many to ask for.

/// Tokens that were wanted, spent or denied, in this period and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    current: u64,
    previous: u64,
    began_ms: u64,
}

impl Demand {
    /// Counts what was wanted since the last time.
    pub(crate) fn add(&mut self, wanted: u64, now_ms: u64, period_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.began_ms);
        if passed_ms >= period_ms {
            self.previous = if passed_ms < 2 * period_ms { self.current } else { 0 };
            self.current = 0;
            self.began_ms = now_ms;
        }
        self.current = self.current.saturating_add(wanted);
    }

    /// How many tokens to hold for the period to come: half as many again as were wanted. A demand that
    /// outgrows them is met by asking more often, so that it is followed within a few calls, while a
    /// short burst doesn't take a whole budget away from the others.
    pub(crate) fn target(self) -> u64 {
        let wanted = self.current.max(self.previous);
        wanted.saturating_add(wanted.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_follows_the_demand_and_forgets_it_after_two_periods() {
        let mut demand = Demand::default();
        demand.add(10, 100, 100);
        assert_eq!(demand.target(), 15);
        demand.add(10, 150, 100);
        assert_eq!(demand.target(), 30);
        demand.add(0, 200, 100);
        assert_eq!(demand.target(), 30, "as much as in the period before");
        demand.add(0, 300, 100);
        assert_eq!(demand.target(), 0);
        demand.add(4, 310, 100);
        demand.add(0, 900, 100);
        assert_eq!(demand.target(), 0, "a long silence is forgotten at once");
    }
}
