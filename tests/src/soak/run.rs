//! The main function of the soak test.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::faults::Faults;
use super::leaks::LeakWatch;
use super::sample::{Mebibytes, Sample, Sampler};
use super::serving::Serving;
use super::site::{self, Fpm};
use super::stream::{Address, HOST};
use super::tally::{Counts, Tally};
use super::watch::Watch;
use crate::random::Random;
use crate::{Certificates, Server, TlsClient, Valid};

/// Number of clients: enough to keep the applications' queues filled, few enough for two cores.
const CLIENTS: usize = 48;
/// When the memory baseline is measured: the allocator has reached its working size by then.
const EARLY: Duration = Duration::from_mins(1);

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Duration of the load.
    pub minutes: u32,
    /// Seed of all random decisions. A seed is reproducible as far as the timing of the machine allows.
    pub seed: u64,
    /// Whether the server is replaced by a new process again and again.
    pub upgrades: bool,
}

/// Resource usage of the server.
struct Usage {
    start: Sample,
    early: Sample,
    end: Sample,
    files_peak: usize,
}

/// Runs the soak test, and passes each line of output to `print`. The last line is a summary.
///
/// # Errors
///
/// Describes the failure, or what could not be started.
pub fn run(options: Options, print: impl FnMut(&str)) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let folder = folder.path();
    let certificates =
        Certificates::new().ok_or("openssl is not installed; `cargo xtask setup` installs it")?;
    certificates.signed("soak", HOST, Valid::Now);
    certificates.copy("soak", folder);
    site::write(folder).map_err(|error| format!("cannot write into {}: {error}", folder.display()))?;
    let fpm = Fpm::start(folder)?;
    let server = Server::build().arg("--config").arg(site::configuration(folder)).start();
    let sampler = Sampler::new(server.pid(), site::buffers(folder)).map_err(|error| error.to_string())?;
    let addresses = addresses(&server, &certificates)?;
    let serving = Serving::new(server.pid());
    let load = Load { options, addresses, rudy: &serving, fpm: fpm.pid() };
    let tally = Tally::new();
    let mut watch = Watch::new(&tally, (server, &serving), fpm, sampler, print);
    watch.print(&format!("seed {}, {CLIENTS} clients, {} minutes", options.seed, options.minutes));
    watch.header();
    let (start, links) = (watch.start()?, watch.links());
    // It ends with the process that it watches.
    let leaks = if options.upgrades { None } else { Some(LeakWatch::start(serving.pid(), folder)?) };
    let early =
        load.run(&mut watch, &tally, folder).inspect_err(|_| print_failures(&mut watch, &tally.counts()))?;
    let leaks = leaks.map(LeakWatch::end).transpose();
    let end = watch.settle(&start)?;
    let usage = Usage { start, early, end, files_peak: watch.files_peak() };
    let counts = tally.counts();
    print_details(&mut watch, &counts, &usage, &links);
    let mut problems = usage.problems(&counts);
    match leaks {
        Ok(Some(verdict)) => watch.print(&format!("rudy conns --watch: {verdict}")),
        Ok(None) => {}
        Err(problem) => problems.push(problem),
    }
    watch.print(&usage.summary(options, &counts, problems.is_empty()));
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// Returns the plain address of the server, the one with TLS, and one whose connections it passes to itself.
fn addresses(server: &Server, certificates: &Certificates) -> Result<[Address; 3], String> {
    let address = |number: usize, tls| -> Result<Address, String> {
        let url = server.addresses().get(number).ok_or("the server listens on too few addresses")?;
        let socket = url.split_once("://").map_or(&**url, |(_, socket)| socket).trim_end_matches('/');
        Ok(Address { socket: socket.parse().map_err(|error| format!("{url}: {error}"))?, tls })
    };
    let tls = TlsClient::new(certificates, None, false).remembering().config();
    Ok([address(0, None)?, address(1, Some(tls))?, address(3, None)?])
}

/// The load: clients and faults.
struct Load<'a> {
    options: Options,
    /// Clients use them in turn.
    addresses: [Address; 3],
    rudy: &'a Serving,
    fpm: u32,
}

impl Load<'_> {
    /// Runs until the time is up and the last client has ended. Returns the sample after the first minute.
    fn run<P: FnMut(&str)>(
        &self,
        watch: &mut Watch<'_, P>,
        tally: &Tally,
        folder: &Path,
    ) -> Result<Sample, String> {
        let is_over = AtomicBool::new(false);
        let is_over = &is_over;
        let time = Duration::from_mins(1) * self.options.minutes;
        let (early, end) = (Instant::now() + EARLY.min(time / 2), Instant::now() + time);
        let mut random = Random::new(self.options.seed);
        thread::scope(|scope| {
            let mut faults = Faults {
                tally,
                random: random.fork(),
                folder: folder.to_owned(),
                fpm: self.fpm,
                rudy: self.rudy,
                upgrades: self.options.upgrades,
            };
            let mut threads = vec![scope.spawn(move || faults.run(is_over))];
            for address in self.addresses.iter().cycle().take(CLIENTS) {
                let mut client = Client { address: address.clone(), tally, random: random.fork() };
                threads.push(scope.spawn(move || client.run(is_over)));
            }
            let watched: Result<_, String> = (|| {
                watch.until(|| Instant::now() >= early)?;
                let early = watch.sample()?;
                watch.until(|| Instant::now() >= end)?;
                Ok(early)
            })();
            // Also if the server has ended, so that the clients stop.
            is_over.store(true, Ordering::Relaxed);
            let early = watched?;
            watch.until(|| threads.iter().all(thread::ScopedJoinHandle::is_finished))?;
            Ok(early)
        })
    }
}

/// Prints the failures, and the descriptors that were opened since the start.
fn print_details<P: FnMut(&str)>(watch: &mut Watch<'_, P>, counts: &Counts, usage: &Usage, known: &[String]) {
    if !usage.end.leaks(&usage.start).is_empty() {
        for link in watch.links().iter().filter(|link| !known.contains(link)) {
            watch.print(&format!("descriptor: {link}"));
        }
    }
    print_failures(watch, counts);
    if counts.failures > 0 {
        let log = watch.log();
        watch.print(&format!("the end of the server's log:\n{log}"));
    }
    watch.print(&counts.to_string());
}

fn print_failures<P: FnMut(&str)>(watch: &mut Watch<'_, P>, counts: &Counts) {
    for failure in &counts.shown {
        watch.print(&format!("failed: {failure}"));
    }
}

impl Usage {
    fn problems(&self, counts: &Counts) -> Vec<String> {
        let mut problems = self.end.leaks(&self.start);
        problems.extend(self.end.memory_leak(&self.early));
        if counts.failures > 0 {
            problems.push(format!("{} failures, the first of which are listed above", counts.failures));
        }
        problems
    }

    fn summary(&self, options: Options, counts: &Counts, has_passed: bool) -> String {
        let Self { start, early, end, files_peak } = self;
        format!(
            "soak: {} min, seed {}: {} requests, {} failed, {} killed, {} reloads, {} upgrades; descriptors {} -> {}, \
             threads {} -> {}, files 0 -> {} (at most {files_peak}), memory {} -> {} MiB: {}",
            options.minutes,
            options.seed,
            Thousands(counts.responses()),
            counts.failures,
            counts.killed,
            counts.reloads,
            counts.upgrades,
            start.descriptors,
            end.descriptors,
            start.threads,
            end.threads,
            end.files,
            Mebibytes(early.allocated_bytes),
            Mebibytes(end.allocated_bytes),
            if has_passed { "passed" } else { "failed" }
        )
    }
}

/// Formats a number with a comma between groups of three digits.
struct Thousands(u64);

impl std::fmt::Display for Thousands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (position, digit) in digits.char_indices() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_number_is_formatted_with_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Thousands(number).to_string(), text);
        }
    }
}
