//! Scans: slices of a range, until a bound of the page is met.
//!
//! Invariant: little more is read than is given: a slice has as many rows as the room left would hold
//! if rows were large, and the next one four times as many; the lengths of values are known without
//! reading large ones.

use bytes::Bytes;
use semel_store::{Page, Row, Scan, Space};

use crate::error::Failure;
use crate::session::{Duty, Named, Session};
use crate::shared::Shared;

/// What a row weighs, for the first guess.
const ROW_BYTES: usize = 1_024;
const SLICE_LEAST: usize = 32;

pub(crate) async fn run(shared: &Shared, scan: Scan) -> Result<Page, Failure> {
    let (_, session) = shared.session(Duty::Synced).await?;
    let mut page = Page::default();
    let mut left_bytes = i64::try_from(scan.max_bytes).unwrap_or(i64::MAX);
    let mut start = scan.start.clone();
    let mut slice = SLICE_LEAST.max(scan.max_bytes / ROW_BYTES);
    loop {
        // One more than there is room for tells whether the range goes on.
        let wanted = slice.min(scan.limit + 1 - page.rows.len());
        let slice_scan = Slice { scan: &scan, start: &start, rows: wanted, bytes: left_bytes };
        let found = slice_scan.read(&session, page.rows.is_empty()).await?;
        let whole = found.len() == wanted;
        for (key, value) in found {
            let Some(value) = value.filter(|_| page.rows.len() < scan.limit) else {
                page.more = true;
                return Ok(page);
            };
            let weight = i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX);
            left_bytes = left_bytes.saturating_sub(weight);
            page.rows.push(Row { key, value });
        }
        let Some(last) = page.rows.last().filter(|_| whole) else { return Ok(page) };
        start = [&last.key[..], &[0]].concat().into();
        slice = slice.saturating_mul(4);
    }
}

struct Slice<'a> {
    scan: &'a Scan,
    start: &'a Bytes,
    rows: usize,
    bytes: i64,
}

impl Slice<'_> {
    /// The rows of the slice; the one that no longer fits comes without its value.
    async fn read(
        &self,
        session: &Session,
        give_one: bool,
    ) -> Result<Vec<(Bytes, Option<Bytes>)>, Failure> {
        let named = match self.scan.space {
            Space::Records => Named::ScanRecords,
            Space::Index => Named::ScanEntries,
        };
        let rows = i64::try_from(self.rows).unwrap_or(i64::MAX);
        let (start, end) = (&**self.start, &*self.scan.end);
        let found =
            session.query(named, None, &[&start, &end, &rows, &self.bytes, &give_one]).await?;
        let wrong = |error: tokio_postgres::Error| Failure::Invalid(error.to_string());
        let read = |row: &tokio_postgres::Row| {
            let key: &[u8] = row.try_get(0).map_err(wrong)?;
            let value: Option<&[u8]> = row.try_get(1).map_err(wrong)?;
            Ok((Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice)))
        };
        found.iter().map(read).collect()
    }
}
