//! The plan of a run.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_request::{Protocols, Relay, Remote, Security};
use rudy_stats::schedule::{Arrivals, Due, Profile, Schedule, Share};

use crate::Mix;
use crate::descriptor_limit::Requirements;

/// The plan of a run against one server.
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
    /// The number up to which an open loop opens further connections: one whenever a request is due and all are busy.
    pub connections_max: NonZeroU32,
    /// The number of generator threads.
    pub threads: NonZeroU32,
    /// The load model: a closed or an open loop.
    pub pace: Pace,
    /// The share of the whole plan to run.
    pub share: Share,
    /// The end of the run: a duration or a number of requests.
    pub until: Until,
    /// The duration of the warm-up, whose requests are not counted.
    pub warm_up: Duration,
    /// The timeout of a response, from the send.
    pub timeout: Duration,
    /// Open loop: the condition on which the run stops waiting for responses before their timeout.
    pub abort_condition: Option<AbortCondition>,
    /// The timeout of a response, from the time at which the request was due.
    pub deadline: Option<Duration>,
    /// HTTP/1.1 or HTTP/2.
    pub protocols: Protocols,
    /// Maximum number of requests in flight per connection: pipelined ones, or HTTP/2 streams.
    pub in_flight_per_connection: NonZeroU32,
    /// The number of requests after which a connection is replaced.
    pub requests_per_connection: Option<NonZeroU32>,
    /// Maximum number of new connections per second.
    pub connect_rate: f64,
    /// Local addresses to connect from, in turn. If empty, the kernel chooses.
    pub sources: Arc<[IpAddr]>,
    /// The expected responses, in addition to the status.
    pub expected: Arc<Expected>,
    /// The relay to the server, if a longer path is simulated. It ends with the last plan.
    pub relay: Option<Arc<Relay>>,
    /// The length of the intervals that a [`Watch`](super::Watch) receives.
    pub interval: Duration,
}

/// A condition after the end of an open loop, under which the step of a search has failed, whatever the outstanding
/// responses are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AbortCondition {
    /// The time after the end from which on the condition is checked.
    pub after: Duration,
    /// Maximum number of due requests without a response, per thread.
    pub max_unanswered: f64,
    /// The rate of a thread, in requests per second.
    pub rate: f64,
}

impl Plan {
    /// The descriptors and ports that the plan needs.
    pub(crate) fn requirements(&self) -> Requirements<'_> {
        Requirements {
            connections: self.connections_max,
            threads: self.threads,
            remote: &self.remote,
            sources: self.sources.len(),
        }
    }

    /// Whether requests have due times.
    pub(super) fn is_open_loop(&self) -> bool {
        self.pace != Pace::Closed
    }

    /// Whether each request opens a connection, so that none is opened in advance.
    pub(super) fn opens_for_each_request(&self) -> bool {
        self.requests_per_connection == NonZeroU32::new(1)
    }

    /// The schedule of one thread; `None` in the closed loop.
    pub(super) fn thread_schedule(&self, thread: u32) -> Option<Due> {
        let Pace::Open(profile, arrivals) = self.pace else { return None };
        let share = self.share.split(Share::new(thread, self.threads.get())?)?;
        Schedule::new(profile, arrivals, share).ok().map(|schedule| schedule.due())
    }
}

/// The load model.
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
    /// The property in which all responses to a request must equal the first one.
    pub same_as_first: Option<BodyProperty>,
}

/// A property of a body, by which responses are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyProperty {
    /// The length of the body.
    Length,
    /// A checksum of the body.
    Checksum,
}

impl Expected {
    /// The expected length of the body, if any.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.len() as u64).or(self.body_bytes)
    }
}
