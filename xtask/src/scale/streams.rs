//! Streams that tick once a second: what each takes of memory, what all of them take of a core, and how late chunks come.

use std::time::{Duration, Instant};

use super::client::{Seen, Streams};
use super::server::Server;
use super::{Line, STREAMS, shown};
use crate::bench::idle::raise_descriptor_limit;
use crate::bench::report::Spread;
use crate::{Outcome, process};

const INTERVAL: Duration = Duration::from_secs(1);
/// After the last was opened: every stream has had its first chunk.
const SETTLE_TIME: Duration = Duration::from_secs(3);

const BYTES_AT_MOST: f64 = 1.2 * 1024.0;
const CPU_RATIO_AT_MOST: f64 = 0.6;
const LATE_MS_AT_MOST: f64 = 50.0;

/// What one server came to in one round.
struct Round {
    bytes_per_stream: f64,
    /// Of a core, in percent.
    cpu: f64,
    late_ms: f64,
}

/// Both servers in turn, round by round: who goes first changes.
pub(super) fn measure(engine: &str, rounds: u32, seconds: u32) -> Outcome<Vec<Line>> {
    raise_descriptor_limit(u64::from(STREAMS))?;
    let (mut rudy, mut go) = (Vec::new(), Vec::new());
    for number in 1..=rounds {
        eprintln!("{STREAMS} streams, round {number} of {rounds}");
        if number % 2 == 1 {
            rudy.push(round("rudy", &Server::rudy(engine)?, seconds)?);
            go.push(round("go", &Server::go()?, seconds)?);
        } else {
            go.push(round("go", &Server::go()?, seconds)?);
            rudy.push(round("rudy", &Server::rudy(engine)?, seconds)?);
        }
    }
    Ok(lines(engine, &rudy, &go))
}

fn round(name: &str, server: &Server, seconds: u32) -> Outcome<Round> {
    // Asked once before: what the first request makes a server load is not the streams'.
    drop(Streams::open(server.address, 1, |_| "/test/first".into(), b"Chunk ", INTERVAL)?);
    let before = process::memory_bytes(server.pid())?;
    let target = |number| format!("/test/{number}");
    let mut streams = Streams::open(server.address, STREAMS, target, b"Chunk ", INTERVAL)?;
    streams.read_for(SETTLE_TIME, &mut Seen::default())?;
    let mut seen = Seen::default();
    let (start, own, cpu) = (Instant::now(), own_cpu_us(), process::cpu_us(server.pid()));
    streams.read_for(Duration::from_secs(seconds.into()), &mut seen)?;
    let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
    let cpu = (process::cpu_us(server.pid()) - cpu) / elapsed_us * 100.0;
    let own = (own_cpu_us() - own) / elapsed_us * 100.0;
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes stays far below 2^52")]
    let bytes_per_stream = (process::memory_bytes(server.pid())? as f64 - before as f64) / f64::from(STREAMS);
    let silent = streams.silent();
    if silent > 0 {
        return Err(format!("{name}: {silent} streams had no chunk"));
    }
    let [p50, p99, late_ms, most] = [0.5, 0.99, 0.999, 1.0].map(|share| seen.late_ms(share));
    eprintln!(
        "{name}: {bytes_per_stream:.0} B a stream, {cpu:.1} % of a core (the client {own:.1} %), {} chunks, {} of them \
         early, late by {p50:.1} ms at p50, {p99:.1} at p99, {late_ms:.1} at p99.9, {most:.1} at most",
        seen.pieces, seen.early,
    );
    Ok(Round { bytes_per_stream, cpu, late_ms })
}

fn own_cpu_us() -> f64 {
    process::cpu_us(std::process::id())
}

fn lines(engine: &str, rudy: &[Round], go: &[Round]) -> Vec<Line> {
    let of = |rounds: &[Round], figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
    let line =
        |what: &str, figure: fn(&Round) -> f64, unit: &str, judged: Vec<f64>, decimals, at_most: f64| {
            let median = |rounds| Spread::of(of(rounds, figure)).median;
            Line {
                what: format!("{what}, {STREAMS} streams, {engine}"),
                rudy: format!("{:.1} {unit}", median(rudy)),
                peer: format!("{:.1} {unit}", median(go)),
                measured: shown(&judged, decimals),
                at_most: format!("{at_most:.decimals$}"),
                is_met: Spread::of(judged).median <= at_most,
            }
        };
    let ratios = rudy.iter().zip(go).map(|(rudy, go)| rudy.cpu / go.cpu).collect();
    vec![
        line(
            "memory per stream",
            |it| it.bytes_per_stream,
            "B",
            of(rudy, |it| it.bytes_per_stream),
            0,
            BYTES_AT_MOST,
        ),
        line("CPU of a core, rudy over go", |it| it.cpu, "%", ratios, 2, CPU_RATIO_AT_MOST),
        line("chunks late at p99.9", |it| it.late_ms, "ms", of(rudy, |it| it.late_ms), 1, LATE_MS_AT_MOST),
    ]
}
