//! The node's own work on breakers: it brings outcomes to the store, follows the records that are in
//! use, makes the changes of state that are due, and tells watchers of those that come with time.
//!
//! One task does it all, and holds nothing up: what it waits for, it waits for at once. A wake-up of the
//! store is a hint; each record is also read now and then without one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use semel_domain::breaker::{AdvanceOutcome, Command, Outcome, is_due, standing};
use semel_domain::time::micros;
use semel_store::{Store, Watch};

use super::agenda::{Agenda, Errand};
use super::shared::{Breakers, ask};
use super::transition::Answer;
use super::view::View;

/// Outcomes gather for this long before they are brought.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// A record is read at most this often for wake-ups: each report of each node is one.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// What failed is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Every so often, some records are read without a wake-up.
const ROUND_INTERVAL: Duration = Duration::from_secs(2);
/// So many of them.
const ROUND_MAX: usize = 2_048;
/// Commands of one batch.
const BATCH_MAX: usize = 256;
/// Batches under way at once.
const UNDER_WAY_MAX: usize = 8;
/// The least pause before something that comes with time is looked at again.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// A view that nobody asked for in this time is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(12 * 60);
/// How long the last outcomes may take when the node ends.
const LAST_FLUSH: Duration = Duration::from_millis(500);

type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// A view whose record may have changed, and its watch. `None`: the view is gone.
type Woken = Option<(Arc<View>, Watch)>;
/// An errand that was carried to the store.
type Done = (Arc<View>, Errand, Answer);

impl<S: Store> Breakers<S> {
    /// Keeps the node's breakers until it closes.
    pub(crate) async fn run(&self) {
        let mut keeper = Keeper {
            shared: self,
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            watches: FuturesUnordered::new(),
            rounds: VecDeque::new(),
            round_us: 0,
        };
        self.closing.run_until_cancelled(keeper.keep()).await;
        keeper.flush_last().await;
    }
}

struct Keeper<'a, S> {
    shared: &'a Breakers<S>,
    agenda: Agenda,
    ready: VecDeque<(Arc<View>, Errand)>,
    under_way: FuturesUnordered<Local<'a, Vec<Done>>>,
    watches: FuturesUnordered<Local<'a, Woken>>,
    /// All views, in the order in which they are read without a wake-up.
    rounds: VecDeque<Arc<View>>,
    round_us: u64,
}

impl<S: Store> Keeper<'_, S> {
    async fn keep(&mut self) {
        loop {
            self.take_asks();
            self.take_due();
            self.start();
            let pause = self.next_in().max(PAUSE_MIN);
            tokio::select! {
                biased;
                Some(done) = self.under_way.next() => {
                    for (view, errand, answer) in done {
                        self.finish(&view, errand, &answer);
                    }
                }
                Some(woken) = self.watches.next() => {
                    if let Some((view, watch)) = woken {
                        self.read_soon(&view);
                        self.follow(view, watch);
                    }
                }
                () = self.shared.arrived.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.shared.clock.monotonic_us()
    }

    fn next_in(&self) -> Duration {
        let now_us = self.now_us();
        let next_round = Duration::from_micros(self.round_us.saturating_sub(now_us));
        self.agenda.next_in(now_us).map_or(next_round, |next| next.min(next_round))
    }

    /// Takes up what serving threads asked for.
    fn take_asks(&mut self) {
        while let Some((view, asked)) = self.shared.next_ask() {
            if asked & ask::FOLLOW != 0 {
                let watch = self.shared.store.watch(&view.record_key);
                self.follow(Arc::clone(&view), watch);
                self.rounds.push_back(Arc::clone(&view));
                self.read_now(&view);
            }
            if asked & ask::READ != 0 {
                self.read_soon(&view);
            }
            if asked & ask::FLUSH != 0 {
                self.flush_soon(&view, FLUSH_INTERVAL);
            }
            if asked & ask::LEARNED != 0 {
                self.keep_time(&view);
            }
        }
    }

    /// Waits for the next wake-up of a view's record.
    fn follow(&self, view: Arc<View>, mut watch: Watch) {
        self.watches.push(Box::pin(async move {
            let woken = view.gone.run_until_cancelled(watch.changed()).await;
            woken.map(|()| (Arc::clone(&view), watch))
        }));
    }

    fn read_now(&mut self, view: &Arc<View>) {
        if !std::mem::replace(&mut view.errands().reading, true) {
            self.ready.push_back((Arc::clone(view), Errand::Read));
        }
    }

    /// Reads a record, but not again and again.
    fn read_soon(&mut self, view: &Arc<View>) {
        let now_us = self.now_us();
        let since_us = now_us.saturating_sub(view.errands().read_us);
        if since_us >= micros(READ_INTERVAL) {
            self.read_now(view);
        } else if !std::mem::replace(&mut view.errands().reading, true) {
            let rest = READ_INTERVAL.saturating_sub(Duration::from_micros(since_us));
            self.agenda.note(now_us, rest, view, Errand::Read);
        }
    }

    fn flush_soon(&mut self, view: &Arc<View>, after: Duration) {
        if !std::mem::replace(&mut view.errands().flushing, true) {
            self.agenda.note(self.now_us(), after, view, Errand::Flush);
        }
    }

    /// Notes when the view changes of itself, and has a change of state made that is due.
    fn keep_time(&mut self, view: &Arc<View>) {
        let (now, now_us) = (self.shared.now(), self.now_us());
        let Some(record) = view.record() else { return };
        if is_due(&record, now) && !std::mem::replace(&mut view.errands().advancing, true) {
            self.ready.push_back((Arc::clone(view), Errand::Advance));
        }
        let Some(next) = standing(Some(&record), now).look_again else { return };
        let due_us = now_us.saturating_add(micros(next.max(PAUSE_MIN)));
        let mut errands = view.errands();
        if errands.announce_us.is_none_or(|noted_us| noted_us > due_us) {
            let due_us = self.agenda.note(now_us, next.max(PAUSE_MIN), view, Errand::Announce);
            errands.announce_us = Some(due_us);
        }
    }

    /// Takes up what is due by now.
    fn take_due(&mut self) {
        let now_us = self.now_us();
        while let Some((due_us, view, errand)) = self.agenda.take_due(now_us) {
            if errand != Errand::Announce {
                self.ready.push_back((view, errand));
                continue;
            }
            // An earlier one may have taken its place.
            if view.errands().announce_us == Some(due_us) {
                view.errands().announce_us = None;
                view.announce(self.shared.now());
                self.keep_time(&view);
            }
        }
        if now_us >= self.round_us {
            self.round_us = now_us.saturating_add(micros(ROUND_INTERVAL));
            self.go_round(now_us);
        }
    }

    /// Reads some records without a wake-up, and forgets views that are not used.
    fn go_round(&mut self, now_us: u64) {
        for _ in 0..self.rounds.len().min(ROUND_MAX) {
            let Some(view) = self.rounds.pop_front() else { return };
            if self.shared.forget(&view, now_us, micros(FORGOTTEN_AFTER)) {
                continue;
            }
            let since_us = now_us.saturating_sub(view.errands().read_us);
            if since_us >= micros(ROUND_INTERVAL) / 2 {
                self.read_now(&view);
            }
            self.rounds.push_back(view);
        }
    }

    /// Sends what is ready, as far as there is room.
    fn start(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX && !self.ready.is_empty() {
            let count = self.ready.len().min(BATCH_MAX);
            let errands: Vec<_> = self.ready.drain(..count).collect();
            let mut commands = Vec::with_capacity(count);
            let mut kinds = Vec::with_capacity(count);
            for (view, errand) in errands {
                if let Some(command) = self.command(&view, errand) {
                    commands.push((view, command));
                    kinds.push(errand);
                }
            }
            if commands.is_empty() {
                continue;
            }
            let shared = self.shared;
            self.under_way.push(Box::pin(async move {
                let answers = shared.carry(&commands).await;
                let views = commands.into_iter().map(|(view, _)| view);
                let done = views.zip(kinds).zip(answers);
                done.map(|((view, errand), answer)| (view, errand, answer)).collect()
            }));
        }
    }

    fn command(&self, view: &Arc<View>, errand: Errand) -> Option<Arc<Command>> {
        match errand {
            Errand::Flush => {
                let (node, now_us) = (self.shared.node, self.now_us());
                let gathered = &self.shared.gathered;
                let next_seq = || self.shared.next_seq();
                let command = view.pending().send(node, now_us, gathered, next_seq);
                view.errands().flushing = command.is_some();
                command
            }
            Errand::Read => {
                view.errands().reading = false;
                view.errands().read_us = self.now_us();
                Some(Arc::new(Command::Get))
            }
            Errand::Advance => {
                let now = self.shared.now();
                let due = view.record().is_some_and(|record| is_due(&record, now));
                view.errands().advancing = due;
                due.then(|| Arc::new(Command::Advance { random: self.shared.random() }))
            }
            Errand::Announce => None,
        }
    }

    fn finish(&mut self, view: &Arc<View>, errand: Errand, answer: &Answer) {
        match errand {
            Errand::Flush => self.finish_flush(view, answer),
            Errand::Advance if is_done(answer) => view.errands().advancing = false,
            // It failed, or the store's clock is behind this node's.
            Errand::Advance => drop(self.agenda.note(self.now_us(), AGAIN_AFTER, view, errand)),
            // What could not be read is read on a next round.
            Errand::Read | Errand::Announce => {}
        }
    }

    fn finish_flush(&mut self, view: &Arc<View>, answer: &Answer) {
        view.errands().flushing = false;
        if answer.is_err() {
            return self.flush_soon(view, AGAIN_AFTER);
        }
        let is_empty = {
            let mut pending = view.pending();
            pending.answered();
            pending.is_empty()
        };
        if !is_empty {
            self.flush_soon(view, FLUSH_INTERVAL);
        }
    }

    /// Brings what gathered before the node ends: what was under way goes first, and after it what
    /// came since.
    async fn flush_last(&mut self) {
        let mut views: Vec<_> = std::mem::take(&mut self.rounds).into();
        while let Some((view, asked)) = self.shared.next_ask() {
            if asked & ask::FOLLOW != 0 {
                views.push(view);
            }
        }
        let last = async {
            self.flush_all(&views).await;
            self.flush_all(&views).await;
        };
        if tokio::time::timeout(LAST_FLUSH, last).await.is_err() {
            tracing::warn!("the last outcomes of calls did not reach the store in time");
        }
    }

    async fn flush_all(&self, views: &[Arc<View>]) {
        let commands = views.iter().filter_map(|view| {
            self.command(view, Errand::Flush).map(|command| (Arc::clone(view), command))
        });
        let commands: Vec<_> = commands.collect();
        for batch in commands.chunks(BATCH_MAX) {
            for ((view, _), answer) in batch.iter().zip(self.shared.carry(batch).await) {
                if answer.is_ok() {
                    view.pending().answered();
                }
            }
        }
    }
}

/// Whether a change of state was made.
fn is_done(answer: &Answer) -> bool {
    let Ok(Ok(decided)) = answer else { return false };
    decided.outcome != Outcome::Advance(AdvanceOutcome::NothingDue)
}
