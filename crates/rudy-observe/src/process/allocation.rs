//! The allocated memory of several processes, which may share pages.

use super::Process;
use crate::Error;

/// The allocated memory of processes at a time, by both ways to count it.
///
/// After `fork`, a page is in the counters of both processes until one of them writes to it, and then in those of both again, so the sum
/// of the counters changes neither when memory is copied nor shows what is shared. Only a walk over the pages does. It blocks the processes
/// meanwhile, so it is done before a workload and at the moments that count, and the counters show the change in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Each page once: [`allocated_pss_bytes`](Process::allocated_pss_bytes).
    pub exact_bytes: u64,
    /// Each page in every process that has it: [`allocated_bytes`](super::Memory::allocated_bytes).
    counted_bytes: u64,
}

impl Allocation {
    /// Walks the pages of these processes. A process that has ended is left out; the error is that of another one that is missing.
    pub fn read(pids: impl IntoIterator<Item = u32>) -> (Self, Option<Error>) {
        let (mut all, mut missing) = (Self::default(), None);
        for pid in pids {
            match Self::of(pid) {
                Ok(one) => {
                    all.exact_bytes += one.exact_bytes;
                    all.counted_bytes += one.counted_bytes;
                }
                Err(error) if error.is_end() || matches!(error, Error::NoSuchProcess { .. }) => {}
                Err(error) => missing = missing.or(Some(error)),
            }
        }
        (all, missing)
    }

    fn of(pid: u32) -> Result<Self, Error> {
        let mut process = Process::open(pid)?;
        let exact_bytes = process.allocated_pss_bytes()?;
        Ok(Self { exact_bytes, counted_bytes: process.memory()?.0.allocated_bytes() })
    }

    /// The memory now, from the sum of the counters of the same processes.
    #[must_use]
    pub fn at(self, counted_bytes: u64) -> u64 {
        (self.exact_bytes + counted_bytes).saturating_sub(self.counted_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use super::*;
    use crate::descendants;

    /// A shell with 20 MB, which it shares with a fork of itself, which then frees its copy.
    const SCRIPT: &str = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo allocated; read _; \
                          (echo forked; read _; x=; echo freed; read _); true";

    struct Shell {
        child: Child,
        input: ChildStdin,
        output: BufReader<ChildStdout>,
    }

    impl Shell {
        fn start() -> Self {
            let mut command = Command::new("/bin/sh");
            let mut child = command
                .args(["-c", SCRIPT])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let output = BufReader::new(output.expect("a pipe"));
            Self { child, input: input.expect("a pipe"), output }
        }

        /// Waits for the next line of its output, and returns its memory.
        fn reaches(&mut self, expected: &str) -> (Allocation, u64) {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("output");
            assert_eq!(line.trim_end(), expected);
            let forks = descendants(vec![self.child.id()], &[]);
            let pids: Vec<_> =
                [self.child.id()].into_iter().chain(forks.iter().map(|fork| fork.pid)).collect();
            let (allocation, missing) = Allocation::read(pids.iter().copied());
            assert!(missing.is_none(), "{missing:?}");
            (allocation, allocation.counted_bytes)
        }

        fn proceeds(&mut self) {
            self.input.write_all(b"\n").expect("it reads");
        }
    }

    /// Whether two sizes differ by at most 2 MB: a shell itself has less than one.
    fn is_near(actual: u64, expected: u64) -> bool {
        actual.abs_diff(expected) <= 2_000_000
    }

    #[test]
    fn memory_that_forks_share_counts_once_whatever_the_counters_say() {
        let mut shell = Shell::start();
        let (one, counted_of_one) = shell.reaches("allocated");
        assert!(one.exact_bytes >= 20_000_000 && is_near(counted_of_one, one.exact_bytes), "{one:?}");
        shell.proceeds();
        let (two, counted_of_two) = shell.reaches("forked");
        assert!(is_near(two.exact_bytes, one.exact_bytes), "{two:?} {one:?}");
        assert!(counted_of_two > 35_000_000, "{two:?}");
        shell.proceeds();
        // The pages of the fork are gone, and those of the shell remain.
        let (freed, counted) = shell.reaches("freed");
        assert!(is_near(freed.exact_bytes, one.exact_bytes), "{freed:?} {one:?}");
        assert_eq!(freed.at(counted), freed.exact_bytes);
        assert!(
            two.at(counted) < 5_000_000,
            "an earlier walk knows nothing of what has been copied or freed"
        );
        shell.proceeds();
        shell.child.wait().expect("it ends");
    }
}
