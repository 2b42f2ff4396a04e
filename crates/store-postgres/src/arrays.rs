//! The records of a write as arrays of the database, and what its answer says of each.

use semel_store::IndexChange;
use semel_store::optimistic::{Decision, Lost, Write};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::Failure;
use crate::statements::Shape;

type Slices<'a> = Vec<&'a [u8]>;
type Values<'a> = Vec<Option<&'a [u8]>>;

/// The parameters of a write, in the order of the keys.
#[derive(Default)]
pub(crate) struct Arrays<'a> {
    pub(crate) shape: Shape,
    inserts: (Slices<'a>, Values<'a>),
    updates: (Slices<'a>, Vec<i64>, Values<'a>),
    deletes: (Slices<'a>, Vec<i64>),
    /// The keys of updates and deletes.
    locked: Slices<'a>,
    /// Records, entries, and what these become.
    entries: (Slices<'a>, Slices<'a>, Values<'a>),
    /// The places of the decisions in inserts, updates and deletes.
    places: [Vec<usize>; 3],
}

impl<'a> Arrays<'a> {
    pub(crate) fn new(decisions: &'a [Decision]) -> Self {
        let mut arrays = Self::default();
        let mut index = Vec::new();
        for (place, decision) in decisions.iter().enumerate() {
            arrays.add(place, decision);
            index.extend(decision.index.iter().map(|(item, entry)| (*item, &*decision.key, entry)));
        }
        // A stable sort: the entries of one item stay in their order.
        index.sort_by_key(|(item, ..)| *item);
        for (_, owner, entry) in index {
            arrays.add_entry(owner, entry);
        }
        arrays.shape.inserts = !arrays.inserts.0.is_empty();
        arrays.shape.updates = !arrays.updates.0.is_empty();
        arrays.shape.deletes = !arrays.deletes.0.is_empty();
        arrays
    }

    fn add(&mut self, place: usize, decision: &'a Decision) {
        let (key, value) = (&*decision.key, decision.value.as_deref());
        let [inserts, updates, deletes] = &mut self.places;
        match decision.write {
            Write::Nothing => {}
            Write::Insert => {
                self.inserts.0.push(key);
                self.inserts.1.push(value);
                inserts.push(place);
            }
            Write::Update(version) => {
                self.updates.0.push(key);
                self.updates.1.push(version);
                self.updates.2.push(value);
                self.locked.push(key);
                updates.push(place);
            }
            Write::Delete(version) => {
                self.deletes.0.push(key);
                self.deletes.1.push(version);
                self.locked.push(key);
                deletes.push(place);
            }
        }
    }

    fn add_entry(&mut self, owner: &'a [u8], entry: &'a IndexChange) {
        let (key, value) = match entry {
            IndexChange::Put { key, value } => (key, Some(&**value)),
            IndexChange::Delete { key } => (key, None),
        };
        self.shape.puts |= value.is_some();
        self.shape.removals |= value.is_none();
        self.entries.0.push(owner);
        self.entries.1.push(key);
        self.entries.2.push(value);
    }

    /// The parameters that [`statements::write`](crate::statements::write) names, after `head`.
    pub(crate) fn parameters<'b>(
        &'b self,
        head: [&'b (dyn ToSql + Sync); 4],
    ) -> Vec<&'b (dyn ToSql + Sync)> {
        let mut all = Vec::from(head);
        if self.shape.inserts {
            all.extend([&self.inserts.0 as &(dyn ToSql + Sync), &self.inserts.1]);
        }
        if self.shape.updates && self.shape.deletes {
            all.push(&self.locked);
        }
        if self.shape.updates {
            let (keys, versions, values) = &self.updates;
            all.extend([keys as &(dyn ToSql + Sync), versions, values]);
        }
        if self.shape.deletes {
            all.extend([&self.deletes.0 as &(dyn ToSql + Sync), &self.deletes.1]);
        }
        if self.shape.puts || self.shape.removals {
            let (owners, keys, values) = &self.entries;
            all.extend([owners as &(dyn ToSql + Sync), keys, values]);
        }
        all
    }

    /// For each decision its new version, or that somebody else wrote the record.
    pub(crate) fn results(
        &self,
        decisions: usize,
        base: i64,
        rows: &[Row],
    ) -> Result<Vec<Result<i64, Lost>>, Failure> {
        // The commit has happened; what it did can't be told.
        let unreadable =
            |what: String| Failure::Unknown(format!("the answer is not readable: {what}"));
        let row = rows.first().ok_or_else(|| unreadable("it has no row".to_owned()))?;
        let mut results = vec![Err(Lost::Again); decisions];
        for (column, places) in self.places.iter().enumerate() {
            let won: Option<Vec<i32>> =
                row.try_get(column).map_err(|error| unreadable(error.to_string()))?;
            for place in won.unwrap_or_default() {
                let nth = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                let result =
                    nth.and_then(|nth| places.get(nth)).and_then(|it| results.get_mut(*it));
                if let Some(result) = result {
                    *result = Ok(base.saturating_add(i64::from(place)));
                }
            }
        }
        Ok(results)
    }

    /// The keys of absent records for which a row stands in while their entries change.
    pub(crate) fn stand_ins(&self) -> Slices<'a> {
        let (keys, values) = &self.inserts;
        let stands_in = keys.iter().zip(values).filter(|(_, value)| value.is_none());
        stands_in.map(|(key, _)| *key).collect()
    }
}
