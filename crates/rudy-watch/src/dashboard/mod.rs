//! The `dashboard` handler: a page that shows what the server does, live.
//!
//! The server renders each update once for all viewers, as parts of the page, and sends it as an event. The page needs
//! no other site, and its policy forbids one.

mod history;
mod live;
mod render;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, header};
use rudy_admin::{Filter, Rates};
use rudy_config::{Problem, Table};
use rudy_handlers::{StreamFormat, Subscribe};
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Handler, HandlerConfig, pages};
use rudy_runtime::blocking;
use rudy_service::{Reply, Request, Response};
use rudy_units::Time;

pub use self::live::Live;
use crate::status::{Activity, Selection};

/// The interval of updates: people cannot read faster, and slower would hardly be live.
type Interval = Time<100, 60_000>;

/// Nothing but the page itself, and no page around it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Shows what the server does, as a page that updates itself: rates, connections, CPU time by thread, memory, active requests, and the
/// most frequent clients, paths and hosts.
#[derive(Debug, Clone, Table)]
#[setting(default, example = { allow = "loopback" })]
pub struct DashboardTable {
    /// Clients that can see it. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`; the page shows addresses and paths of clients.
    #[setting(default = AllowedClients::loopback())]
    pub allow: AllowedClients,
    /// Time between two updates, from 100 ms to 1 min. Rudy renders an update once for all viewers, and none without a viewer.
    #[setting(default = Time(Duration::from_secs(1)))]
    pub interval: Interval,
}

impl HandlerConfig for DashboardTable {
    fn describe(&self) -> String {
        format!("for {}, every {}", self.allow, self.interval)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let (heartbeat, retry) = (Time(Duration::from_secs(15)), Time(Duration::from_secs(2)));
        let subscribe = Subscribe::new(StreamFormat::Sse, 1, heartbeat, retry, route.location)?;
        Ok(Box::new(Dashboard {
            allowed: self.allow.clone(),
            interval: self.interval.0,
            subscribe,
            activity: route.resources.of(),
            live: route.resources.of(),
        }))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

/// The handler of a route.
#[derive(Debug)]
struct Dashboard {
    allowed: AllowedClients,
    interval: Duration,
    subscribe: Subscribe,
    activity: Arc<Activity>,
    live: Arc<Live>,
}

impl Handler for Dashboard {
    /// Responds with the page, or with the part of it that the query names: so that a route with any path has all parts.
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let Call { context, .. } = call;
        if let Some(rejection) =
            respond_unless_read(&request).or_else(|| self.allowed.reject(&request, context))
        {
            return rejection.into();
        }
        let response = match request.uri().query() {
            Some("style") => {
                let style = concat!(include_str!("style.css"), "\n").to_owned() + rudy_charts::STYLE;
                part("text/css; charset=utf-8", style)
            }
            Some("script") => part("text/javascript; charset=utf-8", include_str!("script.js").to_owned()),
            Some("events") => self.events(&request),
            _ => return page(self.activity.clone()),
        };
        response.into()
    }
}

impl Dashboard {
    fn events(&self, request: &Request<'_>) -> Response {
        let response = self.subscribe.respond(self.live.topic(), request);
        match self.live.ensure_running(&self.activity, self.interval) {
            Ok(()) => response,
            Err(error) => {
                let explanation = format!("The server cannot start a thread for the dashboard: {error}.");
                pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), &explanation)
            }
        }
    }
}

/// Responds with the page, with the current state for browsers without scripts.
fn page(activity: Arc<Activity>) -> Reply {
    let report = move || {
        let filter = Filter::default();
        let selection = Selection { filter: &filter, limit: live::ACTIVE, queries: false };
        activity.current(selection).unwrap_or_default()
    };
    Reply::Later(Box::pin(async move {
        // Not on this thread, because the state is that of all workers. After a panic, which is logged, the page has none.
        let report = blocking(report).await.unwrap_or_default();
        let update = render::update(&report, Rates::of(&report, None), None, &[]);
        let page = include_str!("page.html")
            .replace("<!--summary-->", &update.summary)
            .replace("<!--active-->", &update.active)
            .replace("<!--lists-->", &update.lists);
        part("text/html; charset=utf-8", page)
    }))
}

fn part(media_type: &'static str, text: String) -> Response {
    let mut response = Response::text(StatusCode::OK, media_type, text);
    let policies = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let fields = policies.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(fields);
    response
}
