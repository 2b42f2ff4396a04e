//! The experiments keep what they promise.

use semel_sim::scenario::retry_storm::{self, CAPACITY_PER_TICK, Strategy};
use semel_sim::scenario::{fleet, layers, total_outage};

#[test]
fn a_total_outage_grows_traffic_by_a_tenth_and_the_floor_in_every_window() {
    let outage = total_outage::run(1).unwrap();
    assert_eq!(outage.over_bound, 0, "{outage:?}");
    assert_eq!((outage.first_per_second, outage.first_attempts), (1_000, 60_000), "{outage:?}");
    // It is no test if nothing is granted.
    assert!(outage.retries > 5_400, "{outage:?}");
    println!("{outage:?}");
}

#[test]
fn three_layers_of_three_attempts_make_as_many_calls_as_the_root_may() {
    for seed in 0..10 {
        let layers = layers::run(seed).unwrap();
        assert_eq!(layers.calls_without, 27);
        assert_eq!(layers.calls_with_cap, 5, "{layers:?}");
        assert_eq!(layers.calls_with_retry_layer, 3, "{layers:?}");
    }
}

#[test]
fn a_small_fleet_grants_what_it_may_evenly_and_recovers() {
    let (nodes, clients) = if cfg!(debug_assertions) { (6, 240) } else { (30, 3_000) };
    let fleet = fleet::run(nodes, clients, 1).unwrap();
    assert_eq!(fleet.granted_over_bound, 0, "{fleet:?}");
    assert!(fleet.utilisation >= 0.97, "{fleet:?}");
    assert!(fleet.fairness_ratio <= 2.0, "{fleet:?}");
    assert!(fleet.reconverged_s <= 2.0, "{fleet:?}");
    println!("{fleet:?}");
}

#[test]
fn after_an_outage_the_fleet_stays_at_capacity_and_nobody_who_does_serves_all_sooner() {
    let seeds = if cfg!(debug_assertions) { 6 } else { 200 };
    for seed in 0..seeds {
        let semel = retry_storm::run(Strategy::Semel, seed).unwrap();
        assert!(semel.peak_after_recovery <= CAPACITY_PER_TICK, "seed {seed}: {semel:?}");
        for other in [Strategy::Fixed, Strategy::Exponential, Strategy::ExponentialJitter] {
            let other = retry_storm::run(other, seed).unwrap();
            assert!(
                other.peak_after_recovery > CAPACITY_PER_TICK
                    || other.all_served_s > semel.all_served_s,
                "seed {seed}: {other:?} against {semel:?}"
            );
        }
    }
}

#[test]
fn clients_that_retry_in_step_come_back_in_waves() {
    let fixed = retry_storm::run(Strategy::Fixed, 1).unwrap();
    assert_eq!((fixed.attempts, fixed.peak_after_recovery), (280, 40), "{fixed:?}");
}
