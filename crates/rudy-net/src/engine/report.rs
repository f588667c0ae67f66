//! What an engine tells the outside: the problems that an operator should know of, and not too often.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two reports of the same problem: an attack must not fill the disk with lines about itself.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// Receives what happens to an engine. Called on the threads that serve connections: must not block.
pub trait Reporter: Send + Sync + 'static {
    /// Something happened. [`Report`] has the words for a log.
    fn report(&self, report: &Report);
}

impl<F: Fn(&Report) + Send + Sync + 'static> Reporter for F {
    fn report(&self, report: &Report) {
        self(report);
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A problem has is_active.
    Started {
        /// Which.
        problem: Problem,
        /// What it was at first: the limit, the address, the kernel's words.
        detail: String,
    },
    /// It goes on.
    Ongoing {
        /// Which.
        problem: Problem,
        /// How often it happened since the last report.
        count: u64,
    },
    /// It has not happened for some seconds.
    Resolved {
        /// Which.
        problem: Problem,
        /// How often it happened from its beginning.
        total: u64,
    },
    /// A connection's code panicked: a bug in Rudy. That connection is lost and no other; the panic's own message has
    /// gone to the panic hook.
    ConnectionPanicked,
}

/// What may go wrong with accepting, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// More connections than the limit: the new ones are answered 503.
    ConnectionLimit,
    /// More connections than the limit or the descriptors allow: idle ones are closed for new ones.
    IdleEvicted,
    /// More connections from one address than the limit: the new ones are answered 503.
    AddressLimit,
    /// No descriptor is left: new connections are answered 503 where possible, and closed.
    Descriptors,
    /// No thread can be started for a connection, which waits; it is tried again.
    Threads,
    /// Accepting failed for another reason, such as the kernel being out of memory; it is tried again.
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

    /// Whether it is something that failed, rather than a connection that was sent away.
    fn is_failure(self) -> bool {
        matches!(self, Self::Threads | Self::Accept)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionLimit | Self::IdleEvicted => "too many connections",
            Self::AddressLimit => "too many connections from one address",
            Self::Descriptors => "out of descriptors",
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
                write!(f, "{problem}: {detail}; trying again")
            }
            Self::Started { problem: problem @ Problem::IdleEvicted, detail } => {
                write!(f, "{problem}: {detail}; idle ones are closed to make room")
            }
            Self::Started { problem, detail } => write!(f, "{problem}: {detail}; new ones are sent away"),
            Self::Ongoing { problem, count } if problem.is_failure() => {
                write!(f, "{problem}: failed {} in the last {seconds} s", times(*count))
            }
            Self::Ongoing { problem: problem @ Problem::IdleEvicted, count } => {
                write!(f, "{problem}: {count} idle ones closed in the last {seconds} s")
            }
            Self::Ongoing { problem, count } => {
                write!(f, "{problem}: {count} sent away in the last {seconds} s")
            }
            Self::Resolved { problem, total } if problem.is_failure() => {
                write!(f, "{problem}: over, having failed {}", times(*total))
            }
            Self::Resolved { problem: problem @ Problem::IdleEvicted, total } => {
                write!(f, "{problem}: over, {total} idle ones were closed")
            }
            Self::Resolved { problem, total } => write!(f, "{problem}: over, {total} were sent away"),
            Self::ConnectionPanicked => {
                f.write_str("a connection was lost to a bug in Rudy; the panic's message says where")
            }
        }
    }
}

/// Tells a reporter at once that a problem begins, sums up every few seconds while it goes on, and says when it is over.
pub(super) struct ProblemReports {
    reporter: Arc<dyn Reporter>,
    problems: [Mutex<ProblemCount>; Problem::ALL.len()],
}

#[derive(Default)]
struct ProblemCount {
    is_active: bool,
    /// Since the last report.
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

    /// A problem happened once more. Must be called on a tokio runtime, which does the summing up.
    pub(super) fn record(self: &Arc<Self>, problem: Problem, detail: impl FnOnce() -> String) {
        let mut tally = self.tally(problem);
        tally.total += 1;
        if tally.is_active {
            tally.count += 1;
            return;
        }
        *tally = ProblemCount { is_active: true, count: 0, total: 1 };
        drop(tally);
        self.report(&Report::Started { problem, detail: detail() });
        let reports = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(REPORT_PERIOD).await;
                if !reports.sum_up(problem) {
                    break;
                }
            }
        });
    }

    /// What has not been told yet, when nobody is left to tell it later.
    pub(super) fn finish(&self) {
        for problem in Problem::ALL {
            if self.tally(problem).is_active {
                self.sum_up(problem);
            }
        }
    }

    /// Whether it goes on.
    fn sum_up(&self, problem: Problem) -> bool {
        let mut tally = self.tally(problem);
        let count = std::mem::take(&mut tally.count);
        tally.is_active = count > 0;
        let report = match count {
            0 => Report::Resolved { problem, total: tally.total },
            count => Report::Ongoing { problem, count },
        };
        drop(tally);
        self.report(&report);
        count > 0
    }

    /// Numbers are never left half changed, so a panic elsewhere does not matter.
    fn tally(&self, problem: Problem) -> MutexGuard<'_, ProblemCount> {
        self.problems[problem as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collecting() -> (Arc<ProblemReports>, Arc<Mutex<Vec<Report>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        (
            ProblemReports::new(Arc::new(move |report: &Report| sink.lock().unwrap().push(report.clone()))),
            seen,
        )
    }

    #[tokio::test]
    async fn a_trouble_is_told_at_once_then_summed_up_then_over() {
        let (reports, seen) = collecting();
        let problem = Problem::ConnectionLimit;
        for _ in 0..1000 {
            reports.record(problem, || "the limit is 7".to_owned());
        }
        assert_eq!(seen.lock().unwrap().len(), 1);
        assert!(reports.sum_up(problem), "it goes on");
        assert!(!reports.sum_up(problem), "it is over");
        assert_eq!(
            *seen.lock().unwrap(),
            [
                Report::Started { problem, detail: "the limit is 7".to_owned() },
                Report::Ongoing { problem, count: 999 },
                Report::Resolved { problem, total: 1000 },
            ]
        );
        seen.lock().unwrap().clear();
        reports.record(problem, String::new);
        assert_eq!(*seen.lock().unwrap(), [Report::Started { problem, detail: String::new() }]);
    }

    #[tokio::test]
    async fn what_was_not_told_is_told_at_the_end() {
        let (reports, seen) = collecting();
        reports.record(Problem::Descriptors, String::new);
        reports.record(Problem::Descriptors, String::new);
        reports.finish();
        let last = seen.lock().unwrap().last().cloned();
        assert_eq!(last, Some(Report::Ongoing { problem: Problem::Descriptors, count: 1 }));
    }
}
