//! Scans: ordered ranges, bounded in rows and in bytes, and pages that go on where one ended.

use bytes::Bytes;

use super::step::Step;
use super::world::{World, row, whole};
use super::{Check, Harness};
use crate::contract::{Change, IndexChange, Page, Row, Scan, Space, ValueChange};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        an_empty_space_has_no_rows,
        a_range_begins_at_its_start_and_ends_before_its_end,
        a_range_that_ends_before_it_starts_is_empty,
        a_page_has_no_more_rows_than_its_limit,
        a_page_has_no_more_bytes_than_its_limit,
        one_row_is_given_whatever_it_weighs,
        pages_visit_every_row_once,
        the_largest_page_goes_on_in_the_next,
        rows_may_be_deleted_while_paging,
        a_scan_sees_every_change_that_was_answered,
    ]
}

const SPACES: [Space; 2] = [Space::Records, Space::Index];

/// Writes the same rows to both spaces.
async fn fill<H: Harness>(world: &World<H>, rows: &[Row]) {
    let put = |row: &Row| {
        let entry = IndexChange::Put { key: row.key.clone(), value: row.value.clone() };
        let change = Change { value: ValueChange::Put(row.value.clone()), index: vec![entry] };
        (row.key.to_vec(), Step::Make(change))
    };
    for rows in rows.chunks(4_096) {
        world.steps(rows.iter().map(put).collect()).await;
    }
}

fn numbered(rows: u32) -> Vec<Row> {
    (0..rows).map(|number| row(format!("key {number:06}"), format!("{number}"))).collect()
}

fn keys(page: &Page) -> Vec<&str> {
    page.rows.iter().map(|row| std::str::from_utf8(&row.key).expect("as written")).collect()
}

/// Where the page after `page` starts.
fn next_start(page: &Page) -> Bytes {
    let last = page.rows.last().expect("a page that says there is more has a row");
    [&last.key[..], b"\0"].concat().into()
}

async fn an_empty_space_has_no_rows<H: Harness>(world: World<H>) {
    for space in SPACES {
        assert_eq!(world.page(whole(space)).await, Page::default());
    }
}

async fn a_range_begins_at_its_start_and_ends_before_its_end<H: Harness>(world: World<H>) {
    let all = ["a", "b", "b\0", "ba", "c", "d"];
    fill(&world, &all.map(|key| row(key, key))).await;
    let cases: [(&str, &str, &[&str]); 9] = [
        ("", "", &all),
        ("b", "", &["b", "b\0", "ba", "c", "d"]),
        ("", "b", &["a"]),
        ("b", "c", &["b", "b\0", "ba"]),
        ("b\0", "bb", &["b\0", "ba"]),
        ("b", "b\0", &["b"]),
        ("aa", "az", &[]),
        ("b", "b", &[]),
        ("e", "", &[]),
    ];
    for space in SPACES {
        for (start, end, expected) in cases {
            let page = world.page(Scan { start: start.into(), end: end.into(), ..whole(space) });
            let page = page.await;
            assert_eq!(keys(&page), expected, "{space:?} from {start:?} to {end:?}");
            assert!(!page.more, "{space:?} from {start:?} to {end:?} ends there");
        }
    }
}

async fn a_range_that_ends_before_it_starts_is_empty<H: Harness>(world: World<H>) {
    fill(&world, &numbered(3)).await;
    for space in SPACES {
        let scan = Scan { start: "z".into(), end: "a".into(), ..whole(space) };
        assert_eq!(world.page(scan).await, Page::default());
    }
}

async fn a_page_has_no_more_rows_than_its_limit<H: Harness>(world: World<H>) {
    let rows = numbered(10);
    fill(&world, &rows).await;
    for space in SPACES {
        for limit in 1..=11 {
            let page = world.page(Scan { limit, ..whole(space) }).await;
            assert_eq!(page.rows, rows[..limit.min(10)], "{space:?}, limit {limit}");
            assert_eq!(page.more, limit < 10, "{space:?}, limit {limit}: whether there is more");
        }
        // What lies beyond the end of the range is not more of it.
        let scan = Scan { end: rows[5].key.clone(), limit: 5, ..whole(space) };
        assert_eq!(world.page(scan).await, Page { rows: rows[..5].to_vec(), more: false });
    }
}

async fn a_page_has_no_more_bytes_than_its_limit<H: Harness>(world: World<H>) {
    // 100 bytes each: 4 of the key, 96 of the value.
    let rows: Vec<Row> = (0..10).map(|n| row(format!("{n:04}"), vec![b'v'; 96])).collect();
    fill(&world, &rows).await;
    for space in SPACES {
        for (max_bytes, expected) in
            [(100, 1), (199, 1), (200, 2), (201, 2), (999, 9), (1_000, 10), (1_001, 10)]
        {
            let page = world.page(Scan { max_bytes, ..whole(space) }).await;
            assert_eq!(page.rows, rows[..expected], "{space:?}, at most {max_bytes} bytes");
            assert_eq!(page.more, expected < 10, "{space:?}, at most {max_bytes} bytes: more");
        }
    }
}

async fn one_row_is_given_whatever_it_weighs<H: Harness>(world: World<H>) {
    let rows = [row("a", vec![b'v'; 2_000]), row("b", vec![b'v'; 2_000])];
    fill(&world, &rows).await;
    for space in SPACES {
        for max_bytes in [0, 1, 1_999] {
            let page = world.page(Scan { max_bytes, ..whole(space) }).await;
            assert_eq!(page, Page { rows: rows[..1].to_vec(), more: true });
        }
    }
}

async fn pages_visit_every_row_once<H: Harness>(world: World<H>) {
    let mut rows = numbered(100);
    // Where a page may end between two keys of which one begins the other.
    rows.extend(["key 000050\0", "key 000050\0\0", "key 0000500"].map(|key| row(key, key)));
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    fill(&world, &rows).await;
    for space in SPACES {
        for limit in [1, 7, 51, 52, 53, 103] {
            let mut found = Vec::new();
            let mut scan = Scan { limit, ..whole(space) };
            loop {
                let page = world.page(scan.clone()).await;
                found.extend_from_slice(&page.rows);
                if !page.more {
                    break;
                }
                assert!(found.len() <= rows.len(), "{space:?} in pages of {limit} never ends");
                scan.start = next_start(&page);
            }
            assert_eq!(found, rows, "{space:?} in pages of {limit}");
        }
    }
}

async fn the_largest_page_goes_on_in_the_next<H: Harness>(world: World<H>) {
    let rows = numbered(10_100);
    fill(&world, &rows).await;
    for space in SPACES {
        let first = world.page(whole(space)).await;
        assert_eq!(first.rows.len(), 10_000);
        assert!(first.more);
        let second = world.page(Scan { start: next_start(&first), ..whole(space) }).await;
        assert!(!second.more);
        assert!([first.rows, second.rows].concat() == rows, "two pages of {space:?}");
    }
}

/// What a sweeper does: it deletes most of a page, then asks for the next one.
async fn rows_may_be_deleted_while_paging<H: Harness>(world: World<H>) {
    let rows = numbered(100);
    fill(&world, &rows).await;
    let mut visited = Vec::new();
    let mut scan = Scan { limit: 9, ..whole(Space::Records) };
    loop {
        let page = world.page(scan.clone()).await;
        let deletes = page.rows.iter().filter(|row| !row.key.ends_with(b"0")).map(|row| {
            let index = vec![IndexChange::Delete { key: row.key.clone() }];
            let change = Change { value: ValueChange::Delete, index };
            (row.key.to_vec(), Step::Make(change))
        });
        world.steps(deletes.collect()).await;
        visited.extend_from_slice(&page.rows);
        if !page.more {
            break;
        }
        assert!(visited.len() <= rows.len(), "the paging never ends");
        scan.start = next_start(&page);
    }
    assert_eq!(visited, rows, "every row was visited once");
    let left: Vec<Row> = rows.into_iter().filter(|row| row.key.ends_with(b"0")).collect();
    for space in SPACES {
        assert_eq!(world.rows(space).await, left, "what was not deleted is left in {space:?}");
    }
}

async fn a_scan_sees_every_change_that_was_answered<H: Harness>(world: World<H>) {
    let rows = numbered(200);
    for (count, row) in (1..).zip(&rows) {
        fill(&world, std::slice::from_ref(row)).await;
        for space in SPACES {
            assert_eq!(world.rows(space).await, rows[..count], "after {count} changes");
        }
    }
}
