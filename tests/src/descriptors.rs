//! Room for thousands of connections in a test.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::skip;

/// Allows this process as many descriptors as the system lets it have, and says whether that is `wanted`. Where it is
/// not the test is counted as skipped.
#[must_use]
pub fn descriptors(wanted: u64) -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a process may use what it has");
    let enough = limit.maximum.is_none_or(|maximum| maximum >= wanted);
    if !enough {
        skip(&format!("it needs {wanted} descriptors; `ulimit -Hn` says how many there are"));
    }
    enough
}
