//! All-to-all messages on the work-stealing runtime: how many workers are best?
//!
//! N tasks that each ping every other one, answer each ping with a pong, and are done with their last pong. Nothing is
//! computed: what takes time is to send, to wake and to take turns, which is what a scheduler is for. Erlang calls it `big`.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rudy_load::Exit;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// A message has 8 bytes, and all pings may lie in mailboxes at once: of so many tasks 128 MB of them.
const TASKS_MAX: u32 = 4000;

/// As many OS threads as somebody may want to see the cost of.
const WORKERS_MAX: usize = 1024;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// How many tasks; from 2 to 4000.
    pub tasks: u32,
    /// How many OS threads carry them; from 1 to 1024.
    pub workers: usize,
}

/// What it took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Pings and pongs that have come.
    messages: u64,
    /// From the first ping to the last pong.
    time: Duration,
    /// CPU of the process meanwhile, all threads together.
    cpu: Duration,
}

/// Sends all of them once, and prints what it took as lines of a name and a number, as a `run` of the lab reads them.
#[must_use]
pub fn messages(asked: Messages) -> Exit {
    let refuse = |exit, why: &dyn fmt::Display| {
        // There is nobody else to tell.
        let _ = writeln!(io::stderr(), "error: {why}");
        exit
    };
    if !(2..=TASKS_MAX).contains(&asked.tasks) || !(1..=WORKERS_MAX).contains(&asked.workers) {
        let expected =
            format!("N is a number from 2 to {TASKS_MAX}, and --workers one from 1 to {WORKERS_MAX}");
        return refuse(Exit::BadInput, &expected);
    }
    let taken = match taken(asked) {
        Ok(taken) => taken,
        Err(error) => return refuse(Exit::CannotRun, &error),
    };
    // Whoever closed the pipe has what they wanted.
    match io::stdout().write_all(taken.to_string().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => refuse(Exit::CannotRun, &error),
        _ => Exit::Done,
    }
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

fn taken(asked: Messages) -> io::Result<Taken> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(asked.workers).build()?;
    // As a task, so that the workers alone do it: the thread that waits here is none of them.
    let all = runtime.spawn(all_to_all(asked.tasks));
    runtime.block_on(all).map_err(io::Error::other)
}

enum Message {
    Begin,
    Ping { from: u32 },
    Pong,
}

/// Without a bound, as Erlang's mailboxes are, and because with one it could not end: tasks that wait for room in each
/// other's mailboxes, all of them full of pings, wait for ever. The number of tasks is what bounds them.
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
        // A task neither panics nor is aborted: what it does cannot fail.
        messages += received.unwrap_or(0);
    }
    Taken { messages, time: begun.elapsed(), cpu: cpu().saturating_sub(cpu_before) }
}

/// One of them. Says how many pings and pongs it has had.
async fn task(number: u32, mut own: UnboundedReceiver<Message>, mailboxes: Mailboxes) -> u64 {
    let others = mailboxes.len() as u64 - 1;
    let (mut pings, mut pongs) = (0, 0);
    // It is done with its last pong, and still answers who pings it later than that: they would wait for ever.
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
            // It does not end while somebody holds its mailbox, and we do.
            None => break,
        }
    }
    pings + pongs
}

/// Whoever has gone has had all that it waited for.
fn send(mailbox: &UnboundedSender<Message>, message: Message) {
    let _ = mailbox.send(message);
}

/// What the process has computed so far, to the nanosecond: a small run takes less than the ticks in which `/proc` counts.
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
