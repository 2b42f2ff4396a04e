//! Settings of the database that would let acknowledged changes be lost.

use crate::error::Failure;
use crate::session::Duty;
use crate::shared::Shared;

/// Of those that replicate, logical subscribers are not counted, since nobody fails over to one, nor
/// backups under way. A role without `pg_read_all_stats` sees no states: to it, a backup is a standby while
/// it lasts, rather than a standby nothing.
const SETTINGS: &str = "\
SELECT current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication AS sender
        WHERE state IS DISTINCT FROM 'backup' AND NOT EXISTS (
            SELECT FROM pg_replication_slots AS slot
            WHERE slot.active_pid = sender.pid AND slot.slot_type = 'logical'))";

/// Sentences for the operator, none if all is well.
pub(crate) async fn find(shared: &Shared) -> Result<Vec<String>, Failure> {
    let (_, session) = shared.session(Duty::Synced).await?;
    let rows = session.query_once(SETTINGS).await?;
    let wrong = |error: tokio_postgres::Error| Failure::Invalid(error.to_string());
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let text = |column: usize| row.try_get::<_, &str>(column).map_err(wrong);
    let standbys: i64 = row.try_get(4).map_err(wrong)?;
    let mut warnings = Vec::new();
    if text(0)? == "off" {
        warnings.push(
            "fsync is off: a crash of the database's machine can lose or damage everything, claims \
             that were acknowledged with it"
                .to_owned(),
        );
    }
    if text(1)? == "off" {
        warnings.push(
            "full_page_writes is off: a crash of the database's machine can damage pages that were \
             being written"
                .to_owned(),
        );
    }
    if text(2)? == "off" {
        warnings.push(
            "synchronous_commit is off for this role: Semel switches it on for its own commits, but \
             whatever else the role writes can be lost in a crash"
                .to_owned(),
        );
    }
    if standbys > 0 && text(3)?.trim().is_empty() {
        warnings.push(format!(
            "synchronous_standby_names is empty while this database replicates ({standbys} standbys): a \
             failover can lose the last commits that were acknowledged, and a key that was completed \
             runs again; name the standbys that may take over"
        ));
    }
    Ok(warnings)
}
