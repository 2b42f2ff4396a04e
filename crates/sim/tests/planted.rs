//! The oracles see what they must: bugs that are planted are caught, by the promise that they break.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it saw"
)]

use semel_sim::Plant;

/// Within so many seeds a planted bug has to be caught.
const SEEDS: u64 = 1_000;

/// The first seed in which the bug breaks its promise, which the same seed keeps without it.
fn caught(plant: Plant) {
    let broken = |seed| {
        let record = semel_sim::play_seed(seed, Some(plant)).unwrap();
        record.violations.iter().any(|violation| violation.promise == plant.breaks())
    };
    let seed = (1..=SEEDS).find(|seed| broken(*seed));
    let seed = seed.unwrap_or_else(|| panic!("{plant:?} was not caught"));
    println!("{plant:?} was caught by seed {seed}");
    let without = semel_sim::play_seed(seed, None).unwrap();
    assert!(without.violations.is_empty(), "{:?}", without.violations);
}

#[test]
fn a_slice_that_is_granted_twice_is_caught() {
    caught(Plant::SliceGrantedTwice);
}

#[test]
fn a_permit_without_a_lease_is_caught() {
    caught(Plant::PermitWithoutLease);
}

#[test]
fn a_late_report_that_is_accepted_is_caught() {
    caught(Plant::LateReportAccepted);
}

#[test]
fn a_deposit_that_is_counted_twice_is_caught() {
    caught(Plant::DepositCountedTwice);
}
