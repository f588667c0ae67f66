//! Follows the links of a site, from a page of the old server.

use std::collections::{HashSet, VecDeque};

use rudy_request::Url;

use super::progress::Progress;
use crate::compare::decoded;
use crate::request::is_target;
use crate::source::links;
use crate::{Ended, Place, Replay, Request, Response};

/// Maximum number of links that wait, and of those that were seen. They are in memory.
const LINKS_MAX: usize = 100_000;

/// Sends requests for a page and all that it leads to on the same host, at most `limit`. Places are numbers of requests.
pub(super) fn crawl(
    replay: &mut Replay<'_>,
    start: &Url,
    limit: usize,
    progress: &mut Progress,
) -> Result<(), Ended> {
    let mut waiting = VecDeque::from([start.clone()]);
    let mut seen = HashSet::from([start.target().to_owned()]);
    let mut number = 0;
    while let Some(url) = waiting.pop_front() {
        if number >= limit {
            replay.report().skip("over the limit", 1);
            continue;
        }
        number += 1;
        let place = Place(number as u64);
        let request = Request { host: Some(url.authority()), ..Request::get(place, url.target()) };
        if let Some(Ok(response)) = replay.send(&request)? {
            for link in found(&response) {
                let Ok(next) = url.join(&link) else { continue };
                let is_own = next.authority() == url.authority() && is_target(next.target());
                if is_own && seen.len() < LINKS_MAX && seen.insert(next.target().to_owned()) {
                    waiting.push_back(next);
                }
            }
        }
        progress.show(replay.report(), None);
    }
    Ok(())
}

/// The links of a response: those of a page, and the target of a redirect.
fn found(response: &Response) -> Vec<String> {
    let mut found: Vec<_> = response.field("location").into_iter().collect();
    if response.media_type() == "text/html" {
        found.extend(links(&String::from_utf8_lossy(&decoded(response))));
    }
    found
}
