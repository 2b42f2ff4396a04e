//! The row of a key: how it is claimed, filled and pruned.
//!
//! A row that is `not_done` bars its fence and older ones. Claiming a key means to make such a row under one's
//! own fence: in a transaction, that keeps others waiting until it is filled or rolled back; by itself, it is
//! the promise that no owner up to this fence writes any more.
//!
//! Invariant: a receipt is written once. No statement here changes a row that is done.

use std::time::{Duration, SystemTime};

use prost::Message;
use semel_proto::v1;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};

use super::error::Error;
use super::outcome::Receipt;
use crate::fingerprint::Fingerprint;
use crate::keys::{KeyName, Response};

type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// The row may change hands between two statements so often.
const ROUNDS: usize = 3;

/// Sets the lock timeout, and gives the one before.
const BE_PATIENT: &str = "
WITH earlier AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value)
SELECT earlier.value, set_config('lock_timeout', $1, $2) FROM earlier";

/// Waits for a concurrent insert, at most for the lock timeout.
const INSERT: &str = "
INSERT INTO semel_receipts (tenant, operation, key, fence, algorithm, digest, outcome)
VALUES ($1, $2, $3, $4, $5, $6, 'not_done')
ON CONFLICT (tenant, operation, key) DO NOTHING";

const READ: &str = "
SELECT fence, outcome, algorithm, digest, response, written_at FROM semel_receipts
WHERE tenant = $1 AND operation = $2 AND key = $3";

/// Takes a row over that bars older fences only.
const RAISE: &str = "
UPDATE semel_receipts SET fence = $4, algorithm = $5, digest = $6, written_at = clock_timestamp()
WHERE tenant = $1 AND operation = $2 AND key = $3 AND outcome = 'not_done' AND fence < $4";

const FILL: &str = "
UPDATE semel_receipts SET outcome = $4, response = $5
WHERE tenant = $1 AND operation = $2 AND key = $3
RETURNING fence, written_at";

const PRUNE: &str = "
DELETE FROM semel_receipts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM semel_receipts WHERE written_at < clock_timestamp() - make_interval(secs => $1)
    ORDER BY written_at LIMIT $2 FOR UPDATE SKIP LOCKED
))";

/// Whose row it is to be.
#[derive(Clone, Debug)]
pub(super) struct Claimant {
    pub(super) name: KeyName,
    pub(super) fence: u64,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// What came of claiming.
pub(super) enum Claimed {
    /// The row is there under our fence.
    Ours,
    /// It is done.
    Done(Receipt),
    /// Our fence is barred.
    Barred { fence: u64 },
    /// Another transaction holds the row.
    Locked,
}

impl Claimant {
    /// Makes the row of the key ours. In a transaction, an answer other than `Ours` perhaps leaves it
    /// failed: roll it back. How long it waits is the lock timeout that is set.
    pub(super) async fn claim(&self, database: &impl GenericClient) -> Result<Claimed, Error> {
        for _ in 0..ROUNDS {
            if let Some(claimed) = self.write(database, INSERT).await? {
                return Ok(claimed);
            }
            let Some(there) = read(database, &self.name).await? else { continue };
            if let Some(claimed) = self.judge(there)? {
                return Ok(claimed);
            }
            if let Some(claimed) = self.write(database, RAISE).await? {
                return Ok(claimed);
            }
        }
        Ok(Claimed::Locked)
    }

    /// Ours or locked; nothing if the statement met a row that it may not take.
    async fn write(
        &self,
        database: &impl GenericClient,
        sql: &str,
    ) -> Result<Option<Claimed>, Error> {
        let fence = to_sql(self.fence)?;
        let algorithm = self.fingerprint.as_ref().map(Fingerprint::algorithm);
        let digest = self.fingerprint.as_ref().map(|print| &print.digest()[..]);
        let names = parts(&self.name);
        let [tenant, operation, key] = texts(&names);
        let values: [Value<'_>; 6] = [
            tenant,
            operation,
            key,
            (&fence, Type::INT8),
            (&algorithm, Type::TEXT),
            (&digest, Type::BYTEA),
        ];
        match database.execute_typed(sql, &values).await {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(Claimed::Ours)),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                Ok(Some(Claimed::Locked))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the row that is there means for us; nothing if it is ours to take over.
    fn judge(&self, there: There) -> Result<Option<Claimed>, Error> {
        match there.outcome {
            Some((failed, response)) => {
                let differs = |ours| there.fingerprint.as_ref().is_some_and(|print| print != ours);
                if self.fingerprint.as_ref().is_some_and(differs) {
                    return Err(Error::Mismatch { key: self.name.key().to_string() });
                }
                let There { fence, written_at, .. } = there;
                Ok(Some(Claimed::Done(Receipt { fence, failed, response, written_at })))
            }
            None if there.fence >= self.fence => Ok(Some(Claimed::Barred { fence: there.fence })),
            None => Ok(None),
        }
    }
}

/// A row as it was read.
struct There {
    fence: u64,
    /// Whether it failed, and the answer; nothing if it is not done.
    outcome: Option<(bool, Response)>,
    fingerprint: Option<Fingerprint>,
    written_at: SystemTime,
}

async fn read(database: &impl GenericClient, name: &KeyName) -> Result<Option<There>, Error> {
    let row = database.query_typed_opt(READ, &texts(&parts(name))).await?;
    row.map(|row| There::from_row(&row)).transpose()
}

impl There {
    fn from_row(row: &Row) -> Result<Self, Error> {
        let outcome = match row.try_get(1)? {
            "not_done" => None,
            "succeeded" => Some((false, decode(row.try_get(4)?)?)),
            "failed_final" => Some((true, decode(row.try_get(4)?)?)),
            other => return Err(Error::Unreadable(format!("its outcome is {other:?}"))),
        };
        let (algorithm, digest): (Option<&str>, Option<&[u8]>) = (row.try_get(2)?, row.try_get(3)?);
        let made =
            |(algorithm, digest): (&str, &[u8])| Fingerprint::new(algorithm, digest.to_vec());
        Ok(Self {
            fence: from_sql(row.try_get(0)?)?,
            outcome,
            fingerprint: algorithm.zip(digest).map(made),
            written_at: row.try_get(5)?,
        })
    }
}

/// How long the lock timeout holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    EndOfTransaction,
    EndOfSession,
}

/// Sets the lock timeout, as the database writes it, and gives the one before.
pub(super) async fn set_lock_timeout(
    database: &impl GenericClient,
    lock_timeout: &str,
    until: Until,
) -> Result<String, Error> {
    let local = until == Until::EndOfTransaction;
    let values: [Value<'_>; 2] = [(&lock_timeout, Type::TEXT), (&local, Type::BOOL)];
    Ok(database.query_typed_one(BE_PATIENT, &values).await?.try_get(0)?)
}

/// Fills the row that this transaction has claimed.
pub(super) async fn fill(
    database: &impl GenericClient,
    name: &KeyName,
    failed: bool,
    response: Response,
) -> Result<Receipt, Error> {
    let outcome = if failed { "failed_final" } else { "succeeded" };
    let encoded = response.to_wire().encode_to_vec();
    let names = parts(name);
    let [tenant, operation, key] = texts(&names);
    let values = [tenant, operation, key, (&outcome, Type::TEXT), (&encoded, Type::BYTEA)];
    let row = database.query_typed_one(FILL, &values).await?;
    let fence = from_sql(row.try_get(0)?)?;
    Ok(Receipt { fence, failed, response, written_at: row.try_get(1)? })
}

/// Deletes receipts that are older than this, the oldest first, at most `batch` of them; how many it were.
/// Call it again until it gives fewer than `batch`.
///
/// A receipt has to outlast whatever may still ask for its key: the retries of callers, redelivery by queues,
/// the retention of the operation in Semel, and the longest pause of an owner.
///
/// # Errors
///
/// [`Error::Database`]: nothing was deleted.
pub async fn prune(
    database: &impl GenericClient,
    older_than: Duration,
    batch: u32,
) -> Result<u64, Error> {
    let (seconds, batch) = (older_than.as_secs_f64(), i64::from(batch));
    let values: [Value<'_>; 2] = [(&seconds, Type::FLOAT8), (&batch, Type::INT8)];
    Ok(database.execute_typed(PRUNE, &values).await?)
}

/// A name's parts as values of statements: of borrowed strings, which can be such values.
fn parts(name: &KeyName) -> [&str; 3] {
    [name.tenant(), name.operation(), name.key()]
}

fn texts<'a>(parts: &'a [&str; 3]) -> [Value<'a>; 3] {
    let [tenant, operation, key] = parts;
    [(tenant, Type::TEXT), (operation, Type::TEXT), (key, Type::TEXT)]
}

fn decode(response: Option<&[u8]>) -> Result<Response, Error> {
    let wire = v1::Response::decode(response.unwrap_or_default());
    let wire = wire.map_err(|error| Error::Unreadable(error.to_string()))?;
    Response::from_wire(wire).map_err(|error| Error::Unreadable(error.to_string()))
}

fn to_sql(fence: u64) -> Result<i64, Error> {
    i64::try_from(fence).map_err(|_| Error::Unreadable(format!("{fence} is no fence of a node")))
}

fn from_sql(fence: i64) -> Result<u64, Error> {
    u64::try_from(fence).map_err(|_| Error::Unreadable(format!("its fence is {fence}")))
}
