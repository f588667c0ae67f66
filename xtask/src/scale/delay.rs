//! Three hundred requests at once to an answer that takes 40 ms, on each engine: the field report's evaluation.

use std::time::Duration;

use super::Line;
use super::client::burst;
use super::server::Server;
use crate::Outcome;

const REQUESTS: usize = 300;
const DELAY: Duration = Duration::from_millis(40);
/// The engines, and within which time all are answered: 100 ms where nothing waits for another; what comes one after the
/// other may take a quarter more than it must.
const ENGINES: [(&str, Option<usize>); 6] = [
    ("percore", None),
    ("task", None),
    ("mailbox", None),
    ("thread", None),
    ("pool:16", Some(16)),
    ("serial", Some(1)),
];

pub(super) fn measure() -> Outcome<Vec<Line>> {
    ENGINES.iter().map(|(engine, at_once)| line(engine, *at_once)).collect()
}

fn line(engine: &str, at_once: Option<usize>) -> Outcome<Line> {
    let server = Server::rudy(engine)?;
    // Once before, for the client's threads and the server's.
    burst(server.address, 20, "/delay");
    let (good, time) = burst(server.address, REQUESTS, "/delay");
    let at_most = match at_once {
        None => Duration::from_millis(100),
        Some(at_once) => {
            let turns = u32::try_from(REQUESTS.div_ceil(at_once)).unwrap_or(u32::MAX);
            DELAY * turns * 5 / 4
        }
    };
    let errors = REQUESTS - good;
    eprintln!(
        "{engine}: {REQUESTS} requests at once, {errors} errors, all answered after {} ms",
        time.as_millis()
    );
    Ok(Line {
        what: format!("{REQUESTS} requests at once to a delay of 40 ms, {engine}"),
        rudy: format!("{errors} errors"),
        peer: String::new(),
        measured: format!("{} ms", time.as_millis()),
        at_most: format!("{} ms", at_most.as_millis()),
        is_met: errors == 0 && time <= at_most,
    })
}
