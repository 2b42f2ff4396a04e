//! The watches that the cluster holds for this node.
//!
//! Invariant: a record has one at the most, and one that is not wanted any more is cancelled by being
//! dropped.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures::future::{AbortHandle, Abortable};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

/// A watch of the cluster: it ends when the record changed, or with `false` if the cluster gave it up.
pub(crate) type Watching = Pin<Box<dyn Future<Output = bool> + Send>>;
type Ending = Pin<Box<dyn Future<Output = Option<Ended>> + Send>>;

/// A watch that ended.
pub(crate) struct Ended {
    pub(crate) key: Arc<[u8]>,
    /// Whether its record changed; if not, the cluster gave the watch up.
    pub(crate) changed: bool,
}

/// All watches.
#[derive(Default)]
pub(crate) struct Armed {
    ends: FuturesUnordered<Ending>,
    of: HashMap<Arc<[u8]>, Held>,
}

struct Held {
    drop: AbortHandle,
    /// Whether its record is to be looked at once more: it may have changed before the watch was armed.
    is_new: bool,
}

impl Armed {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.of.contains_key(key)
    }

    /// Takes a watch of a record that has none.
    pub(crate) fn insert(&mut self, key: Arc<[u8]>, watching: Watching) {
        let (drop, registration) = AbortHandle::new_pair();
        let watching = Abortable::new(watching, registration);
        self.of.insert(Arc::clone(&key), Held { drop, is_new: true });
        self.ends.push(Box::pin(async move {
            watching.await.ok().map(|changed| Ended { key, changed })
        }));
    }

    /// Drops the watches that are not wanted any more.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&[u8]) -> bool) {
        self.of.retain(|key, held| {
            let stays = is_wanted(key);
            if !stays {
                held.drop.abort();
            }
            stays
        });
    }

    /// Whether the record of `key` is still to be looked at once more; that is said once.
    pub(crate) fn take_new(&mut self, key: &[u8]) -> bool {
        self.of.get_mut(key).is_some_and(|held| std::mem::take(&mut held.is_new))
    }

    /// Waits for the next watch to end, and takes with it those that ended, too.
    pub(crate) async fn ended(&mut self) -> Vec<Ended> {
        let mut all = Vec::new();
        loop {
            let next = if all.is_empty() {
                if self.ends.is_empty() {
                    std::future::pending::<()>().await;
                }
                self.ends.next().await
            } else {
                self.ends.next().now_or_never().flatten()
            };
            match next {
                Some(Some(ended)) => {
                    self.of.remove(&ended.key);
                    all.push(ended);
                }
                // One that was dropped.
                Some(None) => {}
                None if all.is_empty() => {}
                None => return all,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::oneshot;

    use super::*;

    fn watch(armed: &mut Armed, key: &str) -> oneshot::Sender<()> {
        let (change, changed) = oneshot::channel();
        let watching = async { changed.await.is_ok() };
        armed.insert(key.as_bytes().into(), Box::pin(watching));
        change
    }

    #[tokio::test]
    async fn watches_end_once_and_are_dropped_when_nobody_wants_them() {
        let mut armed = Armed::default();
        let changes = ["a", "b", "c", "d"].map(|key| watch(&mut armed, key));
        assert!(armed.ended().now_or_never().is_none());
        let [a, b, c, d] = changes;
        armed.retain(|key| key != b"d");
        assert_eq!(armed.len(), 3);
        a.send(()).unwrap();
        drop(b);
        let mut ended = armed.ended().await;
        ended.sort_by(|one, other| one.key.cmp(&other.key));
        let ended: Vec<_> = ended.iter().map(|it| (&*it.key, it.changed)).collect();
        assert_eq!(ended, [(&b"a"[..], true), (b"b", false)]);
        assert!(d.is_canceled(), "the watch of d is gone");
        assert!(!armed.contains(b"a") && armed.contains(b"c"));
        assert!(armed.take_new(b"c") && !armed.take_new(b"c"));
        assert!(armed.ended().now_or_never().is_none());
        c.send(()).unwrap();
        assert_eq!(armed.ended().await.len(), 1);
        assert_eq!(armed.len(), 0);
    }
}
