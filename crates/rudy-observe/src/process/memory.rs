//! How much memory a process has.

use super::field;

/// Memory of a process in bytes, from `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// In memory now: its own, and all of what it shares.
    pub rss_bytes: u64,
    /// Of that what belongs to no file: heap and stacks. What grows with connections grows here.
    pub anonymous_bytes: u64,
    /// The most `rss_bytes` has been since the program began.
    pub peak_rss_bytes: u64,
    /// Written out to swap.
    pub swap_bytes: u64,
}

impl Memory {
    /// A process of the kernel, and one that has ended, has none of these lines.
    pub(super) fn parse(status: &[u8]) -> Self {
        let bytes = |name| field(status, name).unwrap_or(0) * 1024;
        Self {
            rss_bytes: bytes("VmRSS:"),
            anonymous_bytes: bytes("RssAnon:"),
            peak_rss_bytes: bytes("VmHWM:"),
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
            RssFile:\t    1588 kB\nVmSwap:\t       0 kB\n";
        let expected = Memory {
            rss_bytes: 1700 * 1024,
            anonymous_bytes: 112 * 1024,
            peak_rss_bytes: 1768 * 1024,
            swap_bytes: 0,
        };
        assert_eq!(Memory::parse(status), expected);
    }

    #[test]
    fn a_process_of_the_kernel_has_none() {
        assert_eq!(Memory::parse(b"Name:\tkthreadd\nThreads:\t1\n"), Memory::default());
    }
}
