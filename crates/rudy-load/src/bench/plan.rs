//! What a run does.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_stats::schedule::{Arrivals, Due, Profile, Schedule, Share};

use crate::link::{Remote, Security};
use crate::request::Mix;
use crate::room::Demand;

/// Everything that a generator needs to know, of one server.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where to connect to.
    pub remote: Remote,
    /// TLS, where the URL says so.
    pub security: Option<Security>,
    /// What is asked, and how often each.
    pub mix: Arc<Mix>,
    /// Connections in all.
    pub connections: NonZeroU32,
    /// Threads that generate.
    pub threads: NonZeroU32,
    /// When requests are sent.
    pub pace: Pace,
    /// Which part of the whole plan is carried out here.
    pub share: Share,
    /// When it ends.
    pub until: Until,
    /// What is sent at the beginning and not counted.
    pub warm_up: Duration,
    /// For a whole answer, from the send.
    pub timeout: Duration,
    /// For a whole answer, from the moment when the request was due.
    pub deadline: Option<Duration>,
    /// Requests that are under way on a connection at once.
    pub pipeline: NonZeroU32,
    /// Requests after which a connection is closed and another opened.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Connections that are opened in a second at most.
    pub connect_rate: f64,
    /// Addresses that connections come from, in turn. Empty leaves it to the kernel.
    pub sources: Arc<[IpAddr]>,
    /// What a right answer is, beyond its status.
    pub expected: Arc<Expected>,
    /// How often a watcher is told what was seen.
    pub interval: Duration,
}

impl Plan {
    /// What it asks of this machine.
    pub(crate) fn demand(&self) -> Demand<'_> {
        Demand {
            connections: self.connections,
            threads: self.threads,
            remote: &self.remote,
            sources: self.sources.len(),
        }
    }

    /// Whether each request has a connection of its own, so that none is opened before.
    pub(super) fn opens_for_each_request(&self) -> bool {
        self.requests_per_connection == NonZeroU32::new(1)
    }

    /// When the requests of a thread are due. Nothing says when in the closed loop.
    pub(super) fn due(&self, thread: u32) -> Option<Due> {
        let Pace::Open(profile, arrivals) = self.pace else { return None };
        let share = self.share.split(Share::new(thread, self.threads.get())?)?;
        Schedule::new(profile, arrivals, share).ok().map(|schedule| schedule.due())
    }
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each connection sends when it has its answer: how many a second depends on the server.
    Closed,
    /// At a rate, whatever the server does: requests per second in all, and how they are spread.
    Open(Profile, Arrivals),
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this time, the warm-up not counted.
    Time(Duration),
    /// After so many requests.
    Requests(u64),
}

/// What an answer must be, beyond a status below 400, to be right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The bytes of its body.
    pub body_bytes: Option<u64>,
    /// The body itself.
    pub body: Option<bytes::Bytes>,
    /// What must be as in the first answer to the same request.
    pub repeats: Option<Repeat>,
}

/// What the answers to a request are to have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The bytes of their bodies.
    Bytes,
    /// Their bodies, by a checksum.
    Checksum,
}

impl Expected {
    /// The bytes of a right body, where that matters.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.len() as u64).or(self.body_bytes)
    }
}
