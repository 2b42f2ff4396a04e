//! The tokens that this node granted lately: so that the same question gets the same answer, charged
//! once, and so that what was not sent can come back, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::sync::Cache;
use semel_domain::budget::Charge;
use semel_domain::retry::Token;

/// A token that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    /// How long its caller was told to wait.
    pub(crate) delay: Duration,
    /// How many retries its caller's part of the call tree was left.
    pub(crate) root_retries_left: u32,
    /// What was charged; `None`: it was not.
    pub(crate) charge: Option<Charge>,
    /// The budget's key.
    pub(crate) of: Bytes,
    refunded: AtomicBool,
}

impl Granted {
    pub(crate) const fn new(
        of: Bytes,
        delay: Duration,
        root_retries_left: u32,
        charge: Option<Charge>,
    ) -> Self {
        Self { of, delay, root_retries_left, charge, refunded: AtomicBool::new(false) }
    }

    /// Marks it as given back. False: it had been before.
    pub(crate) fn give_back(&self) -> bool {
        !self.refunded.swap(true, Ordering::Relaxed)
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
