//! The seeds of each test run. `cargo xtask nightly simulation` runs more.

use std::ops::Range;

use rudy_sim::{Options, Outcome, Reduction, run, shrink};

fn outcome(seed: u64) -> Outcome {
    run(Options { seed, keeps_story: false, reduction: Reduction::default() })
}

fn run_all(seeds: Range<u64>) {
    for seed in seeds {
        if outcome(seed).faults.is_empty() {
            continue;
        }
        let smallest = shrink(Options { seed, keeps_story: true, reduction: Reduction::default() });
        panic!(
            "seed {seed}: {}\n\n{}\n\n`cargo run -p rudy-sim -- {seed} --shrink` tells this again",
            smallest.faults.join("; "),
            smallest.story.join("\n")
        );
    }
}

#[test]
fn the_first_seeds_show_no_fault() {
    run_all(0..250);
}

#[test]
fn later_seeds_show_no_fault() {
    run_all(250..500);
}

/// What differs between two runs is not decided by the seed: the order of a hash map, a clock, a thread.
#[test]
fn a_seed_decides_everything() {
    for seed in 0..50 {
        let [first, second] = [outcome(seed), outcome(seed)];
        assert_eq!((first.events, first.hash), (second.events, second.hash), "seed {seed}");
    }
}
