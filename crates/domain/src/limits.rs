//! Every bound of the domain, in one file. The wire contract repeats them beside its fields.

use std::time::Duration;

/// The longest tenant, operation or dependency name, in bytes.
pub const NAME_MAX_BYTES: usize = 128;
/// The longest idempotency key, in bytes.
pub const KEY_MAX_BYTES: usize = 255;

/// The most fingerprints of one key, one per algorithm.
pub const FINGERPRINTS_MAX: usize = 4;
/// The longest name of a fingerprint algorithm, in bytes.
pub const ALGORITHM_MAX_BYTES: usize = 64;
/// The shortest digest, in bytes: less invites collisions.
pub const DIGEST_MIN_BYTES: usize = 16;
/// The longest digest, in bytes.
pub const DIGEST_MAX_BYTES: usize = 64;

/// The shortest lease; a shorter request is raised to it.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest lease; a longer request is cut to it.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The lease of a request that names none.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// The shortest retention that a policy may set.
pub const RETENTION_MIN: Duration = Duration::from_secs(60);
/// The longest retention; a longer request is refused, since a promise cut short is a second run.
pub const RETENTION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The retention of a policy that names none.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest wait of one call.
pub const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// A waiter with less than this left is no longer given a claim: it could not use it.
pub const WAIT_CLAIM_MIN: Duration = Duration::from_millis(100);

/// How far two clocks may be apart before one of them is not believed.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(1);

/// The longest stored body in bytes, unless a node is told otherwise.
pub const BODY_MAX_BYTES_DEFAULT: usize = 1024 * 1024;
/// The longest content type, in bytes.
pub const CONTENT_TYPE_MAX_BYTES: usize = 255;
/// The most headers of a stored response.
pub const METADATA_MAX: usize = 64;
/// All headers of a stored response together, in bytes.
pub const METADATA_MAX_BYTES: usize = 16 * 1024;
/// The longest header name, in bytes.
pub const METADATA_NAME_MAX_BYTES: usize = 255;
/// The longest header value, in bytes.
pub const METADATA_VALUE_MAX_BYTES: usize = 8 * 1024;

/// The longest checkpoint, in bytes.
pub const CHECKPOINT_MAX_BYTES: usize = 64 * 1024;
/// The most labels of a key.
pub const LABELS_MAX: usize = 16;
/// The longest label name, in bytes.
pub const LABEL_NAME_MAX_BYTES: usize = 63;
/// The longest label value, in bytes.
pub const LABEL_VALUE_MAX_BYTES: usize = 255;

/// The most items of one batch.
pub const BATCH_MAX: usize = 1_000;
/// The most rows of one page.
pub const PAGE_MAX: u32 = 1_000;
/// The rows of a page that names no size.
pub const PAGE_DEFAULT: u32 = 100;

/// An incarnation of a reporter, lessee or node, and a token, in bytes.
pub const INCARNATION_BYTES: usize = 16;
/// The longest id of a request or of a root request, in bytes.
pub const REQUEST_ID_MAX_BYTES: usize = 64;
/// The most dependencies of one watch.
pub const WATCHED_MAX: usize = 256;
/// The most outcomes of probes in one report.
pub const PROBES_REPORTED_MAX: usize = 100;
/// The most nodes that hold parts of one budget.
pub const BUDGET_MEMBERS_MAX: usize = 4_096;
/// The most tokens of one lease to a client.
pub const LEASED_TOKENS_MAX: u32 = 100_000;

/// How many earlier attempts a record remembers.
pub const HISTORY_MAX: usize = 8;
/// How many acts of operators a record remembers.
pub const AUDIT_MAX: usize = 8;
/// The longest name of an operator, in bytes.
pub const ACTOR_MAX_BYTES: usize = 128;
/// The longest reason of an operator, in bytes.
pub const REASON_MAX_BYTES: usize = 512;

/// The slots of a breaker's window.
pub const BREAKER_SLOTS: u32 = 10;
/// The reporters whose outcomes a breaker tells apart: those with most failures. The others count in
/// its totals only.
pub const BREAKER_REPORTERS_MAX: usize = 32;
/// The nodes whose outcomes a breaker takes at a time.
pub const BREAKER_NODES_MAX: usize = 512;
/// A node that brought a breaker nothing for this long is forgotten by it. Longer than a node goes on
/// sending what it got no answer to, so that nothing counts twice.
pub const BREAKER_NODE_FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);
/// The most probes under way at once.
pub const BREAKER_PROBES_MAX: u32 = 100;
/// The most probes that a policy may ask for in a row before a breaker closes.
pub const BREAKER_SUCCESSES_MAX: u32 = 100;

/// A node that missed more heartbeats than this is not live.
pub const NODE_BEATS_MISSED_MAX: u32 = 3;
/// The record of a node that has not been live for this long may go.
pub const NODE_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The longest version of a node's program, in bytes.
pub const NODE_VERSION_MAX_BYTES: usize = 64;
/// The longest address of a node, in bytes.
pub const NODE_ADDRESS_MAX_BYTES: usize = 255;
/// The most stored formats that a node tells of.
pub const NODE_FORMATS_MAX: usize = 32;
/// The longest name of a stored format, in bytes.
pub const NODE_FORMAT_NAME_MAX_BYTES: usize = 32;
