//! The payment provider: slow, and it charges as often as it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::timeline::{Party, Timeline};
use crate::output::CAUTION;

const CHARGE_TAKES: Duration = Duration::from_millis(1_500);

/// Somebody else's API: takes 1,500 ms for a charge, and takes no idempotency key.
#[derive(Clone)]
pub(crate) struct Provider {
    charges: Arc<AtomicU32>,
    timeline: Timeline,
}

impl Provider {
    /// A provider that has charged nothing yet.
    pub(crate) fn new(timeline: Timeline) -> Self {
        Self { charges: Arc::default(), timeline }
    }

    /// Charges the card, and returns the number of the charge.
    pub(crate) async fn charge(&self) -> u32 {
        sleep(CHARGE_TAKES).await;
        let number = self.charges.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("the card is charged: charge {number}");
        self.timeline.say(Party::Provider, CAUTION, text).await;
        number
    }

    /// How often it charged.
    pub(crate) fn charges(&self) -> u32 {
        self.charges.load(Ordering::Relaxed)
    }
}
