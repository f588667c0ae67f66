//! Raises the descriptor limit for tests with thousands of connections.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::skip;

/// Raises the descriptor limit to the hard limit, and returns whether that is at least `wanted`. If not, counts the test as skipped.
pub fn descriptors(wanted: u64) -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a process can use its hard limit");
    let enough = limit.maximum.is_none_or(|maximum| maximum >= wanted);
    if !enough {
        skip(&format!("it needs {wanted} descriptors; `ulimit -Hn` shows the limit"));
    }
    enough
}
