//! The memory of the index, its longest insertion, and its hit rate.
//!
//! `cargo run --release -p rudy-store --example index -- 10000000` fills an index with this number of objects, and with as many ghosts.

#![expect(clippy::print_stdout, reason = "a command-line tool prints")]

use std::time::{Duration, Instant};

use rudy_cache::index::{BLOCK_BYTES, Capacity, Index, ObjectId};
use rustix::time::{ClockId, clock_gettime};

/// The number of requests and of different objects in a trace.
const REQUESTS: u32 = 4_000_000;
const UNIVERSE: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = std::env::args().nth(1).map_or(Ok(10_000_000), |number| number.parse())?;
    fill(objects)?;
    for exponent in [0.7, 0.9, 1.1] {
        let trace = Zipf::new(exponent);
        for share in [1000, 100, 10] {
            let rate = hit_rate(&trace, UNIVERSE / share);
            println!("Zipf {exponent}, space for 1/{share} of the objects: hit rate {:.2} %", 100.0 * rate);
        }
    }
    Ok(())
}

/// Fills an index, and evicts as many objects as it has.
fn fill(objects: u32) -> Result<(), Box<dyn std::error::Error>> {
    let before = resident_bytes()?;
    let mut index = Index::new(capacity(objects));
    let (mut longest, start) = (Duration::ZERO, Instant::now());
    for number in 0..2 * u64::from(objects) + u64::from(objects) / 5 {
        let then = cpu_time();
        insert(&mut index, id(number));
        longest = longest.max(cpu_time().saturating_sub(then));
    }
    let each = |bytes: usize| bytes / objects as usize;
    println!("{objects} objects in {:.1} s", start.elapsed().as_secs_f64());
    println!("  by memory_bytes: {} bytes for each", each(index.memory_bytes()));
    let resident = resident_bytes()? - before;
    println!("  resident: {} MB, {} bytes for each", resident / 1_000_000, each(resident));
    println!("  longest insertion: {longest:?} of CPU");
    Ok(())
}

fn hit_rate(trace: &Zipf, objects: u32) -> f64 {
    let mut index = Index::new(capacity(objects));
    let mut hits = 0;
    for number in 0..REQUESTS {
        let id = id(trace.at(random(number.into())).into());
        if index.hit(id) {
            hits += 1;
        } else {
            insert(&mut index, id);
        }
    }
    f64::from(hits) / f64::from(REQUESTS)
}

fn insert(index: &mut Index, id: ObjectId) {
    index.insert(id, BLOCK_BYTES);
    while !index.evict(Some(id), &mut Vec::with_capacity(1)) {}
}

fn capacity(objects: u32) -> Capacity {
    Capacity { bytes: u64::from(objects) * BLOCK_BYTES, objects }
}

/// Numbers of objects, of which the first ones are the most frequent.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=UNIVERSE).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        Self(weights.collect())
    }

    fn at(&self, random: u64) -> u32 {
        let fraction = f64::from(u32::try_from(random >> 32).expect("32 bits")) / f64::from(u32::MAX);
        let place = fraction * self.0[self.0.len() - 1];
        u32::try_from(self.0.partition_point(|sum| *sum < place)).expect("the universe has 32-bit numbers")
    }
}

fn id(number: u64) -> ObjectId {
    let halves = [random(number), random(!number)].map(u64::to_le_bytes);
    ObjectId::from_bytes(*halves.as_flattened().first_chunk().expect("two halves"))
}

/// The generator `SplitMix64`.
fn random(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns the CPU time of this thread: a loaded machine lets threads wait, which says nothing about the index.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it is not negative")
}

fn resident_bytes() -> Result<usize, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<usize>()?)
}
