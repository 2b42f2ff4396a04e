//! Seeds, and what they must show.

/// How many seeds are played: few where the compiler does not optimise.
const SEEDS: u64 = if cfg!(debug_assertions) { 16 } else { 400 };

#[test]
fn a_seed_run_twice_gives_the_same_log() {
    // Whatever ran before it in the process, and on whichever thread.
    for seed in 0..SEEDS / 4 {
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
    let checked = semel_sim::check(1_000, SEEDS, 2, None, |_| {}).unwrap();
    for (seed, record) in &checked.broken {
        println!("seed {seed}: {:#?}\n{}", record.violations, record.tail.join("\n"));
    }
    assert_eq!((checked.seeds, checked.violations), (SEEDS, 0));
    // They are no test if nothing happens in them.
    assert!(checked.events > 500 * SEEDS, "{} events", checked.events);
}
