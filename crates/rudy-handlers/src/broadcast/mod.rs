//! Publish and subscribe: lines that are sent to a path go to all clients that subscribe to it.

mod publish;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode, header};
use rudy_config::{Int, Problem, Table};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::methods::method_not_allowed;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Context, Handler, HandlerConfig, pages};
use rudy_runtime::clock;
use rudy_service::{Reply, Request, Response};
use rudy_units::{Size, Time};

use self::publish::publish_body;
use super::StreamFormat;
use super::subscribe::{Subscribe, heartbeat, retry};
use crate::topic::{History, Topic, Topics};

const METHODS: &str = "GET, HEAD, POST, PUT, OPTIONS";
/// The maximum length of a topic's name in bytes: the topic stores it.
const NAME_BYTES_MAX: usize = 256;

/// Broadcasts messages: lines sent to a path with POST or PUT go as Server-Sent Events to all clients that have
/// requested the path with GET. Each path of the route is a topic.
#[derive(Debug, Clone, Table)]
#[setting(example = { publish = "loopback" })]
pub struct BroadcastTable {
    /// Clients that can publish. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`.
    #[setting(example = "loopback")]
    pub publish: AllowedClients,
    /// The other keys.
    #[setting(part)]
    pub options: BroadcastOptions,
}

/// The history of topics, and access to them.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct BroadcastOptions {
    /// Clients that can subscribe. Others get 403. The default is anyone.
    #[setting(default = AllowedClients::anyone(), example = ["10.0.0.0/8"])]
    pub allow: AllowedClients,
    /// Number of past messages that a new subscriber gets.
    #[setting(default = Int(0))]
    pub last: Int<0, 1_000_000>,
    /// Number of messages that a topic stores for clients that reconnect (with `Last-Event-ID`) or read slowly. A
    /// client that falls further behind receives the number of messages it missed, or is disconnected if it reads nothing.
    #[setting(default = Int(1000))]
    pub history: Int<1, 1_000_000>,
    /// Maximum size of the stored messages of a topic.
    #[setting(default = Size(256 * 1024), reason = "A hundred topics use 25 MiB at most.")]
    pub history_bytes: Size,
    /// Time after which a topic without subscribers and new messages is removed.
    #[setting(default = Time(Duration::from_hours(1)))]
    pub history_timeout: Time,
    /// Maximum number of topics per site. Publishing to a further one gets 503. Subscribing does not create a topic.
    #[setting(default = Int(100))]
    pub topics: Int<1, 100_000>,
    /// Time without messages after which a comment is sent, to keep the connection open through proxies. `"0s"`
    /// disables it; otherwise 1 s to 1 h.
    #[setting(default = heartbeat())]
    pub heartbeat: Time,
    /// Time that clients wait before they reconnect.
    #[setting(default = retry())]
    pub retry: Time,
}

impl HandlerConfig for BroadcastTable {
    fn describe(&self) -> String {
        format!("for {}, published by {}", self.options.allow, self.publish)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Broadcast::new(self, route)?))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

impl Handler for Broadcast {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(request, call.path, call.context)
    }

    fn methods(&self) -> &'static str {
        METHODS
    }
}

/// The topics of one route.
#[derive(Debug)]
pub struct Broadcast {
    subscribe: Subscribe,
    publishers: AllowedClients,
    subscribers: AllowedClients,
    history: History,
    history_timeout: Duration,
    topics_max: usize,
    /// The first host of the site and its own addresses, because sites at other addresses may have the same host. A topic is
    /// identified by this and its path, so that it survives a reload that changes none of them.
    site: String,
    topics: Arc<Topics>,
}

impl Broadcast {
    /// Creates the handler of a route.
    pub fn new(table: &BroadcastTable, route: &BuildContext<'_>) -> Result<Self, Vec<Problem>> {
        let options = &table.options;
        let BroadcastOptions { last, heartbeat, retry, .. } = *options;
        let subscribe = Subscribe::new(StreamFormat::Sse, last.as_u32(), heartbeat, retry, route.location);
        Ok(Self {
            subscribe: subscribe?,
            publishers: table.publish.clone(),
            subscribers: options.allow.clone(),
            history: History { messages: options.history.0, bytes: options.history_bytes.0 },
            history_timeout: options.history_timeout.0,
            topics_max: options.topics.as_usize(),
            site: format!("{} {}", route.host(), route.own_addresses),
            topics: route.resources.of(),
        })
    }

    /// Answers a request: listens with GET, publishes with POST or PUT.
    fn respond(&self, request: Request<'_>, path: &RequestPath<'_>, context: Context<'_>) -> Reply {
        match *request.method() {
            Method::GET | Method::HEAD => self.subscribe(&request, path, context).into(),
            Method::POST | Method::PUT => self.publish(request, path, context),
            _ => {
                method_not_allowed(&request, METHODS, "Subscribe with GET, publish with POST or PUT.").into()
            }
        }
    }

    fn subscribe(&self, request: &Request<'_>, path: &RequestPath<'_>, context: Context<'_>) -> Response {
        if let Some(rejection) = self.subscribers.reject(request, context) {
            return rejection;
        }
        match name(path) {
            Ok(name) => {
                let topic = self.topics.subscribe(&self.site, name, clock::now());
                self.subscribe.respond(&topic, request)
            }
            Err(error) => error.reject(request),
        }
    }

    fn publish(&self, request: Request<'_>, path: &RequestPath<'_>, context: Context<'_>) -> Reply {
        if let Some(rejection) = self.publishers.reject(&request, context) {
            return rejection.into();
        }
        if is_cross_site(&request) {
            let explanation = "Pages of other sites may not publish here.";
            return pages::error(StatusCode::FORBIDDEN, request.headers(), explanation).into();
        }
        match self.publishable_topic(path) {
            Ok(topic) => {
                let fields = request.headers().clone();
                Reply::Later(Box::pin(publish_body(topic, request.into_body(), self.history, fields)))
            }
            Err(error) => error.reject(&request).into(),
        }
    }

    fn publishable_topic(&self, path: &RequestPath<'_>) -> Result<Arc<Topic>, TopicError> {
        let name = name(path)?;
        let now = clock::now();
        let topic = self.topics.publish(&self.site, name, self.topics_max, self.history_timeout, now);
        topic.ok_or(TopicError::TooMany)
    }
}

/// Returns the name of a request's topic: its path.
fn name<'a>(path: &'a RequestPath<'_>) -> Result<&'a str, TopicError> {
    let name = path.below(0).in_folder().map_err(|_| TopicError::BadName)?;
    if name.len() > NAME_BYTES_MAX { Err(TopicError::LongName) } else { Ok(name) }
}

/// Why a request has no topic.
enum TopicError {
    BadName,
    LongName,
    TooMany,
}

impl TopicError {
    fn reject(&self, request: &Request<'_>) -> Response {
        let error = |status, explanation: &str| pages::error(status, request.headers(), explanation);
        match self {
            Self::BadName => error(StatusCode::BAD_REQUEST, "This path is not a valid name of a topic."),
            Self::LongName => {
                let explanation = format!("The path of a topic may have at most {NAME_BYTES_MAX} bytes.");
                error(StatusCode::URI_TOO_LONG, &explanation)
            }
            Self::TooMany => {
                let explanation = "This site has reached its limit of topics (`topics`). Try again when an old one has expired.";
                let mut rejection = error(StatusCode::SERVICE_UNAVAILABLE, explanation);
                rejection.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
                rejection
            }
        }
    }
}

/// Returns whether a browser sent this request for a page of another site. Any page may make a browser send a
/// POST to this machine, where it counts as a local client. The browser names the site of the page (WHATWG
/// Fetch, `Origin`).
fn is_cross_site(request: &Request<'_>) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    !host.is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(request.host()))
}

#[cfg(test)]
mod tests;
