//! What an attack costs a server.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rudy_observe::{Memory, Process, cpu_time};

use super::{Attack, Target};

/// The time between two requests of the other clients. Few, so that their costs do not count.
const PAUSE: Duration = Duration::from_millis(100);

/// What an attack costs a server.
#[derive(Debug)]
pub struct Cost {
    /// The CPU time of a step. It includes new connections and the requests of other clients.
    pub cpu_per_step: Duration,
    /// The growth of the memory without that of files, at its peak.
    pub memory_bytes: u64,
    /// How the connections ended.
    pub end: String,
    /// The connections that remained open until the end of the measurement.
    pub open_connections: usize,
    /// Whether all requests of other clients were served.
    pub serves_others: bool,
}

/// Attacks a server with this number of steps. Meanwhile, and then with the connections of the attack open, others send requests.
/// Panics if the server ends, or does not serve before the attack.
pub fn measure(attack: &Attack, target: &Target, steps: u32) -> Cost {
    target.warm_up();
    let (cpu, memory) = usage(target);
    let (sender, receiver) = channel();
    let mut serves_others = true;
    let outcome = thread::scope(|scope| {
        scope.spawn(move || sender.send(attack.run(target, steps)));
        loop {
            serves_others &= target.serves();
            match receiver.recv_timeout(PAUSE) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the attack {} failed", attack.name),
            }
        }
    });
    serves_others &= target.serves();
    let (cpu_after, memory_after) = usage(target);
    Cost {
        cpu_per_step: cpu_after.saturating_sub(cpu) / outcome.steps().max(1),
        memory_bytes: peak_growth(memory, memory_after),
        end: outcome.to_string(),
        open_connections: outcome.open(),
        serves_others,
    }
}

fn usage(target: &Target) -> (Duration, Memory) {
    let cpu = cpu_time(target.pid()).expect("the server runs");
    let memory = Process::open(target.pid()).and_then(|mut process| process.memory());
    (cpu, memory.expect("the server runs").0)
}

/// Linux knows the peak only with the pages of files, which are not fewer at the end.
fn peak_growth(before: Memory, after: Memory) -> u64 {
    let files = after.rss_bytes - after.anonymous_bytes;
    after.peak_rss_bytes.saturating_sub(files).saturating_sub(before.anonymous_bytes)
}
