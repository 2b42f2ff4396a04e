//! What a node can be told, with its defaults and bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use semel_domain::keys::Policy;
use semel_domain::limits;

/// The port on which a node listens unless told otherwise.
pub const DEFAULT_PORT: u16 = 7450;
/// The largest body limit that a node accepts, in bytes: a record must stay well below what a store
/// takes in one piece.
pub const BODY_LIMIT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The largest message that a node reads, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 8 * 1024 * 1024;

/// How a node serves.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Serving threads, each with a runtime of its own: 1 to 256. Default: one for each core.
    pub serving_threads: usize,
    /// Connections at the most; more wait to be accepted. Default: 8,192.
    pub connections_max: usize,
    /// Calls that may be queued for the store per serving thread before claims and replays are shed.
    /// Default: 4,096.
    pub queued_calls_max: usize,
    /// How long a shutdown waits for calls in flight. Default: 10 s.
    pub grace: Duration,
    /// Where it says that it can be reached: HOST:PORT, 1 to 255 bytes. Default: where it listens.
    pub advertised_address: Option<String>,
    /// How often it tells the store that it lives, and measures its clock: 10 ms to 60 s. Default: 2 s.
    pub heartbeat_interval: Duration,
    /// How often the records of budgets and breakers are looked through for those that say nothing any
    /// more. Default: 10 min.
    pub leftovers_interval: Duration,
    /// The Keys service.
    pub keys: KeyOptions,
    /// The Retries service.
    pub retries: RetryOptions,
    /// The Breakers service.
    pub breakers: BreakerOptions,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            serving_threads: cores,
            connections_max: 8_192,
            queued_calls_max: 4_096,
            grace: Duration::from_secs(10),
            advertised_address: None,
            heartbeat_interval: Duration::from_secs(2),
            leftovers_interval: Duration::from_secs(600),
            keys: KeyOptions::default(),
            retries: RetryOptions::default(),
            breakers: BreakerOptions::default(),
        }
    }
}

/// How the Keys service answers.
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// How long answers are kept at the least: 1 min to 30 d. Default: 24 h.
    pub retention: Duration,
    /// How far the clocks of callers, of this node and of the store may be apart. A node whose clock is
    /// further off refuses claims, and does not sweep. Default: 1 s.
    pub allowed_skew: Duration,
    /// Whether every claim must say when its intent was made. Default: no.
    pub require_first_sent: bool,
    /// The longest body that is stored, in bytes, up to 4 MiB; a longer one is stored as omitted, with
    /// its digest. Default: 1 MiB.
    pub body_limit_bytes: usize,
    /// Whether operators may read stored bodies. Default: no.
    pub grant_bodies: bool,
    /// Answers kept in memory, in bytes. Default: 64 MiB.
    pub replay_cache_bytes: u64,
    /// Callers that may wait for one key. Default: 1,000.
    pub waiters_per_key_max: usize,
    /// Callers that may wait for keys of one tenant. Default: 10,000.
    pub waiters_per_tenant_max: usize,
    /// Callers that may wait. Default: 50,000.
    pub waiters_max: usize,
    /// How often expired records are looked for. Default: 1 s.
    pub sweep_interval: Duration,
}

impl Default for KeyOptions {
    fn default() -> Self {
        Self {
            retention: limits::RETENTION_DEFAULT,
            allowed_skew: limits::CLOCK_SKEW_MAX,
            require_first_sent: false,
            body_limit_bytes: limits::BODY_MAX_BYTES_DEFAULT,
            grant_bodies: false,
            replay_cache_bytes: 64 * 1024 * 1024,
            waiters_per_key_max: 1_000,
            waiters_per_tenant_max: 10_000,
            waiters_max: 50_000,
            sweep_interval: Duration::from_secs(1),
        }
    }
}

/// How the Breakers service answers.
#[derive(Clone, Copy, Debug)]
pub struct BreakerOptions {
    /// Breakers that a node follows. Default: 100,000.
    pub breakers_max: usize,
    /// Streams that watch breakers. Default: 10,000.
    pub watchers_max: usize,
    /// Reporters whose reports a node tells apart. Default: 100,000.
    pub reporters_max: usize,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { breakers_max: 100_000, watchers_max: 10_000, reporters_max: 100_000 }
    }
}

impl KeyOptions {
    pub(crate) fn policy(&self) -> Policy {
        Policy { retention: self.retention, allowed_skew: self.allowed_skew }
    }
}

/// What the Retries service keeps in memory.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// Budgets in use at once; calls about more are shed. Default: 100,000.
    pub budgets_max: usize,
    /// Clients that report first attempts or lease tokens, each counted once for each of its budgets and
    /// for either; the reports and wishes of more come to nothing. Default: 1,000,000.
    pub clients_max: usize,
    /// Tokens remembered, so that a question asked twice is charged once. Default: 200,000.
    pub recent_tokens_max: usize,
    /// Root requests remembered. Default: 200,000.
    pub recent_roots_max: usize,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            budgets_max: 100_000,
            clients_max: 1_000_000,
            recent_tokens_max: 200_000,
            recent_roots_max: 200_000,
        }
    }
}

/// Why options are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} must be {allowed}, but is {actual}")]
pub struct OptionsError {
    /// The option.
    pub option: &'static str,
    /// What it may be.
    pub allowed: String,
    /// What it is.
    pub actual: String,
}

impl NodeOptions {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// The first option that is out of its bounds.
    pub fn check(&self) -> Result<(), OptionsError> {
        within("serving_threads", self.serving_threads, 1, 256)?;
        within("connections_max", self.connections_max, 1, 1_000_000)?;
        within("queued_calls_max", self.queued_calls_max, 1, 1_000_000)?;
        let keys = &self.keys;
        within("retention", keys.retention, limits::RETENTION_MIN, limits::RETENTION_MAX)?;
        within("allowed_skew", keys.allowed_skew, Duration::ZERO, Duration::from_secs(60))?;
        within("body_limit_bytes", keys.body_limit_bytes, 0, BODY_LIMIT_MAX_BYTES)?;
        within("waiters_per_key_max", keys.waiters_per_key_max, 1, 1_000_000)?;
        within("waiters_per_tenant_max", keys.waiters_per_tenant_max, 1, 1_000_000)?;
        within("waiters_max", keys.waiters_max, 1, 1_000_000)?;
        let retries = &self.retries;
        within("budgets_max", retries.budgets_max, 1, 10_000_000)?;
        within("clients_max", retries.clients_max, 1, 100_000_000)?;
        within("recent_tokens_max", retries.recent_tokens_max, 1, 100_000_000)?;
        within("recent_roots_max", retries.recent_roots_max, 1, 100_000_000)?;
        let (shortest, longest) = (Duration::from_millis(10), Duration::from_secs(3_600));
        within("sweep_interval", keys.sweep_interval, shortest, longest)?;
        within("leftovers_interval", self.leftovers_interval, shortest, longest)?;
        let longest = Duration::from_secs(60);
        within("heartbeat_interval", self.heartbeat_interval, shortest, longest)?;
        self.check_address()?;
        let breakers = &self.breakers;
        within("breakers_max", breakers.breakers_max, 1, 10_000_000)?;
        within("watchers_max", breakers.watchers_max, 1, 1_000_000)?;
        within("reporters_max", breakers.reporters_max, 1, 10_000_000)
    }
}

impl NodeOptions {
    fn check_address(&self) -> Result<(), OptionsError> {
        let Some(address) = &self.advertised_address else { return Ok(()) };
        let most = limits::NODE_ADDRESS_MAX_BYTES;
        let strange = |letter: char| letter.is_control() || letter.is_whitespace();
        if !address.is_empty() && address.len() <= most && !address.contains(strange) {
            return Ok(());
        }
        Err(OptionsError {
            option: "advertised_address",
            allowed: format!("1 to {most} bytes without spaces and control characters"),
            actual: format!("{address:?}"),
        })
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Debug>(
    option: &'static str,
    actual: T,
    least: T,
    most: T,
) -> Result<(), OptionsError> {
    if actual >= least && actual <= most {
        return Ok(());
    }
    Err(OptionsError {
        option,
        allowed: format!("{least:?} to {most:?}"),
        actual: format!("{actual:?}"),
    })
}
