//! Words for the tests of retry budgets. It is [`NOW`], at the beginning of a slot.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::panic, reason = "a story that takes another turn should stop")]

use std::time::Duration;

use semel_domain::Change;
use semel_domain::budget::ledger::{Slot, slot_of};
use semel_domain::budget::{
    Amount, Charge, Command, Deposit, Done, Granted, Handing, Incarnation, Ledger, Member, Outcome,
    Policy, Price, Record, ReplacePolicy, SetPolicyOutcome, Share, Slice, Sync, SyncOutcome,
    decide,
};
use semel_domain::time::Timestamp;

pub(crate) const A: Incarnation = Incarnation([0xa; 16]);
pub(crate) const B: Incarnation = Incarnation([0xb; 16]);
pub(crate) const C: Incarnation = Incarnation([0xc; 16]);

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// A lease of the default policy.
pub(crate) const LEASE: Duration = SECOND;
/// The window of the default policy.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The default policy without a floor: only deposits pay.
pub(crate) fn no_floor() -> Policy {
    Policy { floor_per_second: 0, ..Policy::default() }
}

/// The slot that lies so long ago.
pub(crate) fn ago(by: Duration) -> u64 {
    slot_of(NOW.before(by))
}

/// A ledger with slots of these ages in milliseconds, oldest first: what was deposited, and spent.
pub(crate) fn ledger(slots: &[(u64, u64, u64)]) -> Ledger {
    Ledger::of_slots(slots.iter().map(|&(age_ms, deposited_milli, spent_milli)| Slot {
        number: ago(Duration::from_millis(age_ms)),
        deposited_milli,
        spent_milli,
    }))
}

/// A sync that does nothing.
pub(crate) fn sync(node: Incarnation, seq: u64) -> Sync {
    Sync {
        node,
        seq,
        deposits: Vec::new(),
        settled: Vec::new(),
        want_milli: 0,
        high_milli: 0,
        admitted_per_mille: 1_000,
    }
}

/// A sync that wants something.
pub(crate) fn wants(node: Incarnation, seq: u64, want_milli: u64) -> Sync {
    Sync { want_milli, ..sync(node, seq) }
}

/// A node that synced a second ago and holds nothing.
pub(crate) fn member(node: Incarnation, seq: u64) -> Member {
    Member {
        node,
        seq,
        granted: None,
        wants: false,
        slices: Vec::new(),
        touched_at: NOW.before(SECOND),
    }
}

/// A slice of sync `seq` that ends at `expires_at`.
pub(crate) fn slice(seq: u64, left_milli: u64, expires_at: Timestamp) -> Slice {
    Slice { seq, left_milli, expires_at }
}

/// What is granted now.
pub(crate) fn granted(milli: u64) -> Granted {
    Granted { milli, high_only: false, granted_at: NOW, expires_at: NOW.after(LEASE) }
}

/// A price of one token now.
pub(crate) fn one() -> Price {
    Price { milli: 1_000, high: false, delay: Duration::ZERO, admitted_per_mille: 1_000 }
}

/// A policy being set.
pub(crate) fn replace(policy: Policy, expected_version: Option<u64>) -> ReplacePolicy {
    ReplacePolicy { policy, expected_version, actor: "olga".into() }
}

/// A budget in the store, and its clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk {
    pub(crate) record: Option<Record>,
}

impl Desk {
    /// A budget under this policy.
    pub(crate) fn under(policy: Policy) -> Self {
        let mut desk = Self::default();
        let set = Command::SetPolicy(replace(policy, None));
        let Outcome::SetPolicy(SetPolicyOutcome::Replaced { .. }) = desk.ask(&set, NOW) else {
            panic!("not set")
        };
        desk
    }

    pub(crate) fn ask(&mut self, command: &Command, now: Timestamp) -> Outcome {
        let (change, outcome) = decide(self.record.as_ref(), command, now);
        match change {
            Change::Keep => {}
            Change::Put(record) => self.record = Some(record),
            Change::Delete => self.record = None,
        }
        outcome
    }

    pub(crate) fn sync(&mut self, sync: Sync, now: Timestamp) -> SyncOutcome {
        let Outcome::Sync(outcome) = self.ask(&Command::Sync(sync), now) else {
            panic!("a sync is answered as one")
        };
        outcome
    }

    pub(crate) fn done(&mut self, sync: Sync, now: Timestamp) -> Done {
        match self.sync(sync, now) {
            SyncOutcome::Done(done) => done,
            SyncOutcome::Stale => panic!("stale"),
        }
    }

    /// What a sync is granted, in milli-tokens.
    pub(crate) fn granted(&mut self, sync: Sync, now: Timestamp) -> u64 {
        self.done(sync, now).granted.map_or(0, |granted| granted.milli)
    }

    pub(crate) fn record(&mut self, now: Timestamp) -> Record {
        match self.ask(&Command::Get, now) {
            Outcome::Get(record) => *record,
            other => panic!("not a record: {other:?}"),
        }
    }
}

/// A node whose clock stood at [`Node::EPOCH`] when the store's stood at [`NOW`].
pub(crate) struct Node {
    pub(crate) share: Share,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
}

impl Node {
    pub(crate) const EPOCH: Timestamp = Timestamp::from_micros(5_000_000_000);

    pub(crate) fn new(node: Incarnation, policy: Policy) -> Self {
        Self { share: Share::new(node, Self::EPOCH), policy, now: Self::EPOCH }
    }

    /// The store's time.
    pub(crate) fn store_now(&self) -> Timestamp {
        NOW.after(self.now.since(Self::EPOCH))
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    pub(crate) fn deposit(&mut self, requests: u64) {
        let milli = self.policy.deposit_milli(requests, requests);
        let deposit = Deposit { milli, spent_milli: 0, at: self.now };
        self.share.deposit(&deposit, &self.policy, self.now);
    }

    pub(crate) fn charge(&mut self, price: Price) -> Option<Charge> {
        self.share.charge(&price, &self.policy, self.now)
    }

    /// How many tokens are granted until none is left.
    pub(crate) fn spend_all(&mut self) -> usize {
        std::iter::from_fn(|| self.charge(one())).count()
    }

    pub(crate) fn balance(&mut self) -> u64 {
        self.share.balance_milli(&self.policy, 1_000, self.now)
    }

    /// Whether a sync is due.
    pub(crate) fn is_due(&self) -> bool {
        self.share.sync_at(&self.policy, self.now).is_some_and(|at| at <= self.now)
    }

    /// How long until a sync is due.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.share.sync_at(&self.policy, self.now).map(|at| at.since(self.now))
    }

    pub(crate) fn begin(&mut self, handing: Handing) -> Sync {
        self.share.begin_sync(&self.policy, 1_000, handing, self.now)
    }

    pub(crate) fn finish(&mut self, outcome: &SyncOutcome) {
        self.share.finish_sync(outcome, self.store_now(), self.now);
    }

    /// A sync that takes no time. What it carried.
    pub(crate) fn sync(&mut self, desk: &mut Desk) -> Sync {
        let sync = self.begin(Handing::Surplus);
        let outcome = desk.sync(sync.clone(), self.store_now());
        self.finish(&outcome);
        sync
    }

    /// The store says to the sync that is composed now that others want what this node can spare.
    pub(crate) fn hear_that_others_want(&mut self) {
        self.begin(Handing::Nothing);
        let done = Done { granted: None, more_at: None, others_want: true, repeated: false };
        self.finish(&SyncOutcome::Done(done));
    }

    /// The store grants so much to the sync that is composed now.
    pub(crate) fn given(&mut self, granted: Granted) -> Sync {
        let sync = self.begin(Handing::Nothing);
        let done =
            Done { granted: Some(granted), more_at: None, others_want: false, repeated: false };
        self.finish(&SyncOutcome::Done(done));
        sync
    }
}

/// All of it.
pub(crate) fn sum(amounts: &[Amount]) -> u64 {
    amounts.iter().map(|amount| amount.milli).sum()
}
