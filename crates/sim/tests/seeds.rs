//! Seeds, and what they must show.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

/// How many seeds are played, and the first of them, unless told otherwise.
const SEEDS: u64 = 16;
const FIRST_SEED: u64 = 1_000;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn a_seed_run_twice_gives_the_same_log() {
    // Whatever ran before it in the process, and on whichever thread.
    for seed in 0..number("SEMEL_SIM_SEEDS", SEEDS).div_ceil(16) {
        let first = semel_sim::play_seed(seed, None).unwrap();
        let second = std::thread::scope(|scope| {
            scope.spawn(|| semel_sim::play_seed(seed, None).unwrap()).join().unwrap()
        });
        assert_eq!(first.tail, second.tail, "seed {seed}");
        assert_eq!((first.events, first.digest), (second.events, second.digest), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    let record = |seed| semel_sim::play_seed(seed, None).unwrap().digest;
    assert_ne!(record(1), record(2));
}

#[test]
fn no_seed_breaks_a_promise() {
    let (first, seeds) = (number("SEMEL_SEED", FIRST_SEED), number("SEMEL_SIM_SEEDS", SEEDS));
    let checked = semel_sim::check(first, seeds, 2, None, |_| {}).unwrap();
    for (seed, record) in &checked.broken {
        println!("seed {seed}: {:#?}\n{}", record.violations, record.tail.join("\n"));
    }
    println!("{seeds} seeds from {first}, {} events", checked.events);
    assert_eq!((checked.seeds, checked.violations), (seeds, 0));
    // They are no test if nothing happens in them.
    assert!(checked.events > 500 * seeds, "{} events", checked.events);
}
