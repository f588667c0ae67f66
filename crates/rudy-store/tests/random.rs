//! Thousands of random operations against a model. `examples/soak.rs` does the same for minutes.

mod model;

use model::Run;

#[test]
fn a_store_is_at_worst_a_miss() {
    for seed in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::new(folder.path(), seed);
        let tally = (0..1500).map(|_| run.step()).last().unwrap();
        println!("seed {seed}: {tally:?}");
        assert!(tally.hits > 100 && tally.stored > 50 && tally.restarts > 5, "{tally:?}");
    }
}
