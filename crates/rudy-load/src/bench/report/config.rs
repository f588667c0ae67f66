//! What a run does, in words and figures.

use std::fmt;
use std::time::Duration;

use rudy_stats::schedule::{Arrivals, Profile};

use super::units;
use crate::Remote;
use crate::bench::plan::{Pace, Plan, Until};
use crate::bench::prepare::Prepared;

/// What was asked, of whom, and how.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Config {
    /// The first URL.
    pub(in crate::bench) target: String,
    /// Requests that differ.
    pub(in crate::bench) requests: usize,
    /// The address that was connected to.
    pub(in crate::bench) remote: String,
    pub(in crate::bench) connections: u32,
    pub(in crate::bench) threads: u32,
    pub(in crate::bench) pipeline: u32,
    pub(in crate::bench) requests_per_connection: Option<u32>,
    pub(in crate::bench) pace: Pace,
    pub(in crate::bench) until: Until,
    pub(in crate::bench) warm_up: Duration,
    pub(in crate::bench) timeout: Duration,
    pub(in crate::bench) deadline: Option<Duration>,
}

impl Config {
    pub(in crate::bench) fn new(prepared: &Prepared, remote: &Remote) -> Self {
        let Plan { connections, threads, pipeline, requests_per_connection, .. } = prepared.plan;
        Self {
            target: prepared.url.to_string(),
            requests: prepared.requests,
            remote: remote.to_string(),
            connections: connections.get(),
            threads: threads.get(),
            pipeline: pipeline.get(),
            requests_per_connection: requests_per_connection.map(u32::from),
            pace: prepared.plan.pace,
            until: prepared.plan.until,
            warm_up: prepared.plan.warm_up,
            timeout: prepared.plan.timeout,
            deadline: prepared.plan.deadline,
        }
    }

    /// Requests under way at once, at most.
    pub(in crate::bench) fn places(&self) -> f64 {
        f64::from(self.connections) * f64::from(self.pipeline)
    }
}

/// `64 connections, 1 thread, closed loop, 10 s to 127.0.0.1:8080; 1 s of warm-up not counted`
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", count(self.connections, "connection"), count(self.threads, "thread"))?;
        if self.pipeline > 1 {
            write!(f, ", {} requests under way on each", self.pipeline)?;
        }
        match self.requests_per_connection {
            Some(1) => f.write_str(", a connection for each request")?,
            Some(requests) => write!(f, ", each closed after {requests} requests")?,
            None => {}
        }
        match self.pace {
            Pace::Closed => f.write_str(", closed loop")?,
            Pace::Open(profile, arrivals) => {
                f.write_str(", open loop, ")?;
                match profile {
                    Profile::Constant(rate) => write!(f, "{rate} requests/s in all")?,
                    Profile::Ramp { from, to, .. } => write!(f, "{from} to {to} requests/s in all")?,
                }
                if let Arrivals::Poisson { seed } = arrivals {
                    write!(f, ", Poisson arrivals (seed {seed})")?;
                }
            }
        }
        match self.until {
            Until::Time(time) => write!(f, ", {}", plain(time))?,
            Until::Requests(requests) => write!(f, ", {}", count(requests, "request"))?,
        }
        write!(f, " to {}", self.remote)?;
        if self.warm_up.is_zero() {
            Ok(())
        } else {
            write!(f, "; {} of warm-up not counted", plain(self.warm_up))
        }
    }
}

/// A time as a person gave it: `10 s`, and not `10.0 s`.
fn plain(time: Duration) -> String {
    match time.as_secs() {
        seconds if time.subsec_nanos() == 0 => format!("{seconds} s"),
        _ => units::time(time),
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn count(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
