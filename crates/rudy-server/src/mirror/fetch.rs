//! The handler: passes requests on to the hosts of a repository, and declares how long their responses can be used.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use rudy_net::{Client, Reply, Request, Response};
use tokio::task::spawn_blocking;

use super::{MirrorTable, Preset, Resource};
use crate::buffer::Buffers;
use crate::config::{Location, Problem};
use crate::error_log::ErrorLog;
use crate::handlers::{Call, Handler, Start};
use crate::methods::respond_unless_read;
use crate::pages;
use crate::proxy::Proxy;

/// The number of other hosts with a pool of connections. Repositories have one or two.
const OTHER_HOSTS_MAX: usize = 16;

/// How long immutable files are fresh, and others replace errors, in seconds: forever, as far as HTTP can express it (RFC 9111 §1.2.2).
const FOREVER: u32 = 1 << 31;

/// The statuses that are stored. Without 404, clients would fail while the repository is unavailable: they try paths that need not exist.
const STORED: [u16; 9] = [200, 206, 301, 302, 303, 307, 308, 404, 410];

/// Directives for the cache of the mirror. Clients get those of the repository.
static RUDY_CACHE_CONTROL: HeaderName = HeaderName::from_static("rudy-cache-control");

/// The handler of a mirror.
#[derive(Debug)]
pub(super) struct Fetch {
    index: Proxy,
    others: Arc<Others>,
    preset: Preset,
    metadata_freshness: u64,
}

/// The proxies for other hosts than that of the index, the oldest one first.
#[derive(Debug)]
struct Others {
    table: MirrorTable,
    location: Location,
    proxies: Mutex<Vec<(String, Proxy)>>,
    log: OnceLock<ErrorLog>,
}

impl Fetch {
    /// Prepares the handler of a route with this name.
    ///
    /// # Errors
    ///
    /// All problems of the table.
    pub(super) fn new(
        table: &MirrorTable,
        preset: Preset,
        location: &Location,
        route: String,
    ) -> Result<Self, Vec<Problem>> {
        let index = table.proxy_to(table.url.upstream()).proxy(location, route)?;
        let (proxies, log) = Default::default();
        let others = Others { table: table.clone(), location: location.clone(), proxies, log };
        let metadata_freshness = table.metadata_freshness.map_or(0, |time| time.0.as_secs());
        Ok(Self { index, others: Arc::new(others), preset, metadata_freshness })
    }

    /// Returns the directives for what is at a resource.
    fn directives(&self, resource: &Resource) -> HeaderValue {
        let directives = if self.preset.is_immutable(&resource.path) {
            format!("public, max-age={FOREVER}, immutable, stale-if-error={FOREVER}")
        } else {
            format!("public, max-age={}, stale-if-error={FOREVER}", self.metadata_freshness)
        };
        // Words and numbers.
        HeaderValue::try_from(directives).unwrap_or(HeaderValue::from_static("no-store"))
    }
}

impl Handler for Fetch {
    fn call(&self, request: Request, call: Call<'_>) -> Reply {
        if let Some(rejected) = respond_unless_read(&request) {
            return rejected.into();
        }
        let (mut head, _) = request.into_parts();
        let Some(resource) = head.extensions.remove::<Resource>() else {
            return pages::error(StatusCode::NOT_FOUND, &head.headers, "This path is not on the mirror.")
                .into();
        };
        let (client, buffers) = (call.context.client.to_owned(), call.context.routes.buffers.clone());
        let directives = self.directives(&resource);
        let index = resource.is_of_index.then(|| self.index.clone());
        let others = self.others.clone();
        Reply::Later(Box::pin(async move {
            let proxy = match index {
                Some(index) => index,
                None => match Others::proxy(others, resource.origin.clone()).await {
                    Some(proxy) => proxy,
                    None => return cannot_connect(&head),
                },
            };
            let mut response = send(&proxy, &head, &resource, &client, &buffers).await;
            declare(&mut response, directives);
            response
        }))
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.others.log.get_or_init(|| start.log.clone());
        self.index.start(start)
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.index)
    }
}

impl Others {
    /// Returns the proxy for a host. The first call reads the certificates that the mirror trusts. `None` if it cannot.
    async fn proxy(self: Arc<Self>, origin: String) -> Option<Proxy> {
        // An error means a panic, which is logged.
        spawn_blocking(move || self.proxy_now(&origin)).await.ok().flatten()
    }

    fn proxy_now(&self, origin: &str) -> Option<Proxy> {
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, proxy)) = proxies.iter().find(|(known, _)| known == origin) {
            return Some(proxy.clone());
        }
        let proxy =
            self.table.proxy_to(origin.parse().ok()?).proxy(&self.location, origin.to_owned()).ok()?;
        proxy.start_alone(self.log.get()?).ok()?;
        if proxies.len() == OTHER_HOSTS_MAX {
            proxies.remove(0);
        }
        proxies.push((origin.to_owned(), proxy.clone()));
        Some(proxy)
    }
}

async fn send(
    proxy: &Proxy,
    head: &Parts,
    resource: &Resource,
    client: &Client<'_>,
    buffers: &Buffers,
) -> Response {
    let request = (head.method.clone(), &head.uri, head.version);
    let request = proxy.own_request(&resource.target, head.headers.clone(), request, client);
    match proxy.ask(request, &head.headers).await {
        Ok(response) => response.into_response(&head.method, &head.headers, buffers),
        Err(failure) => failure,
    }
}

/// Declares how long a response can be used. Cookies are for one client.
fn declare(response: &mut Response, directives: HeaderValue) {
    let is_stored = STORED.contains(&response.status().as_u16());
    let fields = response.headers_mut();
    fields.remove(header::SET_COOKIE);
    if is_stored {
        fields.insert(&RUDY_CACHE_CONTROL, directives);
    }
}

fn cannot_connect(head: &Parts) -> Response {
    let explanation = "The mirror cannot prepare connections to the host of this file.";
    pages::error(StatusCode::BAD_GATEWAY, &head.headers, explanation)
}
