//! The plan of a run.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_stats::schedule::{Arrivals, Due, Profile, Schedule, Share};

use crate::descriptor_limit::Requirements;
use crate::request::Mix;
use crate::transport::{Remote, Security};

/// Everything that the generator has to know about a load on one server.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address of the server.
    pub remote: Remote,
    /// TLS, for an `https` URL.
    pub security: Option<Security>,
    /// The requests and their weights.
    pub mix: Arc<Mix>,
    /// The total number of connections.
    pub connections: NonZeroU32,
    /// The number of generator threads.
    pub threads: NonZeroU32,
    /// The schedule of requests.
    pub pace: Pace,
    /// The share of the whole plan to run.
    pub share: Share,
    /// The end of the run.
    pub until: Until,
    /// The duration of the warm-up, which is not counted.
    pub warm_up: Duration,
    /// The timeout of a response, from the send.
    pub timeout: Duration,
    /// Open loop: when to wait no longer for responses after the end, before their timeout.
    pub give_up: Option<GiveUp>,
    /// The timeout of a response, from the time at which the request was due.
    pub deadline: Option<Duration>,
    /// Requests in flight per connection.
    pub pipeline: NonZeroU32,
    /// Requests after which a connection is replaced.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Maximum number of new connections per second.
    pub connect_rate: f64,
    /// Local addresses to connect from, in turn. If empty, the kernel chooses.
    pub sources: Arc<[IpAddr]>,
    /// The expected responses, in addition to the status.
    pub expected: Arc<Expected>,
    /// The time between intervals that a watcher receives.
    pub interval: Duration,
}

/// The condition under which a step of a search has failed, whatever else the server sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GiveUp {
    /// The time after the end.
    pub after: Duration,
    /// A thread that has more requests without a response gives up.
    pub unanswered: f64,
    /// The rate of a thread, per second.
    pub rate: f64,
}

impl Plan {
    /// The descriptors and ports that the plan needs.
    pub(crate) fn requirements(&self) -> Requirements<'_> {
        Requirements {
            connections: self.connections,
            threads: self.threads,
            remote: &self.remote,
            sources: self.sources.len(),
        }
    }

    /// Whether each request has its own connection, so that none is opened in advance.
    pub(super) fn opens_for_each_request(&self) -> bool {
        self.requests_per_connection == NonZeroU32::new(1)
    }

    /// The schedule of one thread; `None` in the closed loop.
    pub(super) fn due(&self, thread: u32) -> Option<Due> {
        let Pace::Open(profile, arrivals) = self.pace else { return None };
        let share = self.share.split(Share::new(thread, self.threads.get())?)?;
        Schedule::new(profile, arrivals, share).ok().map(|schedule| schedule.due())
    }
}

/// The schedule of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends after its response, so the server sets the pace.
    Closed,
    /// Open loop: total requests per second, and their distribution.
    Open(Profile, Arrivals),
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this time, without the warm-up.
    Time(Duration),
    /// After this number of requests.
    Requests(u64),
}

/// The conditions for success, in addition to a status below 400.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The length of the body.
    pub body_bytes: Option<u64>,
    /// The body.
    pub body: Option<bytes::Bytes>,
    /// The property that must equal that of the first response to the same request.
    pub repeats: Option<Repeat>,
}

/// A property that all responses to a request share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The length of the body.
    Bytes,
    /// A checksum of the body.
    Checksum,
}

impl Expected {
    /// The expected length of the body, if any.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.len() as u64).or(self.body_bytes)
    }
}
