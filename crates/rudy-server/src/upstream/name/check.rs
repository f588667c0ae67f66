//! Finds names that do not resolve, for `rudy check`.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::answer::{unresolved_line, usable};
use super::lookup::{background_runtime, resolve};
use crate::upstream::UpstreamAddress;

/// The timeout of all lookups together: that of one name server in resolv.conf(5).
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the names among these addresses that do not resolve, with the reason.
pub(crate) fn unresolved(addresses: impl Iterator<Item = UpstreamAddress>) -> Vec<String> {
    let names: BTreeSet<_> = addresses
        .filter_map(|address| match address {
            UpstreamAddress::Name { host, port } => Some((host, port)),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let runtime = match background_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return vec![format!("cannot resolve the names of apps: {error}")],
    };
    let deadline = Instant::now() + TIMEOUT;
    let look_up = |(host, port): (String, u16)| {
        let name = format!("{host}:{port}");
        (name, runtime.spawn_blocking(move || usable(resolve(&host, port))))
    };
    let lookups: Vec<_> = names.into_iter().map(look_up).collect();
    lookups
        .into_iter()
        .filter_map(|(name, lookup)| {
            let why = match runtime.block_on(async { timeout_at(deadline, lookup).await }) {
                Ok(Ok(answer)) => answer.err()?,
                Ok(Err(panic)) => panic.to_string(),
                Err(_) => format!("no answer within {TIMEOUT:?}"),
            };
            Some(unresolved_line(name, &why))
        })
        .collect()
}
