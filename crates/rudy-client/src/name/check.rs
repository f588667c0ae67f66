//! Looks names up for `rudy check`.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::lookup::background_runtime;

/// The timeout of all lookups together: that of one name server in resolv.conf(5).
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs all these lookups at the same time. Returns their results in order; those that take too long have failed.
#[must_use]
pub fn look_up_all<T: Send + 'static>(
    lookups: Vec<impl Future<Output = Result<T, String>> + Send + 'static>,
) -> Vec<Result<T, String>> {
    // Without a name, no thread starts.
    if lookups.is_empty() {
        return Vec::new();
    }
    let runtime = match background_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return lookups.iter().map(|_| Err(error.to_string())).collect(),
    };
    let deadline = Instant::now() + TIMEOUT;
    let running: Vec<_> = lookups.into_iter().map(|lookup| runtime.spawn(lookup)).collect();
    let result = |lookup| match runtime.block_on(async { timeout_at(deadline, lookup).await }) {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(format!("{panic}")),
        Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
    };
    running.into_iter().map(result).collect()
}
