//! The memory of a process.

use super::field;

/// Memory of a process in bytes, from `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Resident memory, including shared pages.
    pub rss_bytes: u64,
    /// The part without a file: heap and stacks. It grows with connections.
    pub anonymous_bytes: u64,
    /// The maximum of `rss_bytes` since the start of the program.
    pub peak_rss_bytes: u64,
    /// Pages of shared memory: of several processes, each has those that it touched.
    pub shared_memory_bytes: u64,
    /// Swapped out.
    pub swap_bytes: u64,
}

impl Memory {
    /// Memory that is no copy of a file: what a process allocates. A read of `status` does not walk the pages, so this
    /// is cheap at any size.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.anonymous_bytes + self.shared_memory_bytes + self.swap_bytes
    }

    /// Kernel threads and ended processes lack these lines.
    pub(super) fn parse(status: &[u8]) -> Self {
        let bytes = |name| field(status, name).unwrap_or(0) * 1024;
        Self {
            rss_bytes: bytes("VmRSS:"),
            anonymous_bytes: bytes("RssAnon:"),
            peak_rss_bytes: bytes("VmHWM:"),
            shared_memory_bytes: bytes("RssShmem:"),
            swap_bytes: bytes("VmSwap:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes() {
        let status = b"Name:\tcat\nVmPeak:\t    3060 kB\nVmHWM:\t    1768 kB\nVmRSS:\t    1700 kB\nRssAnon:\t     112 kB\n\
            RssFile:\t    1588 kB\nRssShmem:\t      64 kB\nVmSwap:\t       0 kB\n";
        let expected = Memory {
            rss_bytes: 1700 * 1024,
            anonymous_bytes: 112 * 1024,
            peak_rss_bytes: 1768 * 1024,
            shared_memory_bytes: 64 * 1024,
            swap_bytes: 0,
        };
        assert_eq!(Memory::parse(status), expected);
    }

    #[test]
    fn a_process_of_the_kernel_has_none() {
        assert_eq!(Memory::parse(b"Name:\tkthreadd\nThreads:\t1\n"), Memory::default());
    }
}
