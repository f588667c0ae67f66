//! Reports the problems of an engine to the operator, at a limited rate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Interval between two reports of the same problem: an attack must not fill the disk with log lines.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// Receives the reports of an engine. Called on the threads that serve connections: must not block.
pub trait Reporter: Send + Sync + 'static {
    /// Handles a report. Its `Display` form is meant for a log.
    fn report(&self, report: &Report);
}

impl<F: Fn(&Report) + Send + Sync + 'static> Reporter for F {
    fn report(&self, report: &Report) {
        self(report);
    }
}

/// An event in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A problem has started.
    Started {
        /// The problem.
        problem: Problem,
        /// Details of the first occurrence: the limit, the address, the kernel's error.
        detail: String,
    },
    /// The problem continues.
    Ongoing {
        /// The problem.
        problem: Problem,
        /// Number of occurrences since the last report.
        count: u64,
    },
    /// The problem has not occurred for some seconds.
    Resolved {
        /// The problem.
        problem: Problem,
        /// Number of occurrences since the problem started.
        total: u64,
    },
    /// A connection's code panicked: a bug in Rudy. Only that connection is lost. The panic hook has received
    /// the panic message.
    ConnectionPanicked,
}

/// A recurring problem with accepting connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The connection limit is reached: new connections receive 503.
    ConnectionLimit,
    /// The connection limit or the descriptor limit is reached: idle connections are closed for new ones.
    IdleEvicted,
    /// The limit of connections from one address is reached: new ones receive 503.
    AddressLimit,
    /// The process is out of descriptors: new connections receive 503 if possible, and are closed.
    Descriptors,
    /// Starting a thread for a connection failed. The connection waits for the next attempt.
    Threads,
    /// Accepting failed for another reason, for example because the kernel is out of memory. The acceptor
    /// retries.
    Accept,
}

impl Problem {
    const ALL: [Self; 6] = [
        Self::ConnectionLimit,
        Self::IdleEvicted,
        Self::AddressLimit,
        Self::Descriptors,
        Self::Threads,
        Self::Accept,
    ];

    /// Whether an operation failed, as opposed to a connection over a limit.
    fn is_failure(self) -> bool {
        matches!(self, Self::Threads | Self::Accept)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionLimit | Self::IdleEvicted => "too many connections",
            Self::AddressLimit => "too many connections from one address",
            Self::Descriptors => "out of file descriptors",
            Self::Threads => "cannot start threads for connections",
            Self::Accept => "cannot accept connections",
        })
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = REPORT_PERIOD.as_secs();
        match self {
            Self::Started { problem, detail } if problem.is_failure() => {
                write!(f, "{problem}: {detail}; retrying")
            }
            Self::Started { problem: problem @ Problem::IdleEvicted, detail } => {
                write!(f, "{problem}: {detail}; closing idle connections to make room")
            }
            Self::Started { problem, detail } => write!(f, "{problem}: {detail}; rejecting new connections"),
            Self::Ongoing { problem, count } if problem.is_failure() => {
                write!(f, "{problem}: failed {} in the last {seconds} s", times(*count))
            }
            Self::Ongoing { problem: problem @ Problem::IdleEvicted, count } => {
                write!(f, "{problem}: closed {count} idle connections in the last {seconds} s")
            }
            Self::Ongoing { problem, count } => {
                write!(f, "{problem}: rejected {count} connections in the last {seconds} s")
            }
            Self::Resolved { problem, total } if problem.is_failure() => {
                write!(f, "{problem}: resolved after failing {}", times(*total))
            }
            Self::Resolved { problem: problem @ Problem::IdleEvicted, total } => {
                write!(f, "{problem}: resolved after closing {total} idle connections")
            }
            Self::Resolved { problem, total } => {
                write!(f, "{problem}: resolved after rejecting {total} connections")
            }
            Self::ConnectionPanicked => {
                f.write_str("a bug in Rudy ended a connection; the panic message shows where")
            }
        }
    }
}

/// Reports a problem when it starts, every few seconds while it continues, and when it is resolved.
pub(super) struct ProblemReports {
    reporter: Arc<dyn Reporter>,
    problems: [Mutex<ProblemCount>; Problem::ALL.len()],
}

#[derive(Default)]
struct ProblemCount {
    is_active: bool,
    /// Occurrences since the last report.
    count: u64,
    total: u64,
}

impl ProblemReports {
    pub(super) fn new(reporter: Arc<dyn Reporter>) -> Arc<Self> {
        Arc::new(Self { reporter, problems: std::array::from_fn(|_| Mutex::default()) })
    }

    pub(super) fn report(&self, report: &Report) {
        self.reporter.report(report);
    }

    /// Records one occurrence of a problem. Must be called on a tokio runtime, which sends the later reports.
    pub(super) fn record(self: &Arc<Self>, problem: Problem, detail: impl FnOnce() -> String) {
        let mut counts = self.problems[problem as usize].lock();
        counts.total += 1;
        if counts.is_active {
            counts.count += 1;
            return;
        }
        *counts = ProblemCount { is_active: true, count: 0, total: 1 };
        drop(counts);
        self.report(&Report::Started { problem, detail: detail() });
        let reports = self.clone();
        rudy_runtime::spawn(async move {
            loop {
                tokio::time::sleep(REPORT_PERIOD).await;
                if !reports.report_count(problem) {
                    break;
                }
            }
        });
    }

    /// Sends the final reports before the engine ends.
    pub(super) fn finish(&self) {
        for problem in Problem::ALL {
            if self.problems[problem as usize].lock().is_active {
                self.report_count(problem);
            }
        }
    }

    /// Reports the occurrences since the last report. Returns whether the problem continues.
    fn report_count(&self, problem: Problem) -> bool {
        let mut counts = self.problems[problem as usize].lock();
        let count = std::mem::take(&mut counts.count);
        counts.is_active = count > 0;
        let report = match count {
            0 => Report::Resolved { problem, total: counts.total },
            count => Report::Ongoing { problem, count },
        };
        drop(counts);
        self.report(&report);
        count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collecting() -> (Arc<ProblemReports>, Arc<Mutex<Vec<Report>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        (ProblemReports::new(Arc::new(move |report: &Report| sink.lock().push(report.clone()))), seen)
    }

    #[tokio::test]
    async fn a_problem_is_reported_when_it_starts_while_it_continues_and_when_it_is_resolved() {
        let (reports, seen) = collecting();
        let problem = Problem::ConnectionLimit;
        for _ in 0..1000 {
            reports.record(problem, || "the limit is 7".to_owned());
        }
        assert_eq!(seen.lock().len(), 1);
        assert!(reports.report_count(problem), "it goes on");
        assert!(!reports.report_count(problem), "it is over");
        assert_eq!(
            *seen.lock(),
            [
                Report::Started { problem, detail: "the limit is 7".to_owned() },
                Report::Ongoing { problem, count: 999 },
                Report::Resolved { problem, total: 1000 },
            ]
        );
        seen.lock().clear();
        reports.record(problem, String::new);
        assert_eq!(*seen.lock(), [Report::Started { problem, detail: String::new() }]);
    }

    #[tokio::test]
    async fn unreported_occurrences_are_reported_when_the_engine_ends() {
        let (reports, seen) = collecting();
        reports.record(Problem::Descriptors, String::new);
        reports.record(Problem::Descriptors, String::new);
        reports.finish();
        let last = seen.lock().last().cloned();
        assert_eq!(last, Some(Report::Ongoing { problem: Problem::Descriptors, count: 1 }));
    }
}
