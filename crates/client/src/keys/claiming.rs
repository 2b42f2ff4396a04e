//! What can be chosen wherever something claims.

use std::time::{Duration, SystemTime};

use super::request::OnOwnerLost;

/// How keys are claimed, whichever they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claiming {
    pub(crate) lease: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) first_sent: Option<SystemTime>,
    pub(crate) on_owner_lost: OnOwnerLost,
    pub(crate) labels: Vec<(String, String)>,
}

/// The methods that choose these options of the [`Claiming`] at this place of `self`, so that each is written
/// and explained once.
macro_rules! claim_options {
    ($($place:ident).+: $($option:ident),+) => {
        $crate::keys::claim_options!(@each ($($place).+) $($option)+);
    };
    (@each $place:tt $option:ident $($others:ident)*) => {
        $crate::keys::claim_options!(@one $place $option);
        $crate::keys::claim_options!(@each $place $($others)*);
    };
    (@each $place:tt) => {};
    (@one ($($place:tt)+) lease) => {
        /// How long a claim holds without renewal, and so how long it outlives a process that is gone: clamped to
        /// 100 ms to 24 h. Default: 30 s. What does the work as well renews it meanwhile, so there it may be much
        /// shorter than the work.
        pub const fn lease(mut self, lease: Duration) -> Self {
            self.$($place)+.lease = Some(lease);
            self
        }
    };
    (@one ($($place:tt)+) retention) => {
        /// How long the answer is kept after completion: up to 30 days. The operation's policy (24 h by default)
        /// is the least, and the default. Of a queue's events it has to be longer than the queue may deliver
        /// them again.
        pub const fn retention(mut self, retention: Duration) -> Self {
            self.$($place)+.retention = Some(retention);
            self
        }
    };
    (@one ($($place:tt)+) wait) => {
        /// How long to wait for somebody else who is at it, to get the answer as soon as there is one: up to
        /// 24 h, and to the deadline. Default: not at all. Batches never wait.
        pub const fn wait(mut self, wait: Duration) -> Self {
            self.$($place)+.wait = wait;
            self
        }
    };
    (@one ($($place:tt)+) first_sent) => {
        /// When the intent was made, kept with it by whoever made it; never the time of this attempt. With it,
        /// an intent that is older than Semel's memory is refused rather than run a second time.
        pub const fn first_sent(mut self, first_sent: SystemTime) -> Self {
            self.$($place)+.first_sent = Some(first_sent);
            self
        }
    };
    (@one ($($place:tt)+) on_owner_lost) => {
        /// What happens to a key whose owner is lost midway. Default:
        /// [`Reconcile`](crate::keys::OnOwnerLost::Reconcile).
        pub const fn on_owner_lost(mut self, on_owner_lost: OnOwnerLost) -> Self {
            self.$($place)+.on_owner_lost = on_owner_lost;
            self
        }
    };
    (@one ($($place:tt)+) label) => {
        /// A label to find the key by: a name of 1 to 63 bytes, a value of at most 255; up to 16.
        pub fn label(mut self, name: &str, value: &str) -> Self {
            self.$($place)+.labels.push((name.to_owned(), value.to_owned()));
            self
        }
    };
}
pub(crate) use claim_options;
