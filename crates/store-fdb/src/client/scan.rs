//! Scans: slices of a range, at one moment, until a bound of the page is met.
//!
//! Invariants: little more is read than is given: the first slice is small, and the next ones larger; a
//! large value is read only if there is room for it. What is read lives for 5 s in the database: a page
//! that takes longer ends with what it has.

use bytes::Bytes;
use foundationdb::options::StreamingMode;
use foundationdb::{RangeOption, Transaction};
use semel_store::{Page, Row, Scan, Space};

use super::failure::{Failure, again};
use super::read::assemble;
use super::shared::Shared;
use crate::head::{Body, Head};
use crate::layout::{Range, after};
use crate::meaning::Meaning;

/// The most that one slice asks for, in bytes.
const SLICE_BYTES: usize = 1 << 20;
/// What the slices of a small page ask for, at the least.
const LEAST_BYTES: usize = 4_096;

pub(crate) async fn run(shared: &Shared, scan: &Scan) -> Result<Page, Failure> {
    let mut transaction = shared.transaction(shared.options.transaction_timeout())?;
    loop {
        let mut page = Page::default();
        match fill(shared, &transaction, scan, &mut page).await {
            Ok(()) => return Ok(page),
            Err(failure) if failure.meaning == Meaning::Again && !page.rows.is_empty() => {
                page.more = true;
                return Ok(page);
            }
            Err(failure) => transaction = again(transaction, failure).await?,
        }
    }
}

async fn fill(
    shared: &Shared,
    transaction: &Transaction,
    scan: &Scan,
    page: &mut Page,
) -> Result<(), Failure> {
    let (mut first, end) = shared.layout.between(scan.space, &scan.start, &scan.end);
    let mut left_bytes = scan.max_bytes;
    while first < end {
        // One more than there is room for tells whether the range goes on.
        let limit = scan.limit.saturating_add(1).saturating_sub(page.rows.len());
        let target_bytes = left_bytes.clamp(LEAST_BYTES, SLICE_BYTES);
        let slice = Slice { range: (first, end.clone()), limit, target_bytes };
        let (rows, goes_on) = slice.read(transaction).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        first = after(last);
        for (packed, stored) in &rows {
            let found = Entry::new(shared, scan.space, packed, stored)?;
            let fits = page.rows.is_empty() || found.weight() <= left_bytes;
            if page.rows.len() == scan.limit || !fits {
                page.more = true;
                return Ok(());
            }
            left_bytes = left_bytes.saturating_sub(found.weight());
            page.rows.push(found.into_row(shared, transaction).await?);
        }
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

struct Slice {
    range: Range,
    limit: usize,
    target_bytes: usize,
}

impl Slice {
    /// Its rows, and whether the range may go on.
    async fn read(
        self,
        transaction: &Transaction,
    ) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, bool), Failure> {
        let range = RangeOption {
            limit: Some(self.limit),
            target_bytes: self.target_bytes,
            mode: StreamingMode::Exact,
            ..RangeOption::from(self.range)
        };
        let found = transaction.get_range(&range, 1, true).await?;
        let rows = found.iter().map(|row| (row.key().to_vec(), row.value().to_vec())).collect();
        Ok((rows, found.more()))
    }
}

/// A row before its value is read, if that lies elsewhere.
struct Entry<'a> {
    key: Bytes,
    value: Body<'a>,
    value_bytes: usize,
}

impl<'a> Entry<'a> {
    fn new(
        shared: &Shared,
        space: Space,
        packed: &[u8],
        stored: &'a [u8],
    ) -> Result<Self, Failure> {
        let key = shared.layout.original(space, packed).map_err(Failure::invalid)?;
        Ok(match space {
            Space::Index => Self { key, value: Body::Inline(stored), value_bytes: stored.len() },
            Space::Records => {
                let head = Head::decode(stored).map_err(Failure::invalid)?;
                Self { key, value: head.body, value_bytes: head.value_bytes() }
            }
        })
    }

    fn weight(&self) -> usize {
        self.key.len() + self.value_bytes
    }

    async fn into_row(self, shared: &Shared, transaction: &Transaction) -> Result<Row, Failure> {
        let value = match self.value {
            Body::Inline(value) => Bytes::copy_from_slice(value),
            Body::Chunked(extent) => assemble(shared, transaction, &self.key, extent).await?.into(),
        };
        Ok(Row { key: self.key, value })
    }
}
