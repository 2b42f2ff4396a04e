//! The tokens that this node granted lately: so that the same question gets the same answer, charged
//! once, and so that what was not sent can come back, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::sync::Cache;
use semel_domain::budget::Charge;
use semel_domain::retry::Token;
use semel_domain::time::Timestamp;

use super::acquire::Grant;

/// A token that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    /// When it was granted.
    pub(crate) at: Timestamp,
    /// How long its caller was told to wait, and how long it is good for after that.
    pub(crate) delay: Duration,
    pub(crate) use_within: Duration,
    /// How many retries its caller's part of the call tree was left.
    pub(crate) root_retries_left: u32,
    /// What was charged; `None`: it was not.
    pub(crate) charge: Option<Charge>,
    /// The budget's key.
    pub(crate) of: Bytes,
    refunded: AtomicBool,
    for_good: bool,
}

impl Granted {
    pub(super) const fn new(
        of: Bytes,
        grant: &Grant,
        charge: Option<Charge>,
        at: Timestamp,
    ) -> Self {
        let Grant { delay, use_within, root_retries_left, .. } = *grant;
        let refunded = AtomicBool::new(false);
        Self { at, delay, use_within, root_retries_left, charge, of, refunded, for_good: false }
    }

    /// The grant as it stands at `now`, for whoever asks again. `None`: its time is over.
    pub(super) fn again(&self, token: Token, now: Timestamp) -> Option<Grant> {
        let passed = now.since(self.at);
        let use_within = self.delay.saturating_add(self.use_within).checked_sub(passed)?;
        let delay = self.delay.saturating_sub(passed);
        let use_within = use_within.saturating_sub(delay);
        let root_retries_left = self.root_retries_left;
        (!use_within.is_zero()).then_some(Grant { token, delay, use_within, root_retries_left })
    }

    /// The token had been given before, and came back or went out of time: it is not taken back another
    /// time, since a late copy of the first refund looks just the same.
    pub(crate) fn for_good(self) -> Self {
        Self { for_good: true, ..self }
    }

    /// Whether it came back, or would be taken back twice.
    pub(crate) fn had_come_back(&self) -> bool {
        self.for_good || self.is_refunded()
    }

    /// Whether it came back.
    pub(crate) fn is_refunded(&self) -> bool {
        self.refunded.load(Ordering::Relaxed)
    }

    /// It came back.
    pub(crate) fn give_back(&self) {
        self.refunded.store(true, Ordering::Relaxed);
    }
}

/// The recent tokens of a node. Bounded: of what it forgets, the charge stands.
pub(crate) struct Tokens(Cache<Token, Arc<Granted>>);

impl Tokens {
    pub(crate) fn new(most: usize) -> Self {
        Self(Cache::new(most))
    }

    pub(crate) fn get(&self, token: &Token) -> Option<Arc<Granted>> {
        self.0.get(token)
    }

    pub(crate) fn keep(&self, token: Token, granted: Granted) {
        self.0.insert(token, Arc::new(granted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token([7; 16]);
    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    #[test]
    fn a_token_that_is_asked_for_again_is_good_for_no_longer_than_it_was() {
        let at = |ms| {
            let now = START.after(Duration::from_millis(ms));
            let again = granted().again(TOKEN, now)?;
            Some((again.delay.as_millis(), again.use_within.as_millis()))
        };
        assert_eq!(at(0), Some((1_000, 1_000)));
        assert_eq!(at(400), Some((600, 1_000)));
        assert_eq!(at(1_000), Some((0, 1_000)));
        assert_eq!(at(1_999), Some((0, 1)));
        assert_eq!((at(2_000), at(60_000)), (None, None));
    }

    fn granted() -> Granted {
        let second = Duration::from_secs(1);
        let grant = Grant { token: TOKEN, delay: second, use_within: second, root_retries_left: 3 };
        Granted::new(Bytes::from_static(b"budget"), &grant, None, START)
    }

    #[test]
    fn a_token_comes_back_once_and_never_if_it_had_come_back_before() {
        let once = granted();
        assert!(!once.is_refunded() && !once.had_come_back());
        once.give_back();
        assert!(once.is_refunded() && once.had_come_back());
        let again = granted().for_good();
        assert!(!again.is_refunded(), "it is good: whoever asks again is not charged");
        assert!(again.had_come_back(), "but it is not taken back");
    }

    #[test]
    fn the_newest_grant_of_a_token_is_the_one_that_is_known() {
        let tokens = Tokens::new(10);
        let token = Token([1; 16]);
        assert!(tokens.get(&token).is_none());
        tokens.keep(token, granted());
        tokens.get(&token).expect("known").give_back();
        tokens.keep(token, granted().for_good());
        assert!(!tokens.get(&token).expect("known").is_refunded());
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let tokens = Tokens::new(100);
        for number in 0..10_000_u128 {
            tokens.keep(Token(number.to_be_bytes()), granted());
        }
        assert!(tokens.0.len() <= 100, "{} tokens", tokens.0.len());
    }
}
