//! Settings of the database that would let acknowledged changes be lost.

use crate::error::Failure;
use crate::session::Duty;
use crate::shared::Shared;

const SETTINGS: &str = "\
SELECT current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication)";

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
            "{standbys} standbys replicate and synchronous_standby_names is empty: a failover to one \
             of them can lose commits that were acknowledged, and a key that was used may run again"
        ));
    }
    Ok(warnings)
}
