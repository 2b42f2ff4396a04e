//! Tokens that are good until a moment, in one word: spent by many threads, filled and emptied by one.
//!
//! The upper 44 bits of the word are the moment in milliseconds of the client's clock, the lower 20 the
//! tokens. One word means that a token can't be taken after the purse was emptied, nor out of a lease
//! that has been exchanged meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

const TOKENS_BITS: u32 = 20;
const TOKENS_MASK: u64 = (1 << TOKENS_BITS) - 1;

/// The most tokens of one lease, as in the contract. Fits the word.
pub(crate) const TOKENS_MAX: u32 = 100_000;

/// What is in a purse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) tokens: u32,
    /// They are good before this moment.
    pub(crate) ends_ms: u64,
}

impl Content {
    fn of(word: u64) -> Self {
        let tokens = u32::try_from(word & TOKENS_MASK).unwrap_or_default();
        Self { tokens, ends_ms: word >> TOKENS_BITS }
    }

    fn word(self) -> u64 {
        let ends_ms = self.ends_ms.min(u64::MAX >> TOKENS_BITS);
        (ends_ms << TOKENS_BITS) | u64::from(self.tokens.min(TOKENS_MAX))
    }

    /// Whether its lease goes on.
    pub(crate) const fn is_live(self, now_ms: u64) -> bool {
        now_ms < self.ends_ms
    }
}

/// Tokens to spend.
#[derive(Debug, Default)]
pub(crate) struct Purse(AtomicU64);

impl Purse {
    /// Takes a token, and tells what is left; `None` if there is none that is still good.
    #[inline]
    pub(crate) fn take(&self, now_ms: u64) -> Option<Content> {
        // The word alone carries all that is decided here: no other memory has to be in order with it.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let content = Content::of(word);
            if content.tokens == 0 || !content.is_live(now_ms) {
                return None;
            }
            let taken =
                self.0.compare_exchange_weak(word, word - 1, Ordering::Relaxed, Ordering::Relaxed);
            match taken {
                Ok(_) => return Some(Content { tokens: content.tokens - 1, ..content }),
                Err(newer) => word = newer,
            }
        }
    }

    /// Puts a token back that was taken out of a lease with this end. Whether that lease is still here.
    pub(crate) fn put_back(&self, ends_ms: u64) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let content = Content::of(word);
            if content.ends_ms != ends_ms || content.tokens >= TOKENS_MAX {
                return false;
            }
            let put =
                self.0.compare_exchange_weak(word, word + 1, Ordering::Relaxed, Ordering::Relaxed);
            match put {
                Ok(_) => return true,
                Err(newer) => word = newer,
            }
        }
    }

    /// Puts `content` in, and gives out what was there.
    pub(crate) fn exchange(&self, content: Content) -> Content {
        Content::of(self.0.swap(content.word(), Ordering::Relaxed))
    }

    /// What is there at this moment.
    pub(crate) fn content(&self) -> Content {
        Content::of(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purse_gives_what_it_holds_and_nothing_from_its_end_on() {
        let purse = Purse::default();
        assert_eq!(purse.take(0), None);
        purse.exchange(Content { tokens: 2, ends_ms: 10 });
        let left = |tokens| Some(Content { tokens, ends_ms: 10 });
        assert_eq!(purse.take(9), left(1));
        assert_eq!(purse.take(10), None);
        assert_eq!(purse.take(9), left(0));
        assert_eq!(purse.take(9), None);
        assert_eq!(Some(purse.content()), left(0));
    }

    #[test]
    fn a_token_goes_back_only_into_the_lease_that_it_came_from() {
        let purse = Purse::default();
        purse.exchange(Content { tokens: 2, ends_ms: 10 });
        let taken = purse.take(9).unwrap();
        assert!(purse.put_back(taken.ends_ms));
        assert_eq!(purse.content(), Content { tokens: 2, ends_ms: 10 });
        purse.exchange(Content { tokens: 5, ends_ms: 20 });
        assert!(!purse.put_back(taken.ends_ms), "its lease was given back meanwhile");
        assert_eq!(purse.content().tokens, 5);
    }

    #[test]
    fn the_largest_lease_at_the_latest_moment_fits() {
        let most = Content { tokens: TOKENS_MAX, ends_ms: u64::MAX };
        let kept = Content::of(most.word());
        assert_eq!(kept, Content { tokens: TOKENS_MAX, ends_ms: u64::MAX >> TOKENS_BITS });
    }

    #[test]
    fn threads_never_take_more_than_was_put_in() {
        const FILLS: u32 = 200;
        const TOKENS: u32 = 100;
        let purse = Purse::default();
        let spent: u32 = std::thread::scope(|scope| {
            let spend = || (0..50_000).filter(|_| purse.take(0).is_some()).count();
            let spenders = [scope.spawn(spend), scope.spawn(spend)];
            let mut left = 0;
            for _ in 0..FILLS {
                left += purse.exchange(Content { tokens: TOKENS, ends_ms: 1 }).tokens;
                std::thread::yield_now();
            }
            let taken: usize = spenders.map(|spender| spender.join().unwrap()).iter().sum();
            left += purse.exchange(Content::default()).tokens;
            u32::try_from(taken).unwrap() + left
        });
        assert_eq!(spent, FILLS * TOKENS);
    }
}
