//! The step around the cache of a mirror.

use std::io;
use std::sync::{Arc, OnceLock};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, RANGE, USER_AGENT, VIA,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use rudy_http::semantics::percent::encode_non_ascii;
use rudy_net::{Reply, Request, Response};

use super::document::{self, ClientRequest};
use super::links::{Links, Place};
use super::page::{self, Counts};
use super::tags::Tags;
use super::{MirrorTable, Preset, Resource};
use crate::cache::{CacheStore, KeyUrl};
use crate::config::OneOrMany;
use crate::handlers::{Call, Start};
use crate::internal_redirect::CONDITIONAL_FIELDS;
use crate::pages;
use crate::proxy::StickyKey;
use crate::routing::request_host;
use crate::steps::{Next, Step};

/// The fields of a request that the repository receives. All others may be about the client: what is stored is for all of them.
static PASSED_ON: [HeaderName; 13] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    HOST,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    USER_AGENT,
    VIA,
];

/// The step of a mirror, outside its cache.
#[derive(Debug)]
pub(crate) struct Mirror(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    links: Links,
    preset: Preset,
    metadata_bytes: u64,
    key: OnceLock<StickyKey>,
    store: Arc<CacheStore>,
    counts: Counts,
    tags: Tags,
}

impl Mirror {
    /// Returns the step. `None` if the kind of the repository is unknown, which the handler reports.
    pub(crate) fn new(table: &MirrorTable, store: Arc<CacheStore>) -> Option<Self> {
        let hosts = table.hosts.as_ref().map(OneOrMany::as_slice).map(<[_]>::to_vec);
        let links = Links { url: table.url.clone(), hosts };
        let (key, counts, tags) = Default::default();
        let (preset, metadata_bytes) = (table.preset()?, table.metadata_bytes.0);
        Some(Self(Arc::new(Shared { links, preset, metadata_bytes, key, store, counts, tags })))
    }
}

impl Step for Mirror {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
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
        let has_links = resource.is_of_index && !is_audit && shared.preset.may_have_links(&resource.path);
        let (request, of_client) = for_repository(request, &resource, has_links);
        let reply = next.call(request, call);
        Reply::Later(Box::pin(async move {
            let response = reply.response().await;
            shared.counts.add(&response);
            shared.with_links(response, resource, mirror, has_links.then_some(&of_client)).await
        }))
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("mirror: {} repository", self.0.preset)]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.key.get_or_init(|| start.apps.sticky_key(start.log).clone());
        Ok(())
    }
}

impl Shared {
    /// Returns the key of links to other hosts. Without a start, as in a check, it is for this process only.
    fn key(&self) -> &StickyKey {
        self.key.get_or_init(|| StickyKey::in_folder(None).0)
    }

    /// Rewrites `Location`, and the links in the content of a successful response to a request for metadata.
    async fn with_links(
        self: Arc<Self>,
        mut response: Response,
        resource: Resource,
        mirror: String,
        of_client: Option<&ClientRequest>,
    ) -> Response {
        let (shared, path, rewritten) =
            (self.clone(), resource.path.clone(), self.tags.place(&response, &mirror));
        let link = move |reference: &str| {
            let place = Place { resource: &resource, mirror: &mirror, key: shared.key() };
            shared.links.link(reference, &place)
        };
        let location = response.headers().get(LOCATION).map(|value| encode_non_ascii(value.as_bytes()));
        if let Some(location) =
            location.as_deref().and_then(&link).and_then(|url| HeaderValue::try_from(url).ok())
        {
            response.headers_mut().insert(LOCATION, location);
        }
        let media_type = response.headers().get(CONTENT_TYPE).map_or(b"".as_slice(), HeaderValue::as_bytes);
        let media_type = String::from_utf8_lossy(media_type).to_ascii_lowercase();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let Some(of_client) = of_client.filter(|_| response.status() == StatusCode::OK) else {
            return response;
        };
        match self.preset.format(&path, essence) {
            Some(format) => {
                let max = self.metadata_bytes;
                document::rewrite(response, format, max, of_client, rewritten, link).await
            }
            None => response,
        }
    }
}

/// Returns the request for the repository, and that of the client. The links in metadata are found only in the whole of it.
fn for_repository(request: Request, resource: &Resource, has_links: bool) -> (Request, ClientRequest) {
    let (mut head, body) = request.into_parts();
    let of_client = ClientRequest { method: head.method.clone(), fields: std::mem::take(&mut head.headers) };
    for name in &PASSED_ON {
        for value in of_client.fields.get_all(name) {
            head.headers.append(name, value.clone());
        }
    }
    if has_links {
        for name in &CONDITIONAL_FIELDS {
            head.headers.remove(name);
        }
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if head.method == Method::HEAD {
            head.method = Method::GET;
        }
    }
    head.extensions.insert(KeyUrl::new(&resource.origin, &resource.target));
    head.extensions.insert(resource.clone());
    (Request::from_parts(head, body), of_client)
}

/// Returns the URL of the mirror as the client sees it, without a slash at its end.
fn own_url(request: &Request, call: &Call<'_>, mount: usize) -> String {
    let (scheme, host) = (call.context.client.scheme(), String::from_utf8_lossy(request_host(request)));
    let folder = call.path.encoded(0..mount);
    // Without a host (HTTP/1.0), links are relative to that of the client.
    if host.is_empty() { folder } else { format!("{scheme}://{host}{folder}") }
}
