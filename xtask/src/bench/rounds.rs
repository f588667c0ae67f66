//! Rounds of load, interleaved, and the ratio of each.

use super::load::{self, Cost};
use super::report::{Measured, Spread};
use super::server::Server;
use super::site::Site;
use super::{Row, report};
use crate::Outcome;

/// A second for each to open its files and grow its tables.
const WARM_UP_SECONDS: u32 = 1;

/// Measures one row: who goes first changes from round to round.
pub(super) fn measure(
    row: &Row,
    servers: &[Server; 2],
    site: &Site,
    rounds: u32,
    seconds: u32,
) -> Outcome<Measured> {
    for server in servers {
        check_answer(row, server, site)?;
        load::burst(server, row, WARM_UP_SECONDS)?;
    }
    let mut costs: [Vec<Cost>; 2] = [vec![], vec![]];
    let mut ratios = Vec::new();
    for round in 1..=rounds {
        let mut order = [0, 1];
        if round % 2 == 0 {
            order.reverse();
        }
        for index in order {
            costs[index].push(load::burst(&servers[index], row, seconds)?);
        }
        let cpu = |index: usize| costs[index].last().map_or(f64::NAN, |cost| cost.cpu_us_per_request);
        ratios.push(cpu(0) / cpu(1));
        eprintln!(
            "{}: round {round} of {rounds}: {} {:.2}, {} {:.2} us of CPU a request, ratio {:.3}",
            row.what,
            servers[0].kind.name(),
            cpu(0),
            servers[1].kind.name(),
            cpu(1),
            cpu(0) / cpu(1)
        );
    }
    let median = |costs: &[Cost], figure: fn(&Cost) -> f64| Spread::of(costs.iter().map(figure)).median;
    Ok(Measured {
        name: row.name,
        what: row.what.into(),
        unit: report::Unit::CpuMicrosecondsPerRequest,
        sides: [0, 1].map(|index| median(&costs[index], |cost| cost.cpu_us_per_request)),
        requests_per_second: Some([0, 1].map(|index| median(&costs[index], |cost| cost.requests_per_second))),
        judged: Spread::of(ratios),
        at_most: Some(row.ratio_at_most),
        command: crate::command::line(&load::wrk(&servers[0].url(row.file), row, seconds)),
    })
}

/// wrk counts whatever it gets: that it is the right status, and a whole file, is seen here.
fn check_answer(row: &Row, server: &Server, site: &Site) -> Outcome {
    let answer = server.ask(row.file, row.header);
    let answer = answer.map_err(|error| format!("{} does not answer: {error}", server.kind.name()))?;
    let length = site.size(row.file)?;
    if answer.status != row.status || (row.status == 200 && answer.content_length != Some(length)) {
        return Err(format!(
            "{} answers {} with a length of {:?} where {} and {length} bytes were expected: {}",
            server.kind.name(),
            answer.status,
            answer.content_length,
            row.status,
            server.url(row.file)
        ));
    }
    Ok(())
}
