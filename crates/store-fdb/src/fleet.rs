//! The time of the fleet: the middle of the clocks of all nodes.
//!
//! The database has no wall clock, but its versions order whatever is committed, and a second has about
//! a million of them. So each node commits a stamp once a second, with what its own clock said when its
//! last one was committed, and reads those of the others: two clocks that are looked at about the same
//! version can be compared. A node whose clock is off then tells the time of the others, and can notice
//! that it does.
//!
//! Invariants:
//!
//! - Of an even number of clocks, that one of the middle two counts which is nearer to the newest time that was
//!   given: so one wrong clock of two sways nobody, nor does one of three while the third is not heard.
//! - Only what was looked at in an uninterrupted run of versions is compared: not across a stop of the
//!   cluster, a recovery (versions jump then), or a step of the own clock.
//! - A node alone tells its own time, and so does one whose clock differs by less than can be measured.

/// How many versions the database gives per microsecond, times the microseconds: 1, by its design.
const fn versions(micros: i64) -> i64 {
    micros
}

/// A commit that took longer says too little about when it happened.
const SLOW_US: u64 = 1_000_000;
/// How far versions and the own clock may part between two stamps.
const DRIFT_US: i64 = 500_000;
/// For how long the commit that took least is the one to go by.
const BEST_US: i64 = 8_000_000;
/// How old a stamp of others may be to be compared.
const OLDEST_US: i64 = 15_000_000;
/// Differences below this are errors of measurement, and a node goes by its own clock.
const ERROR_US: i64 = 250_000;
/// How far a run is taken to reach back before its first stamp, when a node opens.
const BEFORE_US: i64 = 3_000_000;
/// How long a new run lasts before the others count: each has had time for two stamps.
const SETTLED_US: i64 = 2_500_000;
/// How old a stamp may look whose node still lives: a recovery makes it 100 s older.
const LIVES_US: i64 = 3_600_000_000;

/// What a clock said at a version of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Microseconds since the epoch.
    pub(crate) wall_us: u64,
    pub(crate) version: i64,
}

impl Sample {
    /// How far `other` is ahead of this clock, in microseconds.
    fn offset_of(self, other: Self) -> i64 {
        let wall = signed(other.wall_us).saturating_sub(signed(self.wall_us));
        wall.saturating_sub(other.version.saturating_sub(self.version))
    }
}

/// What a node leaves for the others, and for those that come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The newest time that it gave to any transition, or found when it opened; µs since the epoch.
    pub(crate) newest_us: u64,
    /// A version from shortly before it was written.
    pub(crate) written_at: i64,
    /// What its clock said when its last one was committed.
    pub(crate) sample: Option<Sample>,
}

const FORMAT: u8 = 1;

impl Stamp {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&self.newest_us.to_le_bytes());
        bytes.extend_from_slice(&self.written_at.to_le_bytes());
        if let Some(sample) = self.sample {
            bytes.extend_from_slice(&sample.wall_us.to_le_bytes());
            bytes.extend_from_slice(&sample.version.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(stored: &[u8]) -> Result<Self, String> {
        let unreadable = || "the stamp of a node's clock can't be read".to_owned();
        let (&[format], rest) = stored.split_first_chunk().ok_or_else(unreadable)?;
        if format != FORMAT {
            return Err(unreadable());
        }
        let (newest_us, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
        let (written_at, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
        let sample = match rest {
            [] => None,
            _ => {
                let (wall_us, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
                let version = rest.try_into().map_err(|_| unreadable())?;
                let wall_us = u64::from_le_bytes(*wall_us);
                Some(Sample { wall_us, version: i64::from_le_bytes(version) })
            }
        };
        let newest_us = u64::from_le_bytes(*newest_us);
        Ok(Self { newest_us, written_at: i64::from_le_bytes(*written_at), sample })
    }

    /// Whether its node may live, although its sample is of an earlier run than one that began at this
    /// version. Who ends in order leaves no sample.
    fn may_live(&self, since: i64) -> bool {
        let age = since.saturating_sub(self.written_at);
        self.sample.is_some_and(|sample| sample.version < since) && age < versions(LIVES_US)
    }

    /// Whether its node is gone for a day, at this version, or left it in a cluster whose backup this one
    /// was made from, and whose versions were ahead.
    pub(crate) fn is_left_over(&self, version: i64) -> bool {
        const DAY_US: i64 = 86_400_000_000;
        self.written_at > version || version.saturating_sub(self.written_at) > versions(DAY_US)
    }
}

/// What a node knows of the fleet's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fleet {
    last: Option<Sample>,
    /// What was measured best lately, and how long that took, in microseconds: the clock was read somewhere within.
    best: Option<(Sample, u64)>,
    /// The first version of the run.
    since: i64,
    /// `None`: the run does not yet last so long that all have told their clocks in it.
    offset_us: Option<i64>,
}

impl Fleet {
    /// Whether nodes that left these stamps may live and have yet to say what their clocks tell. That is
    /// so for a while after a recovery.
    pub(crate) fn has_to_wait_for(&self, others: &[Stamp]) -> bool {
        let Some(last) = self.last else { return !others.is_empty() };
        let run = last.version.saturating_sub(self.since);
        let is_known = run >= versions(BEFORE_US + SETTLED_US);
        !is_known && others.iter().any(|other| other.may_live(self.since))
    }

    /// How far the fleet is ahead of the own clock, in microseconds; `None`: that is not known at the moment.
    pub(crate) fn offset_us(&self) -> Option<i64> {
        self.offset_us
    }

    /// The own sample that others may go by.
    pub(crate) fn sample(&self) -> Option<Sample> {
        self.best.map(|(sample, _)| sample)
    }

    /// Takes a stamp of the own clock, which was committed within `took_us`, the newest samples of the others, and
    /// the newest time that was given to a transition.
    pub(crate) fn take(&mut self, mine: Sample, took_us: u64, others: &[Sample], newest_us: u64) {
        if took_us > SLOW_US {
            self.last = None;
            self.best = None;
            self.since = i64::MAX;
            self.offset_us = None;
            return;
        }
        let is_first = self.last.is_none() && self.since == 0;
        let goes_on = self.last.is_some_and(|last| last.offset_of(mine).abs() <= DRIFT_US);
        self.last = Some(mine);
        let is_better = |(best, took): (Sample, u64)| {
            took_us <= took || mine.version.saturating_sub(best.version) > versions(BEST_US)
        };
        if !goes_on || self.best.is_none_or(is_better) {
            self.best = Some((mine, took_us));
        }
        if is_first {
            self.since = mine.version.saturating_sub(versions(BEFORE_US));
        } else if !goes_on {
            self.since = mine.version;
        }
        let is_settled = mine.version.saturating_sub(self.since) >= versions(SETTLED_US);
        self.offset_us = is_settled.then(|| self.compare(mine, others, newest_us));
    }

    /// How far the fleet is ahead of the own clock, by what was measured best.
    fn compare(&self, mine: Sample, others: &[Sample], newest_us: u64) -> i64 {
        let (best, took_us) = self.best.unwrap_or((mine, SLOW_US));
        let since = self.since.max(mine.version.saturating_sub(versions(OLDEST_US)));
        // A version that is yet to come is of another cluster, whose backup this one was made from.
        let run = since..=mine.version;
        let comparable = others.iter().filter(|other| run.contains(&other.version));
        let newest_us = signed(newest_us).saturating_sub(signed(mine.wall_us));
        let offset_us = median_offset_us(best, comparable.copied(), newest_us);
        if offset_us.abs() < ERROR_US {
            return 0;
        }
        // Who tells the time of others errs on the late side, so that a lease that it renews does not end early. If
        // it is off by more than the allowed skew it refuses claims, and takes none that is another's.
        offset_us.saturating_add(signed(took_us))
    }
}

/// How far the middle of all clocks is ahead of the own one, in microseconds; of the middle two, the one nearer to
/// `newest_us`, which is how far the newest time that was given is ahead of it.
fn median_offset_us(mine: Sample, others: impl Iterator<Item = Sample>, newest_us: i64) -> i64 {
    let mut offsets: Vec<i64> = others.map(|other| mine.offset_of(other)).collect();
    offsets.push(0);
    offsets.sort_unstable();
    let middle = offsets.get((offsets.len() - 1) / 2..=offsets.len() / 2).unwrap_or_default();
    middle
        .iter()
        .copied()
        .min_by_key(|it| it.saturating_sub(newest_us).saturating_abs())
        .unwrap_or(0)
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const MINUTE: i64 = 60 * SECOND;

    /// A clock that is `ahead` of a true one that stands at 1,000 s at version 0.
    fn sample(version: i64, ahead: i64) -> Sample {
        Sample { wall_us: u64::try_from(1_000 * SECOND + version + ahead).unwrap(), version }
    }

    #[test]
    fn the_middle_of_the_clocks_counts() {
        // The other clocks, the newest time that was given, and the time to go by: how far each is ahead.
        let minutes: [(&[i64], i64, i64); 10] = [
            (&[], -1, 0),
            (&[0], -1, 0),
            // Of two, the one that agrees with the time so far.
            (&[10], 0, 0),
            (&[10], 9, 10),
            (&[-10], 0, 0),
            (&[-10], -9, -10),
            (&[-10, -10], 0, -10),
            (&[10, 10], 0, 10),
            (&[10, -10], 10, 0),
            (&[-1, 5, 20], 4, 5),
        ];
        for (ahead, newest, expected) in minutes {
            let others = ahead.iter().map(|ahead| sample(7 * SECOND, ahead * MINUTE));
            let found = median_offset_us(sample(9 * SECOND, 0), others, newest * MINUTE);
            assert_eq!(found, expected * MINUTE, "{ahead:?} {newest}");
        }
    }

    #[test]
    fn all_nodes_tell_the_same_time() {
        let ahead = [3 * MINUTE, -7 * MINUTE, 12, 0, MINUTE, -1];
        for (nodes, newest) in (1..=ahead.len()).flat_map(|it| [(it, 0), (it, 4 * MINUTE)]) {
            let clocks = || ahead.iter().take(nodes).map(|ahead| sample(9 * SECOND, *ahead));
            let told: Vec<i64> = clocks()
                .enumerate()
                .map(|(me, mine)| {
                    let others = clocks().enumerate().filter(|(it, _)| *it != me);
                    let others = others.map(|(_, other)| other);
                    ahead[me] + median_offset_us(mine, others, newest - ahead[me])
                })
                .collect();
            assert!(told.iter().all(|it| *it == told[0]), "{nodes} nodes: {told:?}");
        }
    }

    #[test]
    fn a_node_that_opens_among_others_tells_their_time_at_once() {
        let mut fleet = Fleet::default();
        let others = [sample(98 * SECOND, -10 * MINUTE), sample(99 * SECOND, -10 * MINUTE)];
        fleet.take(sample(100 * SECOND, 0), 10_000, &others, 0);
        assert_eq!(fleet.offset_us(), Some(-10 * MINUTE + 10_000));
        assert_eq!(fleet.sample(), Some(sample(100 * SECOND, 0)));
    }

    #[test]
    fn a_node_that_opens_after_a_recovery_waits_for_the_others() {
        let stamp = |version, ahead| Stamp {
            newest_us: 0,
            written_at: version,
            sample: Some(sample(version, ahead)),
        };
        let before = [stamp(98 * SECOND, MINUTE), stamp(99 * SECOND, MINUTE)];
        let since = [stamp(201 * SECOND, MINUTE), stamp(201 * SECOND, MINUTE)];
        let ended = [Stamp { sample: None, ..before[0] }];
        let gone = [Stamp { written_at: before[0].written_at - 3_600 * SECOND, ..before[0] }];
        let mut fleet = Fleet::default();
        fleet.take(sample(200 * SECOND, 0), 10_000, &[], 0);
        assert!(fleet.has_to_wait_for(&before) && fleet.has_to_wait_for(&[before[0], since[1]]));
        for nobody in [&[][..], &since, &ended, &gone] {
            assert!(!fleet.has_to_wait_for(nobody), "{nobody:?}");
        }
        fleet.take(sample(202 * SECOND, 0), 10_000, &[], 0);
        assert!(fleet.has_to_wait_for(&before));
        fleet.take(sample(203 * SECOND, 0), 10_000, &[], 0);
        assert!(!fleet.has_to_wait_for(&before), "who lives has left a stamp by now");
    }

    #[test]
    fn nodes_that_are_gone_count_no_more() {
        let mut fleet = Fleet::default();
        let gone = [sample(98 * SECOND, -MINUTE), sample(99 * SECOND, -MINUTE)];
        for second in 100..=114 {
            fleet.take(sample(second * SECOND, 0), 10_000, &gone, 0);
            assert_eq!(fleet.offset_us(), Some(-MINUTE + 10_000), "at {second}");
        }
        fleet.take(sample(115 * SECOND, 0), 10_000, &gone, 0);
        assert_eq!(fleet.offset_us(), Some(0));
    }

    #[test]
    fn a_node_goes_by_its_quickest_commit_and_not_by_errors_of_measurement() {
        let mut fleet = Fleet::default();
        let quick = sample(98 * SECOND, 0);
        fleet.take(quick, 10_000, &[], 0);
        // Read too late by far, since the commit took so long.
        fleet.take(sample(99 * SECOND, 400_000), 900_000, &[sample(98 * SECOND, -MINUTE); 2], 0);
        assert_eq!((fleet.offset_us(), fleet.sample()), (Some(-MINUTE + 10_000), Some(quick)));
        fleet.take(sample(100 * SECOND, 0), 10_000, &[sample(99 * SECOND, -240_000); 2], 0);
        assert_eq!(fleet.offset_us(), Some(0));
        let newer = sample(109 * SECOND, 0);
        fleet.take(newer, 20_000, &[], 0);
        assert_eq!(fleet.sample(), Some(newer), "the quickest is too long ago");
    }

    /// After a stop of 30 s versions went on by 5 s, after a recovery by 100 s more than time.
    #[test]
    fn what_was_before_a_stop_or_a_recovery_is_not_compared() {
        for jump in [-25 * SECOND, 100 * SECOND] {
            let mut fleet = Fleet::default();
            fleet.take(sample(98 * SECOND, 0), 10_000, &[], 0);
            fleet.take(sample(99 * SECOND, 0), 10_000, &[], 0);
            let before = [sample(99 * SECOND, MINUTE), sample(99 * SECOND, MINUTE)];
            for second in 104..=107 {
                // The same clocks look as if they had jumped.
                fleet.take(sample(second * SECOND, jump), 10_000, &before, 0);
                assert_eq!(fleet.offset_us(), (second == 107).then_some(0), "{jump} at {second}");
            }
            let since = [sample(106 * SECOND, jump + MINUTE), sample(106 * SECOND, jump + MINUTE)];
            fleet.take(sample(108 * SECOND, jump), 10_000, &since, 0);
            assert_eq!(fleet.offset_us(), Some(MINUTE + 10_000), "{jump}");
        }
    }

    /// A new cluster begins with low versions, and a backup brings the stamps of the old one.
    #[test]
    fn stamps_of_a_cluster_that_was_ahead_do_not_count() {
        let mut fleet = Fleet::default();
        fleet.take(sample(98 * SECOND, 0), 10_000, &[sample(9_000 * SECOND, -MINUTE)], 0);
        assert_eq!(fleet.offset_us(), Some(0));
        let stamp = Stamp { newest_us: 1, written_at: 9_000 * SECOND, sample: None };
        assert!(stamp.is_left_over(98 * SECOND));
    }

    #[test]
    fn a_slow_commit_says_nothing() {
        let mut fleet = Fleet::default();
        fleet.take(sample(98 * SECOND, 0), 10_000, &[], 0);
        fleet.take(sample(99 * SECOND, 0), 3_000_000, &[sample(99 * SECOND, -MINUTE); 2], 0);
        assert_eq!((fleet.offset_us(), fleet.sample()), (None, None));
        fleet.take(sample(100 * SECOND, 0), 10_000, &[sample(99 * SECOND, -MINUTE); 2], 0);
        assert_eq!(fleet.offset_us(), None, "the run began anew");
        fleet.take(sample(103 * SECOND, 0), 10_000, &[sample(102 * SECOND, -MINUTE); 2], 0);
        assert_eq!(fleet.offset_us(), Some(-MINUTE + 10_000));
    }

    /// What is stored once must be read for ever.
    #[test]
    fn stamps_are_what_they_always_were() {
        let bare = Stamp { newest_us: 1, written_at: 2, sample: None };
        let full = Stamp { sample: Some(Sample { wall_us: 3, version: 4 }), ..bare };
        let bytes = b"\x01\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0";
        for (stamp, stored) in [(bare, &bytes[..17]), (full, &bytes[..])] {
            assert_eq!(stamp.encode(), stored);
            assert_eq!(Stamp::decode(stored), Ok(stamp));
        }
        for wrong in [&b""[..], b"\x02", &bytes[..16], &bytes[..20], &bytes[..32]] {
            assert!(Stamp::decode(wrong).is_err(), "{wrong:?}");
        }
        assert!(bare.is_left_over(86_400 * SECOND + 3) && !bare.is_left_over(86_400 * SECOND));
    }
}
