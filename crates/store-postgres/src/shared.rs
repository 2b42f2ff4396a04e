//! What the tasks of one store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use semel_store::optimistic::{Patience, Updates, random_number};
use tokio::sync::watch;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;

use crate::error::OpenError;
use crate::link::Links;
use crate::options::PostgresOptions;
use crate::read::Answer;
use crate::session::Duty;
use crate::time::Time;
use crate::tls;
use crate::wakes::Wakes;

/// How many rows the table of times has.
const SLOTS: u64 = 256;

/// The state of a store.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) links: Links,
    /// How often a link came up.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) time: Time,
    pub(crate) updates: Updates<Answer>,
    pub(crate) wakes: Wakes,
    /// The links end.
    pub(crate) closing: CancellationToken,
    /// Random, so that two nodes never give a record the same version.
    versions: AtomicI64,
    first_slot: u64,
}

impl Shared {
    pub(crate) fn new(options: PostgresOptions) -> Result<Self, OpenError> {
        let tls = tls::connector(options.demand, options.root_file.as_deref())?;
        let random = random_number().map_err(OpenError::Thread)?;
        Ok(Self {
            tls,
            links: Links::new(&options),
            changed: watch::Sender::new(0),
            time: Time::default(),
            updates: Updates::new(Arc::clone(&options.clock)),
            wakes: Wakes::new(random),
            closing: CancellationToken::new(),
            // The upper half is left to count in.
            versions: AtomicI64::new(i64::try_from(random >> 2).unwrap_or(0)),
            first_slot: random % SLOTS,
            options,
        })
    }

    /// How long an update waits for others.
    pub(crate) fn patience(&self) -> Patience {
        Patience {
            turn: self.options.silence_timeout(),
            rounds: Duration::from_millis(self.options.lock_timeout_ms),
        }
    }

    /// Takes `count` versions that no record ever had; they follow the number that is returned.
    pub(crate) fn take_versions(&self, count: usize) -> i64 {
        self.versions.fetch_add(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed)
    }

    /// The row in the table of times that the commits of a link write: each link has its own, and
    /// those of other nodes are others, as a rule. A row that two share costs waiting and nothing else.
    pub(crate) fn slot(&self, duty: Duty, place: usize) -> i32 {
        let place = match duty {
            Duty::Synced => u64::try_from(place).unwrap_or(0) + 1,
            Duty::Relaxed | Duty::Listen => 0,
        };
        i32::try_from((self.first_slot + place) % SLOTS).unwrap_or(0)
    }
}
