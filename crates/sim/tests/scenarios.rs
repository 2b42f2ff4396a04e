//! The experiments keep what they promise.

use semel_sim::scenario::retry_storm::{self, Strategy};
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
    let fleet = fleet::run(12, 600, 1).unwrap();
    assert_eq!(fleet.granted_over_bound, 0, "{fleet:?}");
    assert!(fleet.utilisation >= 0.97, "{fleet:?}");
    assert!(fleet.fairness_ratio <= 2.0, "{fleet:?}");
    assert!(fleet.reconverged_s <= 2.0, "{fleet:?}");
    println!("{fleet:?}");
}

#[test]
fn storm() {
    for strategy in Strategy::ALL {
        for seed in 0..5 {
            let played = retry_storm::run(strategy, seed).unwrap();
            println!(
                "{strategy:?} {} {} {}",
                played.attempts, played.peak_after_recovery, played.all_served_s
            );
        }
    }
}
