//! How many cores the process may use.

use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Returns the number of cores that the process may use, as it was at the first call: the quota of the control group is in several
/// files, and each site asks.
#[must_use]
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));
    *CORES
}
