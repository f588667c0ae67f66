//! All-to-all messages on the work-stealing runtime: measures how many workers are best.
//!
//! N tasks send a ping to each other, reply to each ping with a pong, and end after their last pong. They
//! compute nothing, so the time is that of sending, waking and switching, which is the scheduler's work.
//! Erlang calls this benchmark `big`.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rudy_command::{Exit, print, report_error};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// A message has 8 bytes, and all pings can be queued at once: 128 MB for the maximum number of tasks.
const TASKS_MAX: u32 = 4000;

/// Maximum number of OS threads.
const WORKERS_MAX: usize = 1024;

/// The parameters.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// The number of tasks, from 2 to 4000.
    pub tasks: u32,
    /// The number of worker threads, from 1 to 1024.
    pub workers: usize,
}

/// The result.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// The number of received pings and pongs.
    messages: u64,
    /// The time from the first ping to the last pong.
    time: Duration,
    /// CPU time of the process in that time, over all threads.
    cpu: Duration,
}

/// Runs the benchmark, and prints the results as lines with a name and a number, which a `run` of the lab
/// parses.
#[must_use]
pub fn messages(options: Messages) -> Exit {
    if !(2..=TASKS_MAX).contains(&options.tasks) || !(1..=WORKERS_MAX).contains(&options.workers) {
        let expected = format!("expected N from 2 to {TASKS_MAX}, and --workers from 1 to {WORKERS_MAX}");
        return report_error(Exit::BadInput, &expected);
    }
    let taken = match taken(options) {
        Ok(taken) => taken,
        Err(error) => return report_error(Exit::CannotRun, &error.to_string()),
    };
    print(&taken.to_string())
}

impl fmt::Display for Taken {
    #[expect(clippy::cast_precision_loss, reason = "at most 32 million")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.messages as f64;
        writeln!(f, "time_s {:.6}", self.time.as_secs_f64())?;
        writeln!(f, "cpu_s {:.6}", self.cpu.as_secs_f64())?;
        writeln!(f, "messages {}", self.messages)?;
        writeln!(f, "ns_per_message {:.1}", self.time.as_secs_f64() * 1e9 / messages)
    }
}

fn taken(options: Messages) -> io::Result<Taken> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(options.workers).build()?;
    // Runs as a task, so that only workers do the work and not the thread that waits here.
    let all = runtime.spawn(all_to_all(options.tasks));
    runtime.block_on(all).map_err(io::Error::other)
}

enum Message {
    Begin,
    Ping { from: u32 },
    Pong,
}

/// Unbounded, like Erlang's mailboxes. With a bound the tasks could deadlock, each waiting for room in full
/// mailboxes of the others. The number of tasks limits the number of messages.
type Mailboxes = Arc<[UnboundedSender<Message>]>;

async fn all_to_all(tasks: u32) -> Taken {
    let (mailboxes, own): (Vec<_>, Vec<_>) = (0..tasks).map(|_| unbounded_channel()).unzip();
    let mailboxes: Mailboxes = mailboxes.into();
    let mut all = JoinSet::new();
    for (number, own) in (0..).zip(own) {
        all.spawn(task(number, own, Arc::clone(&mailboxes)));
    }
    let (begun, cpu_before) = (Instant::now(), cpu());
    for mailbox in &*mailboxes {
        send(mailbox, Message::Begin);
    }
    let mut messages = 0;
    while let Some(received) = all.join_next().await {
        // A task neither panics nor is aborted.
        messages += received.unwrap_or(0);
    }
    Taken { messages, time: begun.elapsed(), cpu: cpu().saturating_sub(cpu_before) }
}

/// Runs one task. Returns the number of received pings and pongs.
async fn task(number: u32, mut own: UnboundedReceiver<Message>, mailboxes: Mailboxes) -> u64 {
    let others = mailboxes.len() as u64 - 1;
    let (mut pings, mut pongs) = (0, 0);
    // The task is done after its last pong, but must still reply to later pings.
    while pings < others || pongs < others {
        match own.recv().await {
            Some(Message::Begin) => {
                let others = (0..).zip(&*mailboxes).filter(|(other, _)| *other != number);
                others.for_each(|(_, mailbox)| send(mailbox, Message::Ping { from: number }));
            }
            Some(Message::Ping { from }) => {
                pings += 1;
                send(&mailboxes[from as usize], Message::Pong);
            }
            Some(Message::Pong) => pongs += 1,
            // `recv` never returns `None` while a sender exists, and this task holds one.
            None => break,
        }
    }
    pings + pongs
}

/// A receiver that has gone has received all its messages.
fn send(mailbox: &UnboundedSender<Message>, message: Message) {
    let _ = mailbox.send(message);
}

/// The CPU time of the process in nanoseconds. The ticks of `/proc` are too coarse for a small run.
fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ping_and_every_pong_is_counted_with_any_number_of_workers() {
        for (tasks, workers) in [(2, 1), (50, 1), (50, 2), (200, 8)] {
            let taken = taken(Messages { tasks, workers }).unwrap();
            assert_eq!(taken.messages, u64::from(2 * tasks * (tasks - 1)), "{tasks} on {workers}");
            assert!(!taken.time.is_zero() && !taken.cpu.is_zero());
        }
    }

    #[test]
    fn a_line_is_a_name_and_a_number() {
        let taken = Taken { messages: 4, time: Duration::from_micros(10), cpu: Duration::from_micros(12) };
        let expected = "time_s 0.000010\ncpu_s 0.000012\nmessages 4\nns_per_message 2500.0\n";
        assert_eq!(taken.to_string(), expected);
    }
}
