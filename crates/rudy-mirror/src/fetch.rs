//! The handler: passes requests on to the hosts of a repository, and declares how long their responses can be used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use rudy_client::buffer::Buffers;
use rudy_config::{Location, Problem};
use rudy_log::ErrorLog;
use rudy_message::LazyHead;
use rudy_pipeline::exchange::trace;
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, Start, pages};
use rudy_proxy::{Proxy, name_of, reject_other_path};
use rudy_runtime::blocking;
use rudy_service::{Client, Reply, Request, RequestBody, Response};

use super::forms::Forms;
use super::verify::{Check, Verification};
use super::{MirrorTable, Preset, Resource};

/// The number of other hosts with a pool of connections. Repositories have one or two.
const OTHER_HOSTS_MAX: usize = 16;

/// The maximum size of a request of `npm audit`, which has the names and versions of all packages of a project.
const AUDIT_BYTES_MAX: u64 = 4 << 20;

/// How long immutable files are fresh, and others replace errors, in seconds: forever, as far as HTTP can express it (RFC 9111 §1.2.2).
const FOREVER: u32 = 1 << 31;

/// The statuses that are stored. Without 404, clients would fail while the repository is unavailable: they try paths that need not exist.
const STORED: [u16; 9] = [200, 206, 301, 302, 303, 307, 308, 404, 410];

/// Redirects that may lead elsewhere next time (RFC 9110 §15.4).
const TEMPORARY_REDIRECTS: [u16; 3] = [302, 303, 307];

/// Directives for the cache of the mirror. Clients get those of the repository.
static RUDY_CACHE_CONTROL: HeaderName = HeaderName::from_static("rudy-cache-control");

/// The handler of a mirror. Clones share everything.
#[derive(Debug, Clone)]
pub struct Fetch {
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
    /// The number of workers of the engine.
    workers: OnceLock<usize>,
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
        let (proxies, log, workers) = Default::default();
        let others = Others { table: table.clone(), location: location.clone(), proxies, log, workers };
        let metadata_freshness = table.metadata_freshness.map_or(0, |time| time.0.as_secs());
        Ok(Self { index, others: Arc::new(others), preset, metadata_freshness, verifies: table.verify })
    }

    /// Returns the proxy for the host of the index.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.index
    }

    /// Responds from the repository.
    async fn respond(&self, exchange: Exchange, body: RequestBody) -> Response {
        let Exchange { request, resource, .. } = &exchange;
        let proxy = if resource.is_of_index {
            Some(self.index.clone())
        } else {
            Others::proxy(self.others.clone(), resource.origin.clone()).await
        };
        let Some(proxy) = proxy else { return cannot_connect(request) };
        if self.preset.is_audit(request.method(), resource) {
            let (fields, body) = (request.headers().clone(), body.at_most(AUDIT_BYTES_MAX));
            return exchange.send(&proxy, &resource.target, fields, body).await;
        }
        self.fetch(&exchange, &proxy).await
    }

    /// Requests a resource, verifies it if it has to be, and declares how long it can be used.
    async fn fetch(&self, exchange: &Exchange, proxy: &Proxy) -> Response {
        let Exchange { request, resource, .. } = exchange;
        let is_immutable = self.preset.is_immutable(&resource.path);
        let has_forms = resource.is_of_index
            && self.preset.may_have_links(&resource.path)
            && Forms::of(self.preset).is_some();
        let Others { table, log, .. } = &*self.others;
        let check = if self.verifies && is_immutable && *request.method() == Method::GET {
            Check::of(self.preset, resource, table.url.path(), log.get())
        } else {
            Check::Unnecessary
        };
        let is_stored = !matches!(check, Check::Impossible);
        let mut response = match check {
            Check::ByDocument(verification) => self.verified(exchange, proxy, verification).await,
            Check::Unnecessary | Check::Impossible => {
                exchange.send(proxy, &resource.target, request.headers().clone(), RequestBody::empty()).await
            }
        };
        if is_stored {
            self.declare(&mut response, is_immutable);
            // Some repositories omit it. A 304 without `Vary` keeps what is stored with the document.
            let is_update = response.status() == StatusCode::NOT_MODIFIED;
            if has_forms && (!is_update || response.headers().contains_key(header::VARY)) {
                response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
            }
        } else {
            response.headers_mut().insert(&RUDY_CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }

    /// Requests a file, after the document with its checksum: a connection that waits with a file would be missing for the document.
    async fn verified(&self, exchange: &Exchange, proxy: &Proxy, mut verification: Verification) -> Response {
        let fields = exchange.request.headers();
        let agent = fields.get(header::USER_AGENT).map(|agent| (header::USER_AGENT, agent.clone()));
        let at = if verification.is_at_index() { &self.index } else { proxy };
        let (of_document, none) = (agent.into_iter().collect(), RequestBody::empty());
        let document = exchange.send(at, &verification.document, of_document, none).await;
        if let Err(failure) = verification.read(document, fields).await {
            return failure;
        }
        // The checksum is that of the whole file, without a coding.
        let mut whole = fields.clone();
        whole.remove(header::RANGE);
        whole.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = exchange.send(proxy, &exchange.resource.target, whole, RequestBody::empty()).await;
        if response.status().is_success() { verification.apply(response, fields) } else { response }
    }

    /// Declares how long a response can be used.
    fn declare(&self, response: &mut Response, is_immutable: bool) {
        let status = response.status();
        let is_declared = match status {
            // Metadata that was stored with another setting gets the present one. What is stored for an immutable file may be a 404.
            StatusCode::NOT_MODIFIED => !is_immutable,
            _ => STORED.contains(&status.as_u16()),
        };
        if !is_declared {
            return;
        }
        // A file that is missing may be published later, and the URL of a temporary redirect may expire.
        let is_temporary = status.is_client_error() || TEMPORARY_REDIRECTS.contains(&status.as_u16());
        let directives = if is_immutable && !is_temporary {
            format!("public, max-age={FOREVER}, immutable, stale-if-error={FOREVER}")
        } else {
            format!("public, max-age={}, stale-if-error={FOREVER}", self.metadata_freshness)
        };
        // Words and numbers.
        let directives = HeaderValue::try_from(directives).unwrap_or(HeaderValue::from_static("no-store"));
        response.headers_mut().insert(&RUDY_CACHE_CONTROL, directives);
    }
}

impl HandlerConfig for MirrorTable {
    fn describe(&self) -> String {
        self.url.to_string()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let Some(preset) = self.preset() else {
            let title = format!("\"{}\" does not name the kind of the repository", self.url);
            let names = Preset::ALL.map(|preset| format!("\"{preset}\"")).join(", ");
            let help = format!(
                "write `mirror = {{ url = \"{}\", preset = \"...\" }}` with one of {names}",
                self.url
            );
            let problem = Problem::value(route.location, title).label("the preset is unknown").help(help);
            return Err(vec![problem]);
        };
        if self.verify && !matches!(preset, Preset::Maven | Preset::Npm) {
            let title = format!("`verify` is for maven and npm, not for {preset}");
            let problem = Problem::key(&route.location.key("verify"), title).label("remove it");
            return Err(vec![problem.help(format!("clients of {preset} verify what they receive"))]);
        }
        Ok(Box::new(Fetch::new(self, preset, route.location, name_of(route))?))
    }

    /// The key of links to other hosts.
    fn keeps_state(&self) -> bool {
        true
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        let file = self.trusted_certificates.as_ref();
        file.and_then(|path| path.0.parent()).map(Path::to_owned).into_iter().collect()
    }
}

impl Handler for Fetch {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let resource = request.state().resource.as_ref();
        let is_audit = resource.is_some_and(|resource| self.preset.is_audit(request.method(), resource));
        if let Some(rejected) = respond_unless_read(&request).filter(|_| !is_audit) {
            return rejected.into();
        }
        if let Some(rejected) = reject_other_path(&call, &request) {
            return rejected.into();
        }
        let mut request = call.detach(request);
        trace::pass_on(&mut request, &call.context.routes.observers, call.context.client, None);
        let body = std::mem::take(request.body_mut());
        let Some(resource) = request.state_mut().resource.take() else {
            return pages::error(StatusCode::NOT_FOUND, request.headers(), "This path is not on the mirror.")
                .into();
        };
        let (client, buffers) = (call.context.client.to_owned(), self.index.buffers().clone());
        let (fetch, exchange) = (self.clone(), Exchange { request, resource, client, buffers });
        Reply::Later(Box::pin(async move { fetch.respond(exchange, body).await }))
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.others.log.get_or_init(|| start.log.clone());
        self.others.workers.get_or_init(|| start.workers);
        self.index.start(start)
    }
}

impl Others {
    /// Returns the proxy for a host. The first call reads the certificates that the mirror trusts. `None` if it cannot.
    async fn proxy(self: Arc<Self>, origin: String) -> Option<Proxy> {
        // An error means a panic, which is logged.
        blocking(move || self.proxy_now(&origin)).await.ok().flatten()
    }

    fn proxy_now(&self, origin: &str) -> Option<Proxy> {
        let mut proxies = self.proxies.lock();
        if let Some((_, proxy)) = proxies.iter().find(|(known, _)| known == origin) {
            return Some(proxy.clone());
        }
        let proxy = self.table.proxy_to_other(origin.parse().ok()?);
        let proxy = proxy.proxy(&self.location, origin.to_owned()).ok()?;
        proxy.start_alone(self.log.get()?, *self.workers.get()?).ok()?;
        if proxies.len() == OTHER_HOSTS_MAX {
            proxies.remove(0);
        }
        proxies.push((origin.to_owned(), proxy.clone()));
        Some(proxy)
    }
}

/// A request of a client, what it is for, and what its response needs.
struct Exchange {
    request: Request<'static>,
    resource: Resource,
    client: Client<'static>,
    buffers: Buffers,
}

impl Exchange {
    /// Sends a request with these fields. The response has no cookies: they are for one client.
    async fn send(&self, proxy: &Proxy, target: &str, fields: HeaderMap, body: RequestBody) -> Response {
        let Self { request, client, buffers, .. } = self;
        let mut head = LazyHead::clone(request);
        *head.headers_mut() = fields;
        let own = proxy.own_request(target, head, client);
        let sent = async { proxy.ask(own.with_body(body, buffers, request.headers()).await?, request).await };
        let mut response = match sent.await {
            Ok(response) => response.into_response(request.method(), request.headers(), buffers),
            Err(failure) => failure,
        };
        response.headers_mut().remove(header::SET_COOKIE);
        response
    }
}

fn cannot_connect(request: &Request<'_>) -> Response {
    let explanation = "The mirror cannot prepare connections to the host of this file.";
    pages::error(StatusCode::BAD_GATEWAY, request.headers(), explanation)
}
