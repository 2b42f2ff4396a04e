//! The SQL of the engine. Every statement is prepared once per connection.
//!
//! # The write
//!
//! One statement is one implicit transaction, so nothing is held open while a node thinks. Its parts
//! run in one order, since each asks for the count of the one before it:
//!
//! 1. records that were absent are inserted; one that is there by now has won, and stays;
//! 2. if the batch both updates and deletes, the rows of both are locked in the order of their keys;
//! 3. updates, then deletes, each only where the version is still the one that was read;
//! 4. index entries whose record was written in this statement;
//! 5. the newest time.
//!
//! At READ COMMITTED, an update that meets a row changed since the statement's snapshot waits for
//! the other transaction, then looks at the newest row and compares the version again: so a row is
//! written only over the version that its transition saw.
//!
//! # Why there is no deadlock between such writes
//!
//! Each part takes its rows in the order of their keys: the arrays are sorted, and joins that would
//! lose that order are switched off for the session. Within one part nobody waits in a circle, then.
//! Across parts: an insert waits for whoever inserted, changes or deletes the same key; a change never
//! waits for an insert, because it doesn't see the row of an insert that is not committed. Updates and
//! deletes are in one order by part 2. Entries belong to a record in practice, and whoever lost the
//! record touches none of its entries; should two records share entries in opposite orders, the
//! database ends one of the writes (40P01) and it is run again.

use std::fmt::Write;

/// Reads the records of the keys `$1`: first a row with the clock as its version, then one row for
/// each record that exists, with the place of its key.
///
/// The subquery is fenced (`OFFSET 0`), so that it is one look-up in the primary key for each key,
/// whatever the statistics say.
pub(crate) const READ: &str = "\
SELECT 0::bigint AS place, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS version,
       false AS relaxed, NULL::bytea AS value
UNION ALL
SELECT wanted.place, found.version, found.relaxed, found.value
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (key, place),
     LATERAL (SELECT version, relaxed, value FROM records WHERE key = wanted.key OFFSET 0) AS found";

/// The versions of those of the keys `$1` that have a record.
pub(crate) const VERSIONS: &str = "\
SELECT wanted.place, found.version
FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (key, place),
     LATERAL (SELECT version FROM records WHERE key = wanted.key AND value IS NOT NULL OFFSET 0)
         AS found";

/// Limits what follows on this connection to `$1` milliseconds for a statement and `$2` for a lock.
pub(crate) const LIMIT: &str = "\
SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false)";

/// Writes a little and commits: all commits before it are on disk once it is answered.
pub(crate) const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'semel', '')";

/// Removes the records that stood for absent ones while their entries changed.
pub(crate) const SWEEP: &str = "DELETE FROM records WHERE key = ANY ($1::bytea[]) AND version BETWEEN $2 AND $3 AND value IS NULL";

/// Announces a payload `$2` on the channel `$1`.
pub(crate) const ANNOUNCE: &str = "SELECT pg_notify($1, $2)";

/// The newest time that a commit was given.
pub(crate) const LATEST: &str = "SELECT coalesce(max(now_us), 0) FROM times";

/// Reads a slice of a range: from `$1` to before `$2` (empty: no end), at most `$3` rows. The value is
/// NULL in the row that no longer fits the `$4` bytes, unless it is the first and `$5` says that one
/// row must be given. Lengths are known without reading large values.
pub(crate) fn scan(table: &str) -> String {
    format!(
        "\
SELECT key, CASE WHEN total <= $4 OR (place = 1 AND $5) THEN value END AS value
FROM (
    SELECT key, value, row_number() OVER running AS place,
           octet_length(key) + octet_length(value) AS own,
           sum(octet_length(key) + octet_length(value)) OVER running AS total
    FROM (
        SELECT key, value FROM {table}
        WHERE key >= $1 AND ($2 = ''::bytea OR key < $2) AND value IS NOT NULL
        ORDER BY key LIMIT $3::bigint
    ) AS slice
    WINDOW running AS (ORDER BY key ROWS UNBOUNDED PRECEDING)
) AS summed
WHERE place <= 2 OR total - own <= $4
ORDER BY key"
    )
}

/// Which parts a write has. A part that is not needed is left out, since it would be planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) inserts: bool,
    pub(crate) updates: bool,
    pub(crate) deletes: bool,
    pub(crate) puts: bool,
    pub(crate) removals: bool,
}

/// The statement that writes. Parameters: the number before the new versions, whether it is relaxed, the slot of the
/// times, the time; then, for each part that the shape has: keys and values of inserts; keys, versions
/// and values (NULL: as it is) of updates; keys and versions of deletes; with both of them, the keys of
/// both; keys of records, keys of entries, and values (NULL: remove) of index changes, in the order of
/// the batch. It returns one row with the places, in their arrays, of the records that were inserted,
/// updated and deleted: so little that a node which is stopped at this moment keeps no transaction
/// waiting for room in its socket.
pub(crate) fn write(shape: Shape) -> String {
    let mut sql = Sql { text: String::new(), parameters: 4, before: None, won: Vec::new() };
    if shape.inserts {
        sql.inserts();
    }
    if shape.updates && shape.deletes {
        sql.locks();
    }
    if shape.updates {
        sql.updates();
    }
    if shape.deletes {
        sql.deletes();
    }
    let union = sql.won.iter().map(|part| format!("SELECT key FROM {part}"));
    let union = union.collect::<Vec<_>>().join(" UNION ALL ");
    sql.part("won", "MATERIALIZED ", &union);
    if shape.puts || shape.removals {
        sql.entries(shape);
    }
    // Every shape names the first parameters, so that their types are known.
    sql.part(
        "noted",
        "",
        "UPDATE times SET now_us = greatest(now_us, $4) WHERE slot = $3
         AND EXISTS (SELECT FROM won) AND $1::bigint IS NOT NULL AND $2::boolean IS NOT NULL",
    );
    let places = ["inserted", "updated", "deleted"].map(|part| {
        if sql.won.contains(&part) {
            format!("(SELECT array_agg(place::integer) FROM {part})")
        } else {
            "NULL::integer[]".to_owned()
        }
    });
    format!("WITH {}\nSELECT {}", sql.text, places.join(", "))
}

struct Sql {
    text: String,
    /// How many parameters are taken.
    parameters: usize,
    /// The part that must be done before the next one begins.
    before: Option<&'static str>,
    /// The parts that return the keys of written records.
    won: Vec<&'static str>,
}

impl Sql {
    fn part(&mut self, name: &str, hint: &str, query: &str) {
        let comma = if self.text.is_empty() { "" } else { ",\n" };
        // Writing to a string can't fail.
        let _ = write!(self.text, "{comma}{name} AS {hint}({query})");
    }

    fn take<const N: usize>(&mut self) -> [usize; N] {
        let first = self.parameters + 1;
        self.parameters += N;
        std::array::from_fn(|place| first + place)
    }

    /// A condition that is true once the part before is done.
    fn after(&self) -> String {
        self.before.map_or("true".to_owned(), |part| format!("(SELECT count(*) FROM {part}) >= 0"))
    }

    fn inserts(&mut self) {
        let [keys, values] = self.take();
        self.part(
            "inserted",
            "",
            &format!(
                "INSERT INTO records (key, value, version, relaxed)
                 SELECT key, value, $1 + place, $2
                 FROM unnest(${keys}::bytea[], ${values}::bytea[])
                     WITH ORDINALITY AS new (key, value, place)
                 ON CONFLICT (key) DO NOTHING RETURNING key, version - $1 AS place"
            ),
        );
        self.done("inserted", true);
    }

    fn locks(&mut self) {
        let [keys] = self.take();
        let after = self.after();
        self.part(
            "locked",
            "MATERIALIZED ",
            &format!(
                "SELECT FROM unnest(${keys}::bytea[]) AS wanted (key)
                 JOIN records USING (key) WHERE {after} FOR UPDATE OF records"
            ),
        );
        self.done("locked", false);
    }

    fn updates(&mut self) {
        let [keys, versions, values] = self.take();
        let after = self.after();
        self.part(
            "updated",
            "",
            &format!(
                "UPDATE records AS it
                 SET value = coalesce(new.value, it.value), version = $1 + new.place, relaxed = $2
                 FROM unnest(${keys}::bytea[], ${versions}::bigint[], ${values}::bytea[])
                     WITH ORDINALITY AS new (key, version, value, place)
                 WHERE it.key = new.key AND it.version = new.version AND {after}
                 RETURNING it.key, new.place"
            ),
        );
        self.done("updated", true);
    }

    fn deletes(&mut self) {
        let [keys, versions] = self.take();
        let after = self.after();
        self.part(
            "deleted",
            "",
            &format!(
                "DELETE FROM records AS it
                 USING unnest(${keys}::bytea[], ${versions}::bigint[])
                     WITH ORDINALITY AS old (key, version, place)
                 WHERE it.key = old.key AND it.version = old.version AND {after}
                 RETURNING it.key, old.place"
            ),
        );
        self.done("deleted", true);
    }

    /// `IS TRUE` keeps the look-up of the record a hash table that is filled once.
    fn entries(&mut self, shape: Shape) {
        let [owners, keys, values] = self.take();
        self.part(
            "changed",
            "MATERIALIZED ",
            &format!(
                "SELECT DISTINCT ON (key) key, value
                 FROM unnest(${owners}::bytea[], ${keys}::bytea[], ${values}::bytea[])
                     WITH ORDINALITY AS change (owner, key, value, place)
                 WHERE (owner IN (SELECT key FROM won)) IS TRUE
                 ORDER BY key, place DESC"
            ),
        );
        if shape.puts {
            self.part(
                "put",
                "",
                "INSERT INTO entries (key, value)
                 SELECT key, value FROM changed WHERE value IS NOT NULL ORDER BY key
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            );
        }
        if shape.removals {
            self.part(
                "removed",
                "",
                "DELETE FROM entries AS it USING changed
                 WHERE it.key = changed.key AND changed.value IS NULL",
            );
        }
    }

    fn done(&mut self, part: &'static str, wins: bool) {
        self.before = Some(part);
        if wins {
            self.won.push(part);
        }
    }
}
