//! Streams of changes: pushed as they come, never polled.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use semel_proto::v1;
use semel_store::Store;
use tonic::Status;

use super::shared::Breakers;
use super::view::View;
use super::{parse, reply};
use crate::refusal::{Reason, Refusal};

/// Changes on their way to a watcher.
pub(super) type Changes =
    Pin<Box<dyn Stream<Item = Result<v1::WatchBreakersResponse, Status>> + Send>>;

/// How long who is turned away should stay away.
const COME_BACK_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// The state of some breakers now, and from then on each change, until the node closes.
pub(super) async fn watch<S: Store>(
    shared: Arc<Breakers<S>>,
    request: &v1::WatchBreakersRequest,
) -> Result<Changes, Refusal> {
    let watched = parse::watched(request)?;
    let place = Arc::clone(&shared.watchers).try_acquire_owned().map_err(|_| watchers_full())?;
    let views = watched.iter().map(|of| shared.view(of)).collect::<Result<Vec<_>, _>>()?;
    shared.know_all(&views).await?;
    let changes = views.iter().map(|view| {
        let changed = Arc::clone(view);
        view.changes().map(move |()| vec![Arc::clone(&changed)]).boxed()
    });
    let changes = stream::select_all(changes.collect::<Vec<_>>());
    // Whether this still is what the store has, concerns all of them.
    let reach = stream::unfold((shared.watch_reach(), views), async |(mut watch, views)| {
        watch.changed().await;
        Some((views.clone(), (watch, views)))
    });
    let closing = shared.closing.clone().cancelled_owned();
    let told = stream::select(changes, Box::pin(reach))
        .flat_map(stream::iter)
        .map(move |view| {
            let _place = &place;
            Ok(tell(&shared, &view))
        })
        .take_until(closing);
    let end = stream::once(async { Err(Status::from(Refusal::shutting_down())) });
    Ok(Box::pin(told.chain(end)))
}

fn tell<S: Store>(shared: &Breakers<S>, view: &View) -> v1::WatchBreakersResponse {
    let breaker = reply::breaker(&view.of, &view.snapshot(shared.now()));
    v1::WatchBreakersResponse { breaker: Some(breaker), degraded: shared.is_degraded() }
}

fn watchers_full() -> Refusal {
    let message = "this node has as many watchers as it takes: ask another, or ask for the state";
    Refusal::new(Reason::WatchersFull, message).retry_after(COME_BACK_AFTER)
}
