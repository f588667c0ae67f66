//! The handler: passes requests on to the hosts of a repository, and declares how long their responses can be used.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rudy_net::{Client, Reply, Request, Response};
use tokio::task::spawn_blocking;

use super::verify::Verification;
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
    verifies: bool,
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
        Ok(Self { index, others: Arc::new(others), preset, metadata_freshness, verifies: table.verify })
    }

    fn verification(&self, resource: &Resource) -> Option<Verification> {
        let Others { table, log, .. } = &*self.others;
        Verification::of(self.preset, resource, table.url.path(), log.get())
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
        let (is_immutable, metadata_freshness) =
            (self.preset.is_immutable(&resource.path), self.metadata_freshness);
        let is_verified = self.verifies && is_immutable && head.method == Method::GET;
        let verification = is_verified.then(|| self.verification(&resource)).flatten();
        let (index, others) = (self.index.clone(), self.others.clone());
        Reply::Later(Box::pin(async move {
            let proxy = if resource.is_of_index {
                Some(index.clone())
            } else {
                Others::proxy(others, resource.origin.clone()).await
            };
            let Some(proxy) = proxy else { return cannot_connect(&head) };
            let exchange = Exchange { head, client, buffers };
            let mut response = match verification {
                Some(verification) => exchange.verified(&proxy, &resource.target, &index, verification).await,
                None => exchange.send(&proxy, &resource.target, exchange.head.headers.clone()).await,
            };
            declare(&mut response, is_immutable, metadata_freshness);
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

/// A request of a client, and what its response needs.
struct Exchange {
    head: Parts,
    client: Client<'static>,
    buffers: Buffers,
}

impl Exchange {
    /// Requests a file, after the document with its checksum: a connection that waits with a file would be missing for the document.
    async fn verified(
        &self,
        proxy: &Proxy,
        target: &str,
        index: &Proxy,
        mut verification: Verification,
    ) -> Response {
        let (fields, mut whole) = (&self.head.headers, self.head.headers.clone());
        let agent = fields.get(header::USER_AGENT).map(|agent| (header::USER_AGENT, agent.clone()));
        let at = if verification.is_at_index() { index } else { proxy };
        let document = self.send(at, &verification.document, agent.into_iter().collect()).await;
        if let Err(failure) = verification.read(document, fields).await {
            return failure;
        }
        // The checksum is that of the whole file, without a coding.
        whole.remove(header::RANGE);
        whole.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = self.send(proxy, target, whole).await;
        if response.status().is_success() { verification.apply(response, fields) } else { response }
    }

    async fn send(&self, proxy: &Proxy, target: &str, fields: HeaderMap) -> Response {
        let Self { head, client, buffers } = self;
        let request = (head.method.clone(), &head.uri, head.version);
        match proxy.ask(proxy.own_request(target, fields, request, client), &head.headers).await {
            Ok(response) => response.into_response(&head.method, &head.headers, buffers),
            Err(failure) => failure,
        }
    }
}

/// Declares how long a response can be used. Cookies are for one client.
fn declare(response: &mut Response, is_immutable: bool, metadata_freshness: u64) {
    let status = response.status();
    let fields = response.headers_mut();
    fields.remove(header::SET_COOKIE);
    if !STORED.contains(&status.as_u16()) {
        return;
    }
    // A file that is missing may be published later.
    let directives = if is_immutable && !status.is_client_error() {
        format!("public, max-age={FOREVER}, immutable, stale-if-error={FOREVER}")
    } else {
        format!("public, max-age={metadata_freshness}, stale-if-error={FOREVER}")
    };
    // Words and numbers.
    let directives = HeaderValue::try_from(directives).unwrap_or(HeaderValue::from_static("no-store"));
    fields.insert(&RUDY_CACHE_CONTROL, directives);
}

fn cannot_connect(head: &Parts) -> Response {
    let explanation = "The mirror cannot prepare connections to the host of this file.";
    pages::error(StatusCode::BAD_GATEWAY, &head.headers, explanation)
}
