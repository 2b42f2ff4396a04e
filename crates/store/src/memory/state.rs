//! The records, the index, and what a crash would take away from them.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::contract::{
    Change, Durability, IndexChange, Page, Row, Scan, Space, StoreError, Transition, Update,
    ValueChange,
};
use crate::limits;

/// All that the engine holds, behind one mutex.
#[derive(Debug, Default)]
pub(super) struct State {
    records: Table,
    index: Table,
    now_us: u64,
    crashes: u64,
}

impl State {
    /// Lets the store's time follow `clock_us`, which may have gone back, and returns it.
    pub(super) fn tick(&mut self, clock_us: u64) -> u64 {
        self.now_us = self.now_us.max(clock_us);
        self.now_us
    }

    /// Runs a transition and throws away what it asked for, as an engine does after a conflict.
    pub(super) fn rehearse<T: Transition>(&self, update: &Update<T>) {
        drop(update.transition.apply(self.records.get(&update.key), self.now_us));
    }

    /// Runs a transition and commits its change. Whether the record was written goes to `written`.
    pub(super) fn commit<T: Transition>(
        &mut self,
        update: &Update<T>,
        written: &mut Vec<Bytes>,
    ) -> Result<T::Outcome, StoreError> {
        limits::check_key(&update.key)?;
        let (change, outcome) = update.transition.apply(self.records.get(&update.key), self.now_us);
        limits::check_change(&change)?;
        if change.value != ValueChange::Keep {
            written.push(update.key.clone());
        }
        self.write(&update.key, change);
        // Also when the record was kept: a synced read waits for what it saw.
        if update.durability == Durability::Synced {
            self.records.sync();
            self.index.sync();
        }
        Ok(outcome)
    }

    fn write(&mut self, key: &Bytes, change: Change) {
        match change.value {
            ValueChange::Keep => {}
            ValueChange::Put(value) => self.records.set(key.clone(), Some(value)),
            ValueChange::Delete => self.records.set(key.clone(), None),
        }
        for entry in change.index {
            match entry {
                IndexChange::Put { key, value } => self.index.set(key, Some(value)),
                IndexChange::Delete { key } => self.index.set(key, None),
            }
        }
    }

    /// Goes back to the last sync if `lose_relaxed`, and loses every answer still on its way.
    pub(super) fn crash(&mut self, lose_relaxed: bool) {
        self.crashes += 1;
        if lose_relaxed {
            self.records.restore();
            self.index.restore();
        }
    }

    /// How often the store crashed: an answer from before a crash is lost.
    pub(super) fn crashes(&self) -> u64 {
        self.crashes
    }

    pub(super) fn scan(&self, scan: &Scan) -> Page {
        match scan.space {
            Space::Records => self.records.scan(scan),
            Space::Index => self.index.scan(scan),
        }
    }
}

/// One ordered space.
#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<Bytes, Bytes>,
    /// The rows that were changed since the last sync, as they were then.
    synced: BTreeMap<Bytes, Option<Bytes>>,
}

impl Table {
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.rows.get(key).map(AsRef::as_ref)
    }

    fn set(&mut self, key: Bytes, value: Option<Bytes>) {
        let old = match value {
            Some(value) => self.rows.insert(key.clone(), value),
            None => self.rows.remove(&key),
        };
        self.synced.entry(key).or_insert(old);
    }

    fn sync(&mut self) {
        self.synced.clear();
    }

    fn restore(&mut self) {
        for (key, value) in std::mem::take(&mut self.synced) {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }

    fn scan(&self, scan: &Scan) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        // No upper bound here: a range whose end lies before its start is empty, not an error.
        for (key, value) in
            self.rows.range::<[u8], _>((Bound::Included(&*scan.start), Bound::Unbounded))
        {
            if !scan.end.is_empty() && *key >= scan.end {
                break;
            }
            bytes += key.len() + value.len();
            let full = page.rows.len() == scan.limit || bytes > scan.max_bytes;
            if full && !page.rows.is_empty() {
                page.more = true;
                break;
            }
            page.rows.push(Row { key: key.clone(), value: value.clone() });
        }
        page
    }
}
