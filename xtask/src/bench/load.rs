//! One burst of load by wrk, and what it cost the server.

use std::process::Command;

use super::server::Server;
use super::{Row, machine};
use crate::{Outcome, command, process};

/// What a burst of load came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// CPU of the server's processes over the requests answered.
    pub(super) cpu_us_per_request: f64,
    pub(super) requests_per_second: f64,
}

/// Loads the server for `seconds`. An error under load makes the figure worthless and fails.
pub(super) fn burst(server: &Server, row: &Row, seconds: u32) -> Outcome<Cost> {
    let before = process::cpu_us(server.pid());
    let printed = command::output(&mut wrk(&server.url(row.file), row, seconds))?;
    let spent = process::cpu_us(server.pid()) - before;
    let counts =
        parse(&printed).map_err(|why| format!("{} under load: {why}\n{printed}", server.kind.name()))?;
    Ok(Cost { cpu_us_per_request: spent / counts.requests, requests_per_second: counts.requests_per_second })
}

/// The load as a command: one thread, which no server here outruns by enough to matter for CPU per request.
pub(super) fn wrk(url: &str, row: &Row, seconds: u32) -> Command {
    let mut wrk = Command::new(machine::WRK);
    wrk.args(["-t1", &format!("-c{}", row.connections), &format!("-d{seconds}s")]);
    if let Some(header) = row.header {
        wrk.args(["-H", header]);
    }
    wrk.arg(url);
    wrk
}

/// What wrk counted.
#[derive(Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) requests: f64,
    pub(super) requests_per_second: f64,
}

pub(super) fn parse(printed: &str) -> Result<Counts, &'static str> {
    if printed.contains("Non-2xx or 3xx responses") || printed.contains("Socket errors:") {
        return Err("it answered with errors");
    }
    let number = |marker: &str, after: bool| {
        let line = printed.lines().find(|line| line.contains(marker))?;
        let (left, right) = line.split_once(marker)?;
        (if after { right } else { left }).trim().parse::<f64>().ok()
    };
    let requests = number(" requests in ", false).filter(|requests| *requests > 0.0);
    let requests_per_second = number("Requests/sec:", true);
    match (requests, requests_per_second) {
        (Some(requests), Some(requests_per_second)) => Ok(Counts { requests, requests_per_second }),
        _ => Err("wrk printed no counts that we understand"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 3s test @ http://127.0.0.1:7101/1k.html
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms    0.51ms  12.34ms   88.00%
    Req/Sec    61.50k     2.00k   65.00k    70.00%
  184321 requests in 3.01s, 220.00MB read
Requests/sec:  61235.88
Transfer/sec:     73.09MB
";

    #[test]
    fn wrks_counts_are_read() {
        assert_eq!(parse(PRINTED), Ok(Counts { requests: 184_321.0, requests_per_second: 61_235.88 }));
    }

    #[test]
    fn errors_under_load_are_not_counted_as_a_measurement() {
        assert!(parse(&format!("{PRINTED}  Non-2xx or 3xx responses: 5\n")).is_err());
        assert!(
            parse(&format!("  Socket errors: connect 0, read 3, write 0, timeout 0\n{PRINTED}")).is_err()
        );
        assert!(parse("").is_err());
        assert!(parse(&PRINTED.replace("184321", "0")).is_err());
    }
}
