//! The step around the cache of a mirror.

use std::io;
use std::sync::{Arc, OnceLock};

use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use rudy_cache::is_error;
use rudy_caching::{CacheStore, Origin};
use rudy_config::OneOrMany;
use rudy_log::ErrorLog;
use rudy_message::semantics::percent::encode_non_ascii;
use rudy_pipeline::internal_redirect::{CONDITIONAL_FIELDS, copy_head};
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::{Around, Call, Next, Start, Step, pages};
use rudy_proxy::{ProxyPools, StickyKey};
use rudy_service::{Reply, Request, Response};

use super::document::{self, ClientRequest, Space};
use super::forms::{Forms, essence};
use super::links::{Links, Place};
use super::page::{self, Counts};
use super::preset::Format;
use super::sets::Sets;
use super::tags::Tags;
use super::{MirrorTable, Preset, Resource, fields};

/// Requests what is stored, however old, without the repository.
const ONLY_STORED: HeaderValue = HeaderValue::from_static("only-if-cached, max-stale");

/// The kind of a line in the error log.
const NOT_REWRITTEN: &str = "metadata was not rewritten";

/// The step of a mirror, outside its cache.
#[derive(Debug)]
pub struct Mirror(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    links: Links,
    preset: Preset,
    metadata_bytes: u64,
    key: OnceLock<StickyKey>,
    log: OnceLock<ErrorLog>,
    store: Arc<CacheStore>,
    counts: Counts,
    tags: Tags,
    sets: Sets,
}

impl Mirror {
    /// Returns the step. `None` if the kind of the repository is unknown, which the handler reports.
    pub fn new(table: &MirrorTable, store: Arc<CacheStore>) -> Option<Self> {
        let hosts = table.hosts.as_ref().map(OneOrMany::as_slice).map(<[_]>::to_vec);
        let links = Links { url: table.url.clone(), hosts };
        let (key, log, counts, tags, sets) = Default::default();
        let (preset, metadata_bytes) = (table.preset()?, table.metadata_bytes.0);
        Some(Self(Arc::new(Shared { links, preset, metadata_bytes, key, log, store, counts, tags, sets })))
    }
}

impl Around for Mirror {
    fn call(&self, request: Request<'_>, call: Call<'_>, next: Next) -> Reply {
        let shared = self.0.clone();
        let mount = call.below().mount().len();
        let Some(resource) = shared.links.resource(request.uri(), call.path, mount, shared.key()) else {
            let explanation = "This mirror has no such host: its index does not name it.";
            return pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into();
        };
        let mirror = own_url(&request, &call, mount);
        if page::is_requested(&request, &resource) {
            return page::respond(shared.preset, &shared.links.url, &mirror, &shared.counts, &shared.store)
                .into();
        }
        let is_audit = shared.preset.is_audit(request.method(), &resource);
        let (resource, checksum) = match shared.preset.metadata_of(&resource) {
            Some((metadata, algorithm)) => (metadata, Some(Format::Checksum(algorithm))),
            None => (resource, None),
        };
        let has_links = resource.is_of_index && !is_audit && shared.preset.may_have_links(&resource.path);
        let forms = if has_links { Forms::of(shared.preset) } else { None };
        let rewritten = has_links || checksum.is_some();
        let (mut request, of_client) = for_repository(request, &resource, rewritten);
        if !is_audit {
            normalize(&mut request, forms);
        }
        let others = forms.map(|forms| OtherForms { forms, origin: again(&request, &call, next) });
        let set = shared.sets.of(shared.preset, &resource).map(|set| (set, again(&request, &call, next)));
        let reply = next.call(request, call);
        Reply::Later(Box::pin(async move {
            let mut response = reply.response().await;
            if let Some(others) = others.filter(|_| is_of_failed_repository(&response)) {
                response = others.find(&of_client).await.unwrap_or(response);
            }
            if let Some((set, origin)) = set {
                set.complete(&response, origin).await;
            }
            shared.counts.add(&response);
            if !response.state().is_own_error() {
                fields::protect(response.headers_mut());
            }
            shared.with_links(response, resource, mirror, checksum, rewritten.then_some(&of_client)).await
        }))
    }
}

impl Step for Mirror {
    fn around(&self) -> Option<&dyn Around> {
        Some(self)
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("mirror: the repository is not asked")
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("mirror: {} repository", self.0.preset)]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.key.get_or_init(|| start.resources.of::<ProxyPools>().sticky_key(start.log).clone());
        self.0.log.get_or_init(|| start.log.clone());
        Ok(())
    }
}

impl Shared {
    /// Returns the key of links to other hosts. Without a start, as in a check, it is for this process only.
    fn key(&self) -> &StickyKey {
        self.key.get_or_init(|| StickyKey::in_folder(None).0)
    }

    /// Rewrites `Location`, and the content of a successful response to a request for metadata, as a checksum or with other links.
    async fn with_links(
        self: Arc<Self>,
        mut response: Response,
        resource: Resource,
        mirror: String,
        checksum: Option<Format>,
        of_client: Option<&ClientRequest>,
    ) -> Response {
        let format = checksum.or_else(|| self.preset.format(&resource.path, &essence(response.headers())));
        let place = format.and_then(|format| self.tags.place(&response, format, &mirror));
        let url = format!("{}{}", resource.origin, resource.target.split('?').next().unwrap_or_default());
        let shared = self.clone();
        let link = move |reference: &str, base: Option<&str>| {
            let place = Place { resource: &resource, mirror: &mirror, key: shared.key() };
            shared.links.link(reference, base, &place)
        };
        let location = response.headers().get(LOCATION).map(|value| encode_non_ascii(value.as_bytes()));
        let location = location.as_deref().and_then(|location| link(location, None));
        if let Some(location) = location.and_then(|url| HeaderValue::try_from(url).ok()) {
            response.headers_mut().insert(LOCATION, location);
        }
        let of_client = of_client.filter(|_| response.status() == StatusCode::OK);
        let (Some(format), Some(of_client)) = (format, of_client) else { return response };
        let folder = self.store.get().map(|open| open.folder().to_owned());
        let space = Space { bytes_max: self.metadata_bytes, folder };
        let rewritten = document::rewrite(response, format, space, of_client, place, link).await;
        if let (Some(log), Some(why)) = (self.log.get(), &rewritten.state().explanation) {
            log.recurring_error((NOT_REWRITTEN, &*url), &format!("{NOT_REWRITTEN}: {url}: {why}"));
        }
        rewritten
    }
}

/// The requests for the other forms of a resource.
struct OtherForms {
    forms: Forms,
    origin: Origin,
}

impl OtherForms {
    /// Returns a stored response in another form that the client accepts.
    async fn find(&self, of_client: &ClientRequest) -> Option<Response> {
        for accept in self.forms.others(self.origin.head.headers().get(ACCEPT)) {
            let mut request = self.origin.request();
            request.set(ACCEPT, accept);
            request.set(CACHE_CONTROL, ONLY_STORED);
            let response = self.origin.send(request).await;
            if response.status() == StatusCode::OK && self.forms.suits(&of_client.fields, &response) {
                return Some(response);
            }
        }
        None
    }
}

/// Returns what sends a request once more.
fn again(request: &Request<'_>, call: &Call<'_>, next: Next) -> Origin {
    Origin::new(copy_head(request), call, next)
}

/// Whether the cache of the mirror has no response because the repository has failed.
fn is_of_failed_repository(response: &Response) -> bool {
    is_error(response.status()) && response.headers().contains_key("cache-status")
}

/// Changes a request so that its response suits all clients with the same preference, also if the repository omits `Vary`: without a
/// content coding, which clients can get from the mirror itself, and in the form that the client prefers.
fn normalize(request: &mut Request<'_>, forms: Option<Forms>) {
    let fields = request.headers_mut();
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let accept = match forms {
        Some(forms) => forms.accept(fields),
        None => Some(HeaderValue::from_static("*/*")),
    };
    if let Some(accept) = accept {
        fields.insert(ACCEPT, accept);
    }
}

/// Returns the request for the repository, and that of the client. Metadata is rewritten as a whole.
fn for_repository<'a>(
    mut request: Request<'a>,
    resource: &Resource,
    is_rewritten: bool,
) -> (Request<'a>, ClientRequest) {
    let fields = std::mem::take(request.headers_mut());
    let of_client = ClientRequest { method: request.method().clone(), fields };
    *request.headers_mut() = fields::of_client(&of_client.fields);
    if is_rewritten {
        for name in &CONDITIONAL_FIELDS {
            request.remove(name);
        }
        if *request.method() == Method::HEAD {
            request.set_method(Method::GET);
        }
    }
    resource.clone().note(&mut request);
    (request, of_client)
}

/// Returns the URL of the mirror as the client sees it, without a slash at its end.
fn own_url(request: &Request<'_>, call: &Call<'_>, mount: usize) -> String {
    let (scheme, host) = (call.context.client.scheme(), String::from_utf8_lossy(request.host()));
    let folder = call.path.encoded(0..mount);
    // Without a host (HTTP/1.0), links are relative to that of the client.
    if host.is_empty() { folder } else { format!("{scheme}://{host}{folder}") }
}
