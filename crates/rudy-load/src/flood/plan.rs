//! The plan of a flood.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_message::client::RequestError;
use rudy_request::{Encoded, Protocols, Remote, Security, Template, Url, UrlError};

/// The plan of a flood.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address of the server.
    pub remote: Remote,
    /// TLS, for an `https` URL.
    pub security: Option<Security>,
    /// The request of each stream. `{}` in the URL is replaced by the number of the stream.
    pub requests: Arc<Requests>,
    /// Number of connections.
    pub connections: NonZeroU32,
    /// HTTP/2: the number of streams on each connection; `None` is HTTP/1.1.
    pub streams: Option<NonZeroU32>,
    /// The rate at which connections are opened.
    pub ramp: Ramp,
    /// The time to hold all connections, from the end of the ramp.
    pub hold: Duration,
    /// The expected time between chunks.
    pub interval: Duration,
    /// The number of initial chunks before the schedule of a stream starts.
    pub greetings: u32,
    /// Whether a connection is held after its response is complete.
    pub holds_idle: bool,
    /// The timeout for connecting, and then for the first byte.
    pub timeout: Duration,
    /// Local addresses to connect from, in turn. If empty, the kernel chooses.
    pub sources: Arc<[IpAddr]>,
}

impl Plan {
    /// The number of streams on each connection, which is 1 with HTTP/1.1.
    #[must_use]
    pub fn per_connection(&self) -> u32 {
        self.streams.map_or(1, NonZeroU32::get)
    }

    /// The number of streams of all connections.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.connections.get().saturating_mul(self.per_connection())
    }

    /// The protocols to offer.
    pub(super) fn protocols(&self) -> Protocols {
        if self.streams.is_some() { Protocols::Http2 } else { Protocols::Http1 }
    }

    /// The number of connections from which on the memory per connection is measured. The first ones also cause the
    /// allocation of buffers and tables that the server needs once.
    #[must_use]
    pub fn memory_base(&self) -> u32 {
        (self.total() / 10).clamp(1, 1000)
    }
}

/// The requests of the connections.
#[derive(Debug, Clone)]
pub struct Requests {
    first: Encoded,
    /// A URL in which `{}` is replaced by the number of the connection.
    numbered: Option<(Template, String)>,
}

/// The error of a request that cannot be built.
#[derive(Debug)]
pub enum RequestsError {
    /// The URL is invalid.
    Url(UrlError),
    /// The header fields are invalid.
    Request(RequestError),
}

impl fmt::Display for RequestsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RequestsError {}

impl Requests {
    /// A request for `url`, in which `{}` is replaced by the number of the connection.
    pub fn new(template: &Template, url: &str) -> Result<Self, RequestsError> {
        let first = numbered(template, url, 0)?;
        let is_numbered = url.contains("{}");
        Ok(Self { first, numbered: is_numbered.then(|| (template.clone(), url.to_owned())) })
    }

    /// The request of a connection, counted from 0.
    #[must_use]
    pub fn get(&self, number: u32) -> Encoded {
        match &self.numbered {
            // A URL that is valid with the digit 0 is also valid with other digits.
            Some((template, url)) => numbered(template, url, number).unwrap_or_else(|_| self.first.clone()),
            None => self.first.clone(),
        }
    }
}

fn numbered(template: &Template, url: &str, number: u32) -> Result<Encoded, RequestsError> {
    let url: Url = url.replace("{}", &number.to_string()).parse().map_err(RequestsError::Url)?;
    template.encode(&url).map_err(RequestsError::Request)
}

/// A constant rate of new connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Connections per second.
    pub rate: f64,
}

impl Ramp {
    /// Spreads connections evenly over a time; opens all at once if the time is zero.
    #[must_use]
    pub fn over(connections: NonZeroU32, time: Duration) -> Self {
        // An infinite rate would make the due times NaN.
        Self { rate: (f64::from(connections.get()) / time.as_secs_f64()).min(1e9) }
    }

    /// The time at which a connection is due to be opened, from the start of the flood.
    #[must_use]
    pub fn at(self, number: u32) -> Duration {
        Duration::from_secs_f64(f64::from(number) / self.rate)
    }

    /// The number of connections of `total` that are due to be opened at a time.
    #[must_use]
    pub fn planned(self, at: Duration, total: u32) -> u32 {
        let planned = (at.as_secs_f64() * self.rate).floor() + 1.0;
        if planned >= f64::from(total) {
            return total;
        }
        // Between 1 and `u32::MAX`.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "less than `total`, and not negative"
        )]
        let planned = planned as u32;
        planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_in_the_url_is_the_number_of_the_connection() {
        let line = |requests: &Requests, number| {
            let bytes = requests.get(number).bytes;
            String::from_utf8_lossy(&bytes).lines().next().map(str::to_owned).unwrap()
        };
        let requests = Requests::new(&Template::default(), "http://a/test/{}?n={}").unwrap();
        assert_eq!(line(&requests, 17), "GET /test/17?n=17 HTTP/1.1");
        let same = Requests::new(&Template::default(), "http://a/test").unwrap();
        assert_eq!(line(&same, 17), "GET /test HTTP/1.1");
        assert!(Requests::new(&Template::default(), "http://{}:0/").is_err());
    }

    #[test]
    fn the_ramp_and_its_inverse_agree() {
        let ramp = Ramp { rate: 250.0 };
        assert_eq!(ramp.at(0), Duration::ZERO);
        assert_eq!(ramp.at(500), Duration::from_secs(2));
        assert_eq!(ramp.planned(Duration::ZERO, 1000), 1);
        assert_eq!(ramp.planned(Duration::from_secs(2), 1000), 501);
        assert_eq!(ramp.planned(Duration::from_secs(5), 1000), 1000);
    }
}
