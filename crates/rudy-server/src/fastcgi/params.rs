//! What an app is told of a request: the variables of CGI (RFC 3875 §4.1) as PHP, Perl and Python apps expect them.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use http::StatusCode;
use http::header::{self, HeaderName};
use http::request::Parts;
use rudy_fastcgi::RequestId;
use rudy_fastcgi::pairs::ParamsEncoder;
use rudy_http::RawTarget;
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Client, Peer};

use super::authorize::Variables;
use super::script::Script;
use crate::internal_redirect::PageOf;
use crate::routing::without_port;

/// One request, as its app is told of it.
pub(super) struct Params<'a> {
    pub(super) head: &'a Parts,
    pub(super) client: Client,
    /// Where the client has reached us; not known of a Unix socket.
    pub(super) local: Option<SocketAddr>,
    pub(super) subject: Subject<'a>,
    /// The folder of the scripts as the app sees it, without a slash at its end.
    pub(super) root: Option<&'a str>,
    /// The length of the request's body.
    pub(super) content_length: Option<u64>,
    /// What the configuration adds or replaces.
    pub(super) extra: &'a [(String, String)],
}

/// What an app is asked for.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    /// To run a script.
    Script(&'a Script),
    /// To say who may have what is at a path, as an authorizer: it gets neither a script nor the length of the body
    /// (FastCGI 1.0 §6.3).
    Access(&'a RequestPath<'a>),
}

impl Params<'_> {
    /// Appends all of them.
    pub(super) fn encode(&self, id: RequestId, out: &mut BytesMut) {
        let mut params = Encoder { params: ParamsEncoder::new(id, out), extra: self.extra };
        params.push("GATEWAY_INTERFACE", b"CGI/1.1");
        params.push("SERVER_SOFTWARE", concat!("rudy/", env!("CARGO_PKG_VERSION")).as_bytes());
        self.encode_request(&mut params);
        match self.subject {
            Subject::Script(script) => self.encode_script(script, &mut params),
            Subject::Access(path) => self.encode_path(path, &mut params),
        }
        self.encode_client(&mut params);
        self.encode_fields(&mut params);
        if let Some(Variables(variables)) = self.head.extensions.get() {
            for (name, value) in variables {
                params.push(name, value.as_bytes());
            }
        }
        for (name, value) in self.extra {
            params.params.push(name.as_bytes(), value.as_bytes());
        }
        params.params.finish();
    }

    fn encode_request(&self, params: &mut Encoder<'_>) {
        let Parts { method, version, .. } = self.head;
        params.push("REQUEST_METHOD", method.as_str().as_bytes());
        params.push("QUERY_STRING", self.query().unwrap_or_default());
        params.push("REQUEST_SCHEME", b"http");
        let protocol = if *version == http::Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
        params.push("SERVER_PROTOCOL", protocol.as_bytes());
        self.encode_server(params);
        let content_type = self.head.headers.get(header::CONTENT_TYPE);
        params.push("CONTENT_TYPE", content_type.map_or(b"", |value| value.as_bytes()));
        match self.content_length {
            _ if matches!(self.subject, Subject::Access(_)) => {}
            // Many apps take an empty text for a number that is wrong.
            Some(length) if length > 0 || content_type.is_some() => {
                params.push_number("CONTENT_LENGTH", length);
            }
            _ => params.push("CONTENT_LENGTH", b""),
        }
    }

    /// Where the request was received, and not where the client says (RFC 3875 §4.1.14, §4.1.15): who is asked for a port that
    /// is not his own may be one who comes through another door.
    fn encode_server(&self, params: &mut Encoder<'_>) {
        let host = self.host();
        match (without_port(host), self.local.map(|local| local.ip())) {
            // HTTP/1.0 without Host.
            (b"", Some(IpAddr::V4(ip))) => params.push("SERVER_NAME", ip.to_string().as_bytes()),
            (b"", Some(IpAddr::V6(ip))) => params.push("SERVER_NAME", format!("[{ip}]").as_bytes()),
            (b"", None) => params.push("SERVER_NAME", b"localhost"),
            (name, _) => params.push("SERVER_NAME", name),
        }
        match self.local {
            Some(local) => {
                params.push("SERVER_ADDR", local.ip().to_string().as_bytes());
                params.push_number("SERVER_PORT", local.port().into());
            }
            // There is none: whoever stands in front of a Unix socket passes on what the client has named.
            None => params.push("SERVER_PORT", port(host)),
        }
    }

    /// The target as the client has sent it.
    fn target(&self) -> &[u8] {
        match self.raw_target() {
            Some(target) => target.path_and_query(),
            None => self.head.uri.path_and_query().map_or(b"*", |target| target.as_str().as_bytes()),
        }
    }

    /// The query as the client has sent it.
    fn query(&self) -> Option<&[u8]> {
        match self.raw_target() {
            Some(target) => target.query(),
            None => self.head.uri.query().map(str::as_bytes),
        }
    }

    fn raw_target(&self) -> Option<&RawTarget> {
        self.head.extensions.get()
    }

    /// The path in the spelling that the route was found by, so that no other spelling of it gets another decision.
    fn encode_path(&self, path: &RequestPath<'_>, params: &mut Encoder<'_>) {
        params.push("DOCUMENT_URI", path.as_bytes());
        // A question mark of the path would begin the query.
        let mut target = Vec::with_capacity(path.as_bytes().len());
        for (index, piece) in path.as_bytes().split(|byte| *byte == b'?').enumerate() {
            target.extend_from_slice(if index == 0 { b"" } else { b"%3F" });
            target.extend_from_slice(piece);
        }
        if let Some(query) = self.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        params.push("REQUEST_URI", &target);
        params.push("ORIGINAL_URI", self.target());
    }

    fn encode_script(&self, script: &Script, params: &mut Encoder<'_>) {
        let Script { name, path_info, .. } = script;
        params.push("REQUEST_URI", self.target());
        params.push("SCRIPT_NAME", name);
        params.push("PATH_INFO", path_info);
        params.push("DOCUMENT_URI", &[&name[..], path_info].concat());
        let Some(root) = self.root else { return };
        params.push("DOCUMENT_ROOT", root.as_bytes());
        params.push("SCRIPT_FILENAME", &[root.as_bytes(), script.file()].concat());
        if !path_info.is_empty() && script.is_translatable {
            params.push("PATH_TRANSLATED", &[root.as_bytes(), path_info].concat());
        }
        // php-cgi runs nothing unless a server has sent it here (`cgi.force_redirect`).
        let page_of = self.head.extensions.get().map_or(StatusCode::OK, |PageOf(status)| *status);
        params.push("REDIRECT_STATUS", page_of.as_str().as_bytes());
    }

    fn encode_client(&self, params: &mut Encoder<'_>) {
        match self.client.peer {
            Peer::Ip(address) => {
                params.push("REMOTE_ADDR", address.ip().to_canonical().to_string().as_bytes());
                params.push_number("REMOTE_PORT", address.port().into());
            }
            // Somebody on this machine; the specification wants an address.
            Peer::Unix => params.push("REMOTE_ADDR", b"127.0.0.1"),
        }
    }

    /// The request's fields, as `HTTP_ACCEPT` and so on (RFC 3875 §4.1.18). Several of one name are joined as one.
    fn encode_fields(&self, params: &mut Encoder<'_>) {
        let mut variable = String::with_capacity(64);
        let authority = self.head.uri.authority();
        if let Some(authority) = authority {
            // RFC 9112 §3.2.2: Host is not looked at then, and an app should not go by another name than its site.
            params.push("HTTP_HOST", authority.as_str().as_bytes());
        }
        let is_passed_on =
            |name: &&HeaderName| is_passed_on(name) && (authority.is_none() || *name != header::HOST);
        for name in self.head.headers.keys().filter(is_passed_on) {
            variable.clear();
            variable.push_str("HTTP_");
            variable
                .extend(name.as_str().chars().map(|c| if c == '-' { '_' } else { c.to_ascii_uppercase() }));
            let mut values = self.head.headers.get_all(name).iter();
            let first = values.next().map_or(&b""[..], |value| value.as_bytes());
            // RFC 9110 §5.3; cookies have a separator of their own (RFC 6265 §5.4).
            let separator: &[u8] = if name == header::COOKIE { b"; " } else { b", " };
            let mut rest = values.peekable();
            if rest.peek().is_none() {
                params.push(&variable, first);
            } else {
                let joined =
                    rest.fold(first.to_vec(), |all, value| [&all, separator, value.as_bytes()].concat());
                params.push(&variable, &joined);
            }
        }
    }

    fn host(&self) -> &[u8] {
        if let Some(authority) = self.head.uri.authority() {
            return authority.as_str().as_bytes();
        }
        self.head.headers.get(header::HOST).map_or(b"", |host| host.as_bytes())
    }
}

/// Whether a variable is the server's alone to say, in whose words an app is to trust: what it says above, of the request and
/// of the client's fields, and what php-fpm takes for its settings.
pub(super) fn is_of_server(name: &str) -> bool {
    const PREFIXES: [&str; 8] =
        ["HTTP_", "SERVER_", "REQUEST_", "SCRIPT_", "PATH_", "DOCUMENT_", "CONTENT_", "FCGI_"];
    const NAMES: [&str; 9] = [
        "GATEWAY_INTERFACE",
        "QUERY_STRING",
        "REMOTE_ADDR",
        "REMOTE_PORT",
        "REDIRECT_STATUS",
        "HTTPS",
        "ORIGINAL_URI",
        "PHP_VALUE",
        "PHP_ADMIN_VALUE",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

/// Whether an app hears of a field.
///
/// Not of `Proxy`: many libraries take `HTTP_PROXY` for the proxy that they are to use themselves (CVE-2016-5385). Nor of
/// one with anything but letters, digits and hyphens: an underscore, and in PHP a dot, becomes the same variable as a hyphen,
/// in a field that a proxy before us may have set and vouched for. Nor of what is about our connection, or has a variable of
/// its own.
fn is_passed_on(name: &HeaderName) -> bool {
    !matches!(
        name.as_str(),
        "proxy"
            | "content-type"
            | "content-length"
            | "connection"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-connection"
            | "proxy-authorization"
    ) && name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The port that the client has named, or the usual one.
fn port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if colon + 1 < host.len() && host[colon + 1..].iter().all(u8::is_ascii_digit) => {
            &host[colon + 1..]
        }
        _ => b"80",
    }
}

struct Encoder<'a> {
    params: ParamsEncoder<'a>,
    extra: &'a [(String, String)],
}

impl Encoder<'_> {
    /// Adds one, unless the configuration says it otherwise.
    fn push(&mut self, name: &str, value: &[u8]) {
        if self.extra.iter().all(|(other, _)| other != name) {
            self.params.push(name.as_bytes(), value);
        }
    }

    fn push_number(&mut self, name: &str, value: u64) {
        let mut text = [0; 20];
        let mut left = &mut text[..];
        // A `u64` has 20 digits at most.
        let _ = write!(left, "{value}");
        let unused = left.len();
        self.push(name, &text[..20 - unused]);
    }
}
