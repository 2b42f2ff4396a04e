//! A retry or hedge that was paid for. What it was paid with goes back if it is not sent: the retry into its
//! root, and the token into its lease or to the node that granted it.

use std::time::Duration;

use tower::{Service, ServiceExt};

use crate::failure::Classify;
use crate::layers::{BoxError, Ending, outcome_of};
use crate::root::Root;
use crate::tokens::{Budget, Granted, Token};

/// The right to send a call again, after a wait.
pub(crate) struct Grant {
    pub(super) wait: Duration,
    price: Price,
}

/// What was paid.
#[derive(Default)]
struct Price {
    root: Option<Root>,
    token: Option<(Budget, Payment)>,
}

/// Where the token comes from.
pub(super) enum Payment {
    InHand(Token),
    OfNode(Granted),
}

impl Grant {
    /// Takes a retry out of `root`, if there is a root; no token yet. `None`: it has none left.
    pub(super) fn of(root: Option<&Root>) -> Option<Self> {
        if root.is_some_and(|root| !root.take_one()) {
            return None;
        }
        let price = Price { root: root.cloned(), token: None };
        Some(Self { wait: Duration::ZERO, price })
    }

    /// Pays with a token: the call may be sent after `wait`.
    pub(super) fn paid(mut self, budget: &Budget, payment: Payment, wait: Duration) -> Self {
        self.price.token = Some((budget.clone(), payment));
        self.wait = wait;
        self
    }

    /// Sends the call. It is paid for once the service has it, unless a layer below refuses it.
    pub(crate) async fn send<S, R, P>(
        mut self,
        service: &mut S,
        request: R,
        protocol: &P,
    ) -> Result<S::Response, BoxError>
    where
        S: Service<R>,
        S::Error: Into<BoxError>,
        P: Classify<S::Response>,
    {
        let service = service.ready().await.map_err(Into::into)?;
        let sending = service.call(request);
        let price = std::mem::take(&mut self.price);
        let result = sending.await.map_err(Into::into);
        if matches!(outcome_of(protocol, &result), Some(Ending::Refused(_))) {
            price.give_back();
        }
        result
    }
}

impl Price {
    fn give_back(self) {
        if let Some(root) = self.root {
            root.put_back(1);
        }
        match self.token {
            None => {}
            Some((budget, Payment::InHand(token))) => budget.put_back(token),
            Some((budget, Payment::OfNode(granted))) => budget.give_back(granted),
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        std::mem::take(&mut self.price).give_back();
    }
}
