//! Opening: the directory of the store, the version of what is in it, and the newest time that was
//! given.

use foundationdb::directory::{Directory, DirectoryError, DirectoryLayer};
use foundationdb::{Database, Transaction};

use super::failure::{Failure, again};
use super::heartbeat::read_range;
use super::shared::transaction;
use crate::attempt::Marker;
use crate::error::OpenError;
use crate::fleet::Stamp;
use crate::layout::{Layout, VERSION};
use crate::meaning::{Meaning, Phase};
use crate::options::FdbOptions;

/// The first part of the path of all stores, and the layer that owns them.
const OWNER: &str = "semel";

/// What was found when a store was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) layout: Layout,
    /// The newest time that any node gave, or more.
    pub(crate) newest_us: u64,
}

/// Finds the store that the options name, or makes it.
pub(crate) async fn open(database: &Database, options: &FdbOptions) -> Result<Opened, OpenError> {
    let within = std::time::Duration::from_millis(options.connect_timeout_ms);
    let of_failure = |failure: Failure| match failure.meaning {
        Meaning::Invalid => OpenError::Unreadable {
            name: options.name.clone(),
            reason: failure.into_store_error().to_string(),
        },
        _ => OpenError::Unreachable(failure.into_store_error().to_string()),
    };
    let mut attempt = transaction(database, within).map_err(of_failure)?;
    loop {
        match find(&attempt, options).await {
            Ok(Ok(opened)) => {
                let Err(error) = attempt.commit().await else { return Ok(opened) };
                // Whatever a lost answer hides, the next try does the same.
                let failure = Failure::new(*error, Phase::Read);
                attempt = match failure.meaning {
                    Meaning::Again | Meaning::Busy => error.on_error().await.map_err(Failure::from),
                    _ => Err(failure),
                }
                .map_err(of_failure)?;
            }
            Ok(Err(refused)) => return Err(refused),
            Err(failure) => attempt = again(attempt, failure).await.map_err(of_failure)?,
        }
    }
}

async fn find(
    transaction: &Transaction,
    options: &FdbOptions,
) -> Result<Result<Opened, OpenError>, Failure> {
    let path = [OWNER.to_owned(), options.name.clone()];
    let directory = DirectoryLayer::default();
    let found = directory.create_or_open(transaction, &path, None, Some(OWNER.as_bytes())).await;
    let found = found.map_err(of_directory)?;
    let layout = Layout::new(found.bytes().map_err(of_directory)?);
    let key = layout.version();
    match transaction.get(&key, false).await? {
        None => transaction.set(&key, &VERSION.to_le_bytes()),
        Some(stored) => {
            let unreadable =
                |_| Failure::invalid("the version of the store can't be read".to_owned());
            let found = u32::from_le_bytes((*stored).try_into().map_err(unreadable)?);
            if found > VERSION {
                let name = options.name.clone();
                return Ok(Err(OpenError::Newer { name, found, known: VERSION }));
            }
        }
    }
    let mut newest_us = 0;
    for (_, stored) in read_range(transaction, layout.stamps()).await? {
        newest_us = newest_us.max(Stamp::decode(&stored).map_err(Failure::invalid)?.newest_us);
    }
    for (_, stored) in read_range(transaction, layout.markers()).await? {
        if let Marker::Committed(given_us) = Marker::decode(&stored).map_err(Failure::invalid)? {
            newest_us = newest_us.max(given_us);
        }
    }
    Ok(Ok(Opened { layout, newest_us }))
}

fn of_directory(error: DirectoryError) -> Failure {
    use foundationdb::tuple::hca::HcaError;
    match error {
        DirectoryError::FdbError(error) | DirectoryError::HcaError(HcaError::FdbError(error)) => {
            error.into()
        }
        other => Failure::invalid(format!("its directory: {other:?}")),
    }
}
