//! A range of the store, looked through in bounded pages, each no longer than a claim's batch would be, and
//! with as much pause between them as they took: so that claims never wait behind it.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use semel_domain::keys::layout::Range;
use semel_store::{Clock, Row, Scan, Space, Store, StoreError};

/// Rows of one page.
pub(crate) const PAGE: usize = 256;
/// Bytes of rows of one page.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;

/// Shows `visit` each page of a range, in order, until it has seen enough.
pub(crate) async fn walk<S: Store>(
    store: &S,
    clock: &dyn Clock,
    space: Space,
    (mut start, end): Range,
    mut visit: impl AsyncFnMut(Vec<Row>) -> Result<ControlFlow<()>, StoreError>,
) -> Result<ControlFlow<()>, StoreError> {
    loop {
        let started_us = clock.monotonic_us();
        let end = end.clone();
        let page =
            store.scan(Scan { space, start, end, limit: PAGE, max_bytes: PAGE_BYTES }).await?;
        let Some(last) = page.rows.last() else { return Ok(Continue(())) };
        start = just_after(&last.key);
        if visit(page.rows).await?.is_break() {
            return Ok(Break(()));
        }
        if !page.more {
            return Ok(Continue(()));
        }
        let took_us = clock.monotonic_us().saturating_sub(started_us);
        tokio::time::sleep(Duration::from_micros(took_us)).await;
    }
}

/// The first key behind `key`.
fn just_after(key: &Bytes) -> Bytes {
    let mut next = BytesMut::from(key.as_ref());
    next.put_u8(0);
    next.freeze()
}
