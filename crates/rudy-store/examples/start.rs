//! How long a start takes until the index is complete, after a clean end and after a kill.
//!
//! `cargo run --release -p rudy-store --example start -- FOLDER 1170000` fills the folder first, if it does not exist.

#![expect(clippy::print_stdout, reason = "a command-line tool prints")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use rudy_cache::index::Capacity;
use rudy_cache::{Exchange, HttpDate, Key, Policy};
use rudy_store::{Options, Stats, Store};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [folder, objects] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "FOLDER OBJECTS")?;
    let (options, objects) = (options(&folder), objects.parse()?);
    if !options.folder.exists() {
        fill(&Store::open(options.clone())?, objects)?;
    }
    start("at first", options.clone())?;
    start("after a clean end", options.clone())?;
    std::fs::remove_file(options.folder.join("snapshot"))?;
    start("after a kill", options)
}

fn options(folder: &str) -> Options {
    Options { capacity: Capacity { bytes: 1 << 40, objects: 20_000_000 }, ..Options::new(folder) }
}

fn fill(store: &Store, objects: u64) -> Result<(), Box<dyn std::error::Error>> {
    let time = HttpDate::from_unix_seconds(0);
    for number in 0..objects {
        let key = Key::new(true, b"example.org", format!("/{number}").as_bytes());
        let response = Response::builder().header("cache-control", "max-age=60").body(())?;
        let exchange = Exchange { requested_at: time, received_at: time };
        let stored = Policy::default()
            .store(&Request::get("/").body(())?, &response, exchange)
            .map_err(|_| "not cacheable")?;
        let mut fill = store.fill(&key, stored, Some(1000), store.epoch());
        fill.write(Bytes::from_static(&[1; 1000]));
        fill.finish()?;
    }
    Ok(())
}

fn start(name: &str, options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let cpu = || clock_gettime(ClockId::ProcessCPUTime);
    let (start, cpu_before) = (Instant::now(), cpu());
    let store = Store::open(options)?;
    store.wait_until_indexed();
    let (wall, used) = (start.elapsed(), cpu() - cpu_before);
    let used = Duration::try_from(used)?;
    let Stats { objects, index_bytes, .. } = store.stats();
    println!(
        "{name}: {objects} objects in {wall:.2?}, {used:.2?} of CPU; {} kB of memory",
        index_bytes / 1000
    );
    let start = Instant::now();
    drop(store);
    println!("  end: {:.1?}", start.elapsed());
    Ok(())
}
