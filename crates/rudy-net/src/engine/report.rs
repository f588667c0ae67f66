//! What an engine tells the outside: the troubles that an operator should know of, and not too often.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two reports of the same trouble: an attack must not fill the disk with lines about itself.
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
    /// A trouble has begun.
    Began {
        /// Which.
        trouble: Trouble,
        /// What it was at first: the limit, the address, the kernel's words.
        detail: String,
    },
    /// It goes on.
    GoesOn {
        /// Which.
        trouble: Trouble,
        /// How often it happened since the last report.
        count: u64,
    },
    /// It has not happened for some seconds.
    Over {
        /// Which.
        trouble: Trouble,
        /// How often it happened from its beginning.
        total: u64,
    },
    /// A connection's code panicked: a bug in Rudy. That connection is lost and no other; the panic's own message has
    /// gone to the panic hook.
    ConnectionPanicked,
}

/// What may go wrong with accepting, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// More connections than the limit: the new ones are answered 503.
    Connections,
    /// More connections than the limit or the descriptors allow: idle ones are closed for new ones.
    Idle,
    /// More connections from one address than the limit: the new ones are answered 503.
    Address,
    /// No descriptor is left: new connections are answered 503 where possible, and closed.
    Descriptors,
    /// No thread can be started for a connection, which waits; it is tried again.
    Threads,
    /// Accepting failed for another reason, such as the kernel being out of memory; it is tried again.
    Accept,
}

impl Trouble {
    const ALL: [Self; 6] =
        [Self::Connections, Self::Idle, Self::Address, Self::Descriptors, Self::Threads, Self::Accept];

    /// Whether it is something that failed, rather than a connection that was sent away.
    fn is_failure(self) -> bool {
        matches!(self, Self::Threads | Self::Accept)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections | Self::Idle => "too many connections",
            Self::Address => "too many connections from one address",
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
            Self::Began { trouble, detail } if trouble.is_failure() => {
                write!(f, "{trouble}: {detail}; trying again")
            }
            Self::Began { trouble: trouble @ Trouble::Idle, detail } => {
                write!(f, "{trouble}: {detail}; idle ones are closed to make room")
            }
            Self::Began { trouble, detail } => write!(f, "{trouble}: {detail}; new ones are sent away"),
            Self::GoesOn { trouble, count } if trouble.is_failure() => {
                write!(f, "{trouble}: failed {} in the last {seconds} s", times(*count))
            }
            Self::GoesOn { trouble: trouble @ Trouble::Idle, count } => {
                write!(f, "{trouble}: {count} idle ones closed in the last {seconds} s")
            }
            Self::GoesOn { trouble, count } => {
                write!(f, "{trouble}: {count} sent away in the last {seconds} s")
            }
            Self::Over { trouble, total } if trouble.is_failure() => {
                write!(f, "{trouble}: over, having failed {}", times(*total))
            }
            Self::Over { trouble: trouble @ Trouble::Idle, total } => {
                write!(f, "{trouble}: over, {total} idle ones were closed")
            }
            Self::Over { trouble, total } => write!(f, "{trouble}: over, {total} were sent away"),
            Self::ConnectionPanicked => {
                f.write_str("a connection was lost to a bug in Rudy; the panic's message says where")
            }
        }
    }
}

/// Tells a reporter at once that a trouble begins, sums up every few seconds while it goes on, and says when it is over.
pub(super) struct Reports {
    reporter: Arc<dyn Reporter>,
    troubles: [Mutex<Tally>; Trouble::ALL.len()],
}

#[derive(Default)]
struct Tally {
    begun: bool,
    /// Since the last report.
    count: u64,
    total: u64,
}

impl Reports {
    pub(super) fn new(reporter: Arc<dyn Reporter>) -> Arc<Self> {
        Arc::new(Self { reporter, troubles: std::array::from_fn(|_| Mutex::default()) })
    }

    pub(super) fn report(&self, report: &Report) {
        self.reporter.report(report);
    }

    /// A trouble happened once more. Must be called on a tokio runtime, which does the summing up.
    pub(super) fn happened(self: &Arc<Self>, trouble: Trouble, detail: impl FnOnce() -> String) {
        let mut tally = self.tally(trouble);
        tally.total += 1;
        if tally.begun {
            tally.count += 1;
            return;
        }
        *tally = Tally { begun: true, count: 0, total: 1 };
        drop(tally);
        self.report(&Report::Began { trouble, detail: detail() });
        let reports = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(REPORT_PERIOD).await;
                if !reports.sum_up(trouble) {
                    break;
                }
            }
        });
    }

    /// What has not been told yet, when nobody is left to tell it later.
    pub(super) fn finish(&self) {
        for trouble in Trouble::ALL {
            if self.tally(trouble).begun {
                self.sum_up(trouble);
            }
        }
    }

    /// Whether it goes on.
    fn sum_up(&self, trouble: Trouble) -> bool {
        let mut tally = self.tally(trouble);
        let count = std::mem::take(&mut tally.count);
        tally.begun = count > 0;
        let report = match count {
            0 => Report::Over { trouble, total: tally.total },
            count => Report::GoesOn { trouble, count },
        };
        drop(tally);
        self.report(&report);
        count > 0
    }

    /// Numbers are never left half changed, so a panic elsewhere does not matter.
    fn tally(&self, trouble: Trouble) -> MutexGuard<'_, Tally> {
        self.troubles[trouble as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collecting() -> (Arc<Reports>, Arc<Mutex<Vec<Report>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        (Reports::new(Arc::new(move |report: &Report| sink.lock().unwrap().push(report.clone()))), seen)
    }

    #[tokio::test]
    async fn a_trouble_is_told_at_once_then_summed_up_then_over() {
        let (reports, seen) = collecting();
        let trouble = Trouble::Connections;
        for _ in 0..1000 {
            reports.happened(trouble, || "the limit is 7".to_owned());
        }
        assert_eq!(seen.lock().unwrap().len(), 1);
        assert!(reports.sum_up(trouble), "it goes on");
        assert!(!reports.sum_up(trouble), "it is over");
        assert_eq!(
            *seen.lock().unwrap(),
            [
                Report::Began { trouble, detail: "the limit is 7".to_owned() },
                Report::GoesOn { trouble, count: 999 },
                Report::Over { trouble, total: 1000 },
            ]
        );
        seen.lock().unwrap().clear();
        reports.happened(trouble, String::new);
        assert_eq!(*seen.lock().unwrap(), [Report::Began { trouble, detail: String::new() }]);
    }

    #[tokio::test]
    async fn what_was_not_told_is_told_at_the_end() {
        let (reports, seen) = collecting();
        reports.happened(Trouble::Descriptors, String::new);
        reports.happened(Trouble::Descriptors, String::new);
        reports.finish();
        let last = seen.lock().unwrap().last().cloned();
        assert_eq!(last, Some(Report::GoesOn { trouble: Trouble::Descriptors, count: 1 }));
    }
}
