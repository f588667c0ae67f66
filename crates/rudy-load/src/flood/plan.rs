//! What a flood does.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_http::h1::client::RequestError;

use crate::link::{Remote, Security};
use crate::request::{Encoded, Template};
use crate::{Url, UrlError};

/// Everything about a flood of one server.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where to connect to.
    pub remote: Remote,
    /// TLS, where the URL says so.
    pub security: Option<Security>,
    /// What each connection asks, once. Where a URL holds `{}` each has its number there.
    pub requests: Arc<Requests>,
    /// Connections in all.
    pub connections: NonZeroU32,
    /// How they are opened.
    pub ramp: Ramp,
    /// How long all are kept, from the end of the ramp.
    pub hold: Duration,
    /// How far apart the chunks of a stream are meant to be.
    pub interval: Duration,
    /// Chunks at the beginning of a stream that are no part of its schedule: a greeting.
    pub greetings: u32,
    /// A connection is kept after its whole answer, which then is not the end of it.
    pub keeps_idle: bool,
    /// For a connection, and then for the first byte.
    pub timeout: Duration,
    /// Addresses that connections come from, in turn. Empty leaves it to the kernel.
    pub sources: Arc<[IpAddr]>,
}

/// What the connections ask.
#[derive(Debug, Clone)]
pub struct Requests {
    first: Encoded,
    /// What is asked where the connections ask for different things: `{}` in it stands for a number.
    numbered: Option<(Template, String)>,
}

/// Why a URL cannot be asked for.
#[derive(Debug)]
pub enum RequestsError {
    /// It is none.
    Url(UrlError),
    /// The fields make a request that no server could read.
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
    /// A request for `url`; where that holds `{}`, each connection has its number there.
    pub fn new(template: &Template, url: &str) -> Result<Self, RequestsError> {
        let first = numbered(template, url, 0)?;
        let is_numbered = url.contains("{}");
        Ok(Self { first, numbered: is_numbered.then(|| (template.clone(), url.to_owned())) })
    }

    /// The request of the connection with this number, counted from 0.
    #[must_use]
    pub fn get(&self, number: u32) -> Encoded {
        match &self.numbered {
            // What is a URL with the digit 0 in it is one with other digits.
            Some((template, url)) => numbered(template, url, number).unwrap_or_else(|_| self.first.clone()),
            None => self.first.clone(),
        }
    }
}

fn numbered(template: &Template, url: &str, number: u32) -> Result<Encoded, RequestsError> {
    let url: Url = url.replace("{}", &number.to_string()).parse().map_err(RequestsError::Url)?;
    template.encode(&url, false).map_err(RequestsError::Request)
}

/// How connections are opened: so many a second, evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Connections per second.
    pub rate: f64,
}

impl Ramp {
    /// So many connections, evenly over a time; all at once if that is none.
    #[must_use]
    pub fn over(connections: NonZeroU32, time: Duration) -> Self {
        // At a rate that is not finite every connection would be due at a time that is no number.
        Self { rate: (f64::from(connections.get()) / time.as_secs_f64()).min(1e9) }
    }

    /// When the connection with this number is opened, from the start.
    #[must_use]
    pub fn at(self, number: u32) -> Duration {
        Duration::from_secs_f64(f64::from(number) / self.rate)
    }

    /// How many connections should have been opened by then.
    #[must_use]
    pub fn planned(self, at: Duration, of: u32) -> u32 {
        let planned = (at.as_secs_f64() * self.rate).floor() + 1.0;
        if planned >= f64::from(of) {
            return of;
        }
        // Between 1 and a u32.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "less than `of`, and not negative"
        )]
        let planned = planned as u32;
        planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_number_where_the_url_has_room_for_it() {
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
