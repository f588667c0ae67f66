//! How a client begins to listen to a topic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_http::h1::PreparedHead;
use rudy_net::{Body, Request, Response};

use super::StreamFormat;
use super::stream::fields;
use crate::config::{Location, Problem, Time};
use crate::topic::{Framing, StartAt, SubscribeOptions, Topic};

/// The heartbeat's bounds: oftener is a stream of its own, and less often no proxy waits for.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
const HEARTBEAT_MAX: Duration = Duration::from_hours(1);

/// As the HTML standard (§9.2.7) advises against proxies that close what is silent.
pub(super) fn heartbeat() -> Time {
    Time(Duration::from_secs(15))
}

pub(super) fn retry() -> Time {
    Time(Duration::from_secs(2))
}

/// What all who listen through one route are told alike.
#[derive(Debug)]
pub(super) struct Subscribe {
    head: Arc<PreparedHead>,
    preamble: String,
    heartbeat: Option<Duration>,
    last: u64,
}

impl Subscribe {
    /// Makes it ready. `last` is how many messages a client gets that knows none.
    pub(super) fn new(
        format: StreamFormat,
        last: u32,
        heartbeat: Time,
        retry: Time,
        location: &Location,
    ) -> Result<Self, Vec<Problem>> {
        let is_off = heartbeat.0.is_zero();
        if !is_off && !(HEARTBEAT_MIN..=HEARTBEAT_MAX).contains(&heartbeat.0) {
            let (min, max): (Time, Time) = (Time(HEARTBEAT_MIN), Time(HEARTBEAT_MAX));
            let problem = Problem::value(&location.key("heartbeat"), format!("{heartbeat} is out of range"));
            let problem = problem.label(format!("expected {min} to {max}"));
            return Err(vec![problem.help("\"0s\" switches it off")]);
        }
        Ok(Self {
            head: Arc::new(PreparedHead::new(StatusCode::OK, fields(format))),
            preamble: framing(format).preamble(retry.0.as_millis()),
            heartbeat: (!is_off).then_some(heartbeat.0),
            last: last.into(),
        })
    }

    /// Has a client listen from where it asks to.
    pub(super) fn answer(&self, topic: &Arc<Topic>, request: &Request) -> Response {
        let start = last_event_id(request).unwrap_or(StartAt::Last(self.last));
        let options = SubscribeOptions { preamble: self.preamble.clone(), heartbeat: self.heartbeat };
        let subscriber = topic.subscribe(start, options, Instant::now());
        Response::prepared(self.head.clone(), Body::Stream(Box::new(subscriber)))
    }
}

/// How a topic is written in this format.
pub(super) fn framing(format: StreamFormat) -> Framing {
    match format {
        StreamFormat::Plain => Framing::Plain,
        StreamFormat::Sse => Framing::Sse,
    }
}

/// The last message that a client says it has: in the field, which browsers send when they come back, or in the query,
/// for the first time of a program that remembers.
fn last_event_id(request: &Request) -> Option<StartAt> {
    let field = request.headers().get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let in_query = |query: &'_ str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix("last_event_id="));
        value.map(str::to_owned)
    };
    let id = field.map(str::to_owned).or_else(|| request.uri().query().and_then(in_query))?;
    match id.as_str() {
        "" => None,
        id => Some(id.parse().map_or(StartAt::Unknown, StartAt::After)),
    }
}

#[cfg(test)]
mod tests {
    use rudy_net::RequestBody;

    use super::*;
    use crate::topic::Id;

    #[test]
    fn the_last_id_is_taken_from_the_field_or_else_from_the_query() {
        let after = |number| Some(StartAt::After(Id { epoch: 0xab, number }));
        for (target, field, expected) in [
            ("/", None, None),
            ("/", Some(""), None),
            ("/", Some("ab-7"), after(7)),
            ("/", Some("17"), Some(StartAt::Unknown)),
            ("/", Some("caf\u{e9}"), Some(StartAt::Unknown)),
            ("/?last_event_id=ab-8", None, after(8)),
            ("/?a=b&last_event_id=ab-8&c", None, after(8)),
            ("/?last_event_id=ab-8", Some("ab-9"), after(9)),
            ("/?xlast_event_id=ab-8", None, None),
        ] {
            let mut request = http::Request::get(target);
            if let Some(field) = field {
                request = request.header("last-event-id", field.as_bytes());
            }
            let request = request.body(RequestBody::empty()).unwrap();
            assert_eq!(last_event_id(&request), expected, "{target} {field:?}");
        }
    }
}
