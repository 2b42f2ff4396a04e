//! Tower layers.
//!
//! | layer | what it does |
//! |---|---|
//! | [`IdempotencyLayer`] | for servers: a request with an idempotency key is handled once |

pub mod idempotency;

pub use self::idempotency::{IdempotencyLayer, IdempotencyService};
