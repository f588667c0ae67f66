//! What a request costs the gateway, php-fpm not counted.

use std::process::Command;

use super::Line;
use super::fpm::HELLO;
use super::gateway::Gateway;
use crate::bench::{counted_by_wrk, machine, report::Spread};
use crate::{Outcome, command, process};

/// What a request may cost of what it costs nginx.
const RATIO_AT_MOST: f64 = 0.60;

/// Twice as many as php-fpm has processes: some requests always wait.
const CONNECTIONS: &str = "16";

/// A second for php-fpm to have all its processes, and for each gateway to grow its tables.
const WARM_UP_SECONDS: u32 = 1;

/// What a gateway came to in one round.
#[derive(Clone, Copy)]
struct Cost {
    cpu_us_per_request: f64,
    requests_per_second: f64,
}

/// Measures both. The rounds are interleaved, A B, B A, so that a change in the machine's mood falls on both.
pub(super) fn measure(gateways: &[Gateway; 2], rounds: u32, seconds: u32) -> Outcome<[Line; 2]> {
    for gateway in gateways {
        burst(gateway, WARM_UP_SECONDS)?;
    }
    let mut costs = Vec::new();
    for round in 1..=rounds {
        let pair = if round % 2 == 1 {
            let rudy = burst(&gateways[0], seconds)?;
            [rudy, burst(&gateways[1], seconds)?]
        } else {
            let nginx = burst(&gateways[1], seconds)?;
            [burst(&gateways[0], seconds)?, nginx]
        };
        eprintln!(
            "round {round} of {rounds}: rudy {:.2} µs, {:.0}/s; nginx {:.2} µs, {:.0}/s; ratio {:.3}",
            pair[0].cpu_us_per_request,
            pair[0].requests_per_second,
            pair[1].cpu_us_per_request,
            pair[1].requests_per_second,
            pair[0].cpu_us_per_request / pair[1].cpu_us_per_request
        );
        costs.push(pair);
    }
    Ok([cpu(&costs), rate(&costs)])
}

fn cpu(costs: &[[Cost; 2]]) -> Line {
    let ratio = ratio(costs, |cost| cost.cpu_us_per_request);
    Line {
        what: format!("CPU per request, {CONNECTIONS} connections"),
        figures: medians(costs, |cost| cost.cpu_us_per_request).map(|cpu_us| format!("{cpu_us:.2} µs")),
        measured: format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.min, ratio.max),
        target: format!("at most {RATIO_AT_MOST:.2}"),
        is_met: Some(ratio.median <= RATIO_AT_MOST),
    }
}

/// For whoever wants to know whether php-fpm was busy: as a rule it is what holds both.
fn rate(costs: &[[Cost; 2]]) -> Line {
    let ratio = ratio(costs, |cost| cost.requests_per_second);
    Line {
        what: "requests per second".into(),
        figures: medians(costs, |cost| cost.requests_per_second).map(|rate| format!("{rate:.0}")),
        measured: format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.min, ratio.max),
        target: String::new(),
        is_met: None,
    }
}

fn medians(costs: &[[Cost; 2]], figure: fn(&Cost) -> f64) -> [f64; 2] {
    [0, 1].map(|index| Spread::of(costs.iter().map(|pair| figure(&pair[index]))).median)
}

fn ratio(costs: &[[Cost; 2]], figure: fn(&Cost) -> f64) -> Spread {
    Spread::of(costs.iter().map(|[rudy, nginx]| figure(rudy) / figure(nginx)))
}

/// An answer other than 2xx, or none, makes the figure worthless and fails.
fn burst(gateway: &Gateway, seconds: u32) -> Outcome<Cost> {
    let mut wrk = Command::new(machine::WRK);
    wrk.args(["-t2", "-c", CONNECTIONS, &format!("-d{seconds}s"), &gateway.server.url(HELLO)]);
    let before = process::cpu_us(gateway.server.pid());
    let printed = command::output(&mut wrk)?;
    let spent = process::cpu_us(gateway.server.pid()) - before;
    let counted = counted_by_wrk(&printed);
    let (requests, requests_per_second) =
        counted.map_err(|why| format!("{} under load: {why}", gateway.name()))?;
    Ok(Cost { cpu_us_per_request: spent / requests, requests_per_second })
}
