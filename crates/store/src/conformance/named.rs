//! A store that knows its name.

use crate::contract::{Page, Scan, Store, StoreError, Transition, Update};
use crate::watch::Watch;

/// A store under check with the name by which a [`Harness`](super::Harness) opens it again, where one server holds many.
#[derive(Debug)]
pub struct Named<S> {
    /// The store.
    pub store: S,
    /// Its name.
    pub name: String,
}

impl<S: Store> Store for Named<S> {
    async fn update<T: Transition>(
        &self,
        batch: Vec<Update<T>>,
    ) -> Vec<Result<T::Outcome, StoreError>> {
        self.store.update(batch).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.store.scan(scan).await
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.store.watch(key)
    }
}
