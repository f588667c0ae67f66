//! Purges in the process that replaces this one.

use rudy_admin::{PurgeRequest, PurgedBy, Request, RunningServer};
use rudy_cache::Key;
use rudy_log::ErrorLog;

/// Why a server without a cache rejects requests about it.
pub(super) const NO_CACHE: &str = "no route of this server has a cache";

/// Purges what requests have changed here. Blocks.
pub(super) fn purge(successor: &RunningServer, keys: &[Key], log: &ErrorLog) {
    // If the new process has ended, this one stores again, and removes the objects then.
    let rejected = keys.iter().filter_map(|key| rudy_admin::ask(successor, &purge_of(key)).err());
    for why in rejected.filter(|why| !why.ends_with(NO_CACHE)) {
        let message = format!("the new process may send what a request has changed here: {why}");
        log.recurring_error("the new process has not purged what a request has changed", &message);
    }
}

/// Returns the request that purges a key in another process.
fn purge_of(key: &Key) -> Request {
    let by = match std::str::from_utf8(key.uri()) {
        Ok(url) => PurgedBy::Url(url.to_owned()),
        // A request is text.
        Err(error) => {
            PurgedBy::Prefix(String::from_utf8_lossy(&key.uri()[..error.valid_up_to()]).into_owned())
        }
    };
    Request::CachePurge(PurgeRequest { by: vec![by], soft: false, wait: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_purged_in_another_process_by_its_url() {
        for (target, by) in [
            (&b"/b?c"[..], PurgedBy::Url("https://a.org/b?c".into())),
            (b"/d\xffe", PurgedBy::Prefix("https://a.org/d".into())),
        ] {
            let expected = Request::CachePurge(PurgeRequest { by: vec![by], soft: false, wait: false });
            assert_eq!(purge_of(&Key::new(true, b"a.org", target)), expected);
        }
    }
}
