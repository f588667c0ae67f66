//! Subscribes clients to topics, for `broadcast` and `tail`.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rudy_config::{Location, Problem};
use rudy_message::PreparedHead;
use rudy_runtime::clock;
use rudy_service::{Body, Request, Response};
use rudy_units::Time;

use super::StreamFormat;
use super::stream::fields;
use crate::topic::{Framing, StartAt, SubscribeOptions, Topic};

/// Bounds of the heartbeat. With a longer one, proxies would close the connection.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
const HEARTBEAT_MAX: Duration = Duration::from_hours(1);

/// Returns the default heartbeat: 15 s, as the HTML standard (§9.2.7) recommends because of proxies that close idle connections.
pub(super) fn heartbeat() -> Time {
    Time(Duration::from_secs(15))
}

/// Returns the default of `retry`.
pub(super) fn retry() -> Time {
    Time(Duration::from_secs(2))
}

/// The settings for all subscribers of a route.
#[derive(Debug)]
pub struct Subscribe {
    head: Arc<PreparedHead>,
    preamble: String,
    heartbeat: Option<Duration>,
    last: u64,
}

impl Subscribe {
    /// Prepares the settings. `last` is the number of past messages for a new client.
    pub fn new(
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
            return Err(vec![problem.help("\"0s\" disables it")]);
        }
        Ok(Self {
            head: Arc::new(PreparedHead::new(StatusCode::OK, fields(format))),
            preamble: framing(format).preamble(retry.0.as_millis()),
            heartbeat: (!is_off).then_some(heartbeat.0),
            last: last.into(),
        })
    }

    /// Responds with a stream of the topic's messages, from the position that the client requests.
    pub fn respond(&self, topic: &Arc<Topic>, request: &Request<'_>) -> Response {
        let start = last_event_id(request).unwrap_or(StartAt::Last(self.last));
        let options = SubscribeOptions { preamble: self.preamble.clone(), heartbeat: self.heartbeat };
        let subscriber = topic.subscribe(start, options, clock::now());
        Response::prepared(self.head.clone(), Body::Stream(Box::new(subscriber)))
    }
}

/// Returns the framing of a format.
pub(super) fn framing(format: StreamFormat) -> Framing {
    match format {
        StreamFormat::Plain => Framing::Plain,
        StreamFormat::Sse => Framing::Sse,
    }
}

/// Returns the last message that the client has received: from the header field, which browsers send when they reconnect, or
/// from the query, which a program can use for its first request.
fn last_event_id(request: &Request<'_>) -> Option<StartAt> {
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
    use rudy_service::RequestBody;

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
            let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
            assert_eq!(last_event_id(&request), expected, "{target} {field:?}");
        }
    }
}
