//! The fields that only proxies set. Applications trust them: they read the address of the client, a host, a scheme, a path or a
//! certificate there. So those of clients are removed, and those of trusted proxies stay, except for the host: it becomes that of the request
//! if it is trusted. Otherwise many proxies pass on what their clients have sent, and an application may make it a part of its links, also in
//! responses that a cache stores.
//!
//! Access rules come before this step, because `loopback` looks for these fields. What an authorizer, `forward_auth` or
//! `request_headers` sets comes after it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use http_body::Body as _;
use rudy_message::semantics::field::NameStarts;
use rudy_pipeline::client_address::TrustedProxies;
use rudy_pipeline::own_fields::is_same_variable;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::{Call, Flow, Passage, Step};
use rudy_service::{Client, Peer, Request};

/// How the names of families of these fields begin: `X-Forwarded-Prefix`, `X-Original-URL`, `X-SSL-Client-Verify` and so on.
const PREFIXES: [&str; 5] = ["x-forwarded", "x-original-", "x-ssl-", "ssl-client-", "client-cert"];

/// The other fields: of nginx's examples, of CDNs and load balancers, and those that frameworks read without being told (IIS and Symfony,
/// Rack, `WebLogic`, gunicorn).
const NAMES: [&str; 28] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-visitor",
    "client-ip",
    "fastly-client-ip",
    "fastly-ssl",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "proxy-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "wl-proxy-ssl",
    "x-accel-mapping",
    "x-arr-clientcert",
    "x-arr-ssl",
    "x-azure-clientip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-host",
    "x-real-ip",
    "x-real-port",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-sendfile-type",
];

/// How all of them begin, in every spelling.
const STARTS: NameStarts = NameStarts::of(&PREFIXES).union(NameStarts::of(&NAMES));

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The field that no application receives from a proxy.
const HOST: &[u8] = b"x-forwarded-host";

/// Removes the fields, unless the peer is a trusted proxy.
#[derive(Debug)]
pub struct WithoutForwardingFields {
    proxies: Arc<TrustedProxies>,
    starts: NameStarts,
}

impl WithoutForwardingFields {
    /// Removes the fields of clients, also the one from which `proxies` read the address.
    #[must_use]
    pub fn new(proxies: Arc<TrustedProxies>) -> Self {
        let mut starts = STARTS;
        proxies.named_field().inspect(|name| starts.insert(name.as_str().as_bytes()));
        Self { proxies, starts }
    }
}

impl Step for WithoutForwardingFields {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let (request, client) = (&mut passage.request, call.context.client);
        let named = self.proxies.named_field();
        let may_have_some = request.may_have_any(self.starts) || !request.has_plain_names();
        if may_have_some && request.fields().any(|(name, _)| is_removed(name, named)) {
            let is_trusted = self.proxies.trusts(&client.peer);
            remove(request, is_trusted, named);
            if is_trusted && named.is_some() {
                replace_list(request, client);
            }
        }
        if !request.body().is_end_stream() {
            let body = std::mem::take(request.body_mut());
            *request.body_mut() = body.without_trailers_named(is_never_trailer);
        }
        Flow::Continue
    }

    /// Nothing: all applications get requests without them.
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Whether a field is removed from trailers, also from those of a trusted proxy, which may pass on the trailers of its client: some applications
/// merge them into the fields.
fn is_never_trailer(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    is_of_proxies(name) || resembles_framing(name)
}

/// Removes the fields, and notes that the request had some. Also removes other spellings of the fields that frame a message. Other
/// spellings are removed from requests of trusted proxies, too: a proxy replaces `X-Real-IP`, but may pass on the `X_Real_IP` of its
/// client, which is the same variable for CGI and WSGI.
fn remove(request: &mut Request<'_>, is_trusted: bool, named: Option<&HeaderName>) {
    let stays = |name: &[u8]| is_trusted && is_dashed(name) && !name.eq_ignore_ascii_case(HOST);
    let removed = request.remove_if(|name| is_removed(name, named) && !stays(name));
    let of_proxies = |name: &HeaderName| !resembles_framing(name.as_str().as_bytes());
    if let Some(name) = removed.into_iter().find(of_proxies) {
        request.state_mut().came_through_proxy = Some(name);
    }
}

/// Sets the lists of addresses to that of the client: proxies that report it in another field may pass on the lists of their clients.
fn replace_list(request: &mut Request<'_>, client: &Client<'_>) {
    request.remove(&header::FORWARDED);
    request.remove(&X_FORWARDED_FOR);
    let address = Some(client.address()).filter(|address| *address != client.peer);
    if let Some(Peer::Ip(address)) = address
        && let Ok(value) = HeaderValue::try_from(address.ip().to_string())
    {
        request.add(X_FORWARDED_FOR.clone(), value);
    }
}

/// Whether a field is removed from requests of clients. `named` is the field with the address of a client.
fn is_removed(name: &[u8], named: Option<&HeaderName>) -> bool {
    is_of_proxies(name)
        || resembles_framing(name)
        || named.is_some_and(|named| is_same_variable(name, named.as_str().as_bytes()))
}

/// Whether only proxies set a field, in any spelling that is the same variable for an application.
fn is_of_proxies(text: &[u8]) -> bool {
    // Nearly all other names end here: a comparison of each with all would cost as much as routing the request.
    let may_be = match text {
        [b'x' | b'X', ..] => true,
        [first, second, ..] => matches!(
            (first.to_ascii_lowercase(), second.to_ascii_lowercase()),
            (b'c', b'f' | b'l')
                | (b'f', b'a' | b'o' | b'r')
                | (b'p' | b't', b'r')
                | (b's', b's')
                | (b'w', b'l')
        ),
        _ => false,
    };
    let begins = |prefix: &&str| {
        let start = text.get(..prefix.len());
        start.is_some_and(|start| is_same_variable(start, prefix.as_bytes()))
    };
    may_be
        && (PREFIXES.iter().any(begins) || NAMES.iter().any(|other| is_same_variable(text, other.as_bytes())))
}

/// Whether a field is `Transfer-Encoding` or `Content-Length` for an application that turns underscores into hyphens, or the reverse: it would
/// read another body than the server has sent, and the rest of it as the next request.
fn resembles_framing(name: &[u8]) -> bool {
    let is_framing =
        [&b"content-length"[..], b"transfer-encoding"].iter().any(|framing| is_same_variable(name, framing));
    is_framing && !is_dashed(name)
}

fn is_dashed(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn left(names: &[&'static str], is_trusted: bool) -> Vec<String> {
        let mut request = Request::default();
        for name in names {
            request.headers_mut().append(*name, HeaderValue::from_static("1"));
        }
        remove(&mut request, is_trusted, None);
        request.headers().keys().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_that_only_proxies_set_are_removed_in_every_spelling() {
        for name in [
            "x-real-ip",
            "x_real_ip",
            "x.real_ip",
            "x-forwarded-port",
            "x-forwarded-host",
            "x-forwarded-prefix",
            "x-forwarded-ssl",
            "x-forwarded-server",
            "x-forwarded",
            "x_forwarded-for",
            "x-original-url",
            "x-rewrite-url",
            "x-client-ip",
            "true-client-ip",
            "forwarded",
            "ssl-client-cert",
            "x-ssl-client-verify",
            "client-cert-chain",
        ] {
            assert!(left(&[name], false).is_empty(), "{name}");
            let is_kept = !name.contains(['_', '.']) && name != "x-forwarded-host";
            assert_eq!(left(&[name], true).len(), usize::from(is_kept), "{name}");
        }
        for name in PREFIXES.into_iter().chain(NAMES) {
            assert!(left(&[name], false).is_empty(), "{name}");
        }
        for name in ["content_length", "transfer_encoding", "transfer.encoding"] {
            assert!([false, true].iter().all(|is_trusted| left(&[name], *is_trusted).is_empty()), "{name}");
        }
        let framing = ["content-length", "transfer-encoding", "content_encoding"];
        assert_eq!(left(&framing, false), framing);
        let others = ["accept", "cookie", "x-real", "x-requested-with", "x-forward", "client", "via", "te"];
        assert_eq!(left(&others, false), others);
    }
}
