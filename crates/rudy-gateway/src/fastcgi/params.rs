//! The variables of a request (CGI, RFC 3875 §4.1), as PHP, Perl and Python apps expect them.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::BytesMut;
use http::StatusCode;
use http::header::{self, HeaderValue};
use http::uri::Scheme;
use rudy_fastcgi::pairs::encode_pair;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::digits::{IP_BYTES_MAX, write_ip};
use rudy_pipeline::exchange::trace;
use rudy_pipeline::methods::decisive;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::routing::without_port;
use rudy_service::{Client, Request};

use super::framing::{AppProtocol, Unframed, Variables};
use super::script::Script;
use super::tls::encode_tls;

/// What the names of the variables of header fields begin with.
const PREFIX: &[u8] = b"HTTP_";

/// The number of fields in nearly all heads.
const FIELDS: usize = 24;

/// The variables that are the same in every request to an app, encoded once.
#[derive(Debug)]
pub(super) struct Constants {
    /// The folder of the scripts as the app sees it, without a slash at its end.
    root: Option<String>,
    /// Variables that the configuration adds or overrides.
    overrides: Vec<(String, String)>,
    encoded: BytesMut,
}

impl Constants {
    pub(super) fn new(root: Option<String>, overrides: Vec<(String, String)>) -> Self {
        let mut encoded = BytesMut::new();
        let server_variables = [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", concat!("rudy/", env!("CARGO_PKG_VERSION"))),
        ];
        let document_root = root.as_deref().map(|root| ("DOCUMENT_ROOT", root));
        let is_kept = |(name, _): &(&str, &str)| overrides.iter().all(|(other, _)| other != name);
        for (name, value) in server_variables.into_iter().chain(document_root).filter(is_kept) {
            encode_pair(name.as_bytes(), value.as_bytes(), &mut encoded);
        }
        for (name, value) in &overrides {
            encode_pair(name.as_bytes(), value.as_bytes(), &mut encoded);
        }
        Self { root, overrides, encoded }
    }

    /// The folder of the scripts as the app sees it, without a slash at its end.
    #[cfg(test)]
    pub(super) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }
}

/// The variables of one request.
pub(super) struct Params<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) client: &'a Client<'a>,
    pub(super) purpose: Purpose<'a>,
    /// The length of the request's body.
    pub(super) content_length: Option<u64>,
    pub(super) constants: &'a Constants,
}

/// The purpose of a request to an app.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// Run a script.
    RunScript(&'a Script),
    /// Authorize a request for a path. An authorizer receives neither a script nor the length of the body
    /// (FastCGI 1.0 §6.3).
    Authorize(&'a RequestPath<'a>),
}

impl Params<'_> {
    /// Encodes all variables of an attempt over this protocol.
    pub(super) fn encode(&self, variables: Variables<'_>, protocol: AppProtocol) -> Result<(), Unframed> {
        let mut params = Encoder { params: variables, overrides: &self.constants.overrides };
        params.params.push_encoded(&self.constants.encoded);
        self.encode_request(&mut params);
        match self.purpose {
            Purpose::RunScript(script) => self.encode_script(script, &mut params),
            Purpose::Authorize(path) => self.encode_path(path, &mut params),
        }
        self.encode_client(&mut params);
        if let Some(tls) = &self.client.tls {
            encode_tls(tls, &mut |name, value| params.push(name, value));
        }
        self.encode_fields(protocol, &mut params);
        let of_authorizer = self.request.state().variables.0.as_slice();
        self.encode_user(of_authorizer, &mut params);
        for (name, value) in of_authorizer {
            params.push(name, value.as_bytes());
        }
        params.params.finish()
    }

    fn encode_request(&self, params: &mut Encoder<'_>) {
        params.push("REQUEST_METHOD", decisive(self.request.method()).as_str().as_bytes());
        params.push("QUERY_STRING", self.request.query().unwrap_or_default());
        let protocol = match self.request.version() {
            http::Version::HTTP_10 => "HTTP/1.0",
            http::Version::HTTP_2 => "HTTP/2.0",
            http::Version::HTTP_3 => "HTTP/3.0",
            _ => "HTTP/1.1",
        };
        params.push("SERVER_PROTOCOL", protocol.as_bytes());
        params.push("REQUEST_SCHEME", self.client.scheme().as_str().as_bytes());
        if self.client.scheme() == Scheme::HTTPS {
            params.push("HTTPS", b"on");
        }
        self.encode_server(params);
        let content_type = self.request.get(&header::CONTENT_TYPE);
        params.push("CONTENT_TYPE", content_type.unwrap_or_default());
        match self.content_length {
            _ if matches!(self.purpose, Purpose::Authorize(_)) || params.params.has_length() => {}
            // Many apps reject an empty value as an invalid number.
            Some(length) if length > 0 || content_type.is_some() => {
                params.push_number("CONTENT_LENGTH", length);
            }
            _ => params.push("CONTENT_LENGTH", b""),
        }
    }

    /// The address at which the request was received, not the one that the client names (RFC 3875 §4.1.14,
    /// §4.1.15): an app may check the port to see which listener a request came through.
    fn encode_server(&self, params: &mut Encoder<'_>) {
        let host = self.request.host();
        let local = self.client.local_address.get();
        match (without_port(host), local.map(|local| local.ip())) {
            // HTTP/1.0 without Host.
            (b"", Some(IpAddr::V6(ip))) => params.push("SERVER_NAME", format!("[{ip}]").as_bytes()),
            (b"", Some(ip)) => params.push_ip("SERVER_NAME", ip),
            (b"", None) => params.push("SERVER_NAME", b"localhost"),
            (name, _) => params.push("SERVER_NAME", name),
        }
        match local {
            Some(local) => {
                params.push_ip("SERVER_ADDR", local.ip());
                params.push_number("SERVER_PORT", local.port().into());
            }
            // A Unix socket has no port; the proxy in front passes on the one that the client has named.
            None => params.push("SERVER_PORT", port(host, &self.client.scheme())),
        }
    }

    /// Returns the request target as the client sent it.
    fn target(&self) -> &[u8] {
        let sent = self.request.state().original_target.as_deref();
        sent.unwrap_or_else(|| self.request.path_and_query())
    }

    /// Encodes the normalized path by which the route was found, so that no other spelling of the path gets
    /// another decision.
    fn encode_path(&self, path: &RequestPath<'_>, params: &mut Encoder<'_>) {
        params.push("DOCUMENT_URI", path.as_bytes());
        // An unescaped question mark in the path would start the query.
        let mut target = Vec::with_capacity(path.as_bytes().len());
        for (index, piece) in path.as_bytes().split(|byte| *byte == b'?').enumerate() {
            target.extend_from_slice(if index == 0 { b"" } else { b"%3F" });
            target.extend_from_slice(piece);
        }
        if let Some(query) = self.request.query() {
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
        params.push_joined("DOCUMENT_URI", name, path_info);
        let Some(root) = &self.constants.root else { return };
        params.push_joined("SCRIPT_FILENAME", root.as_bytes(), script.file());
        if !path_info.is_empty() && script.is_translatable {
            params.push_joined("PATH_TRANSLATED", root.as_bytes(), path_info);
        }
        // php-cgi refuses to run without it (`cgi.force_redirect`).
        let page_of = self.request.state().error_page_for.unwrap_or(StatusCode::OK);
        params.push("REDIRECT_STATUS", page_of.as_str().as_bytes());
    }

    fn encode_client(&self, params: &mut Encoder<'_>) {
        let client = self.client.address();
        match client.ip() {
            Some(ip) => params.push_ip("REMOTE_ADDR", ip),
            // A client on this machine; the specification requires an address.
            None => params.push("REMOTE_ADDR", b"127.0.0.1"),
        }
        if let Some(port) = client.port() {
            params.push_number("REMOTE_PORT", port.into());
        }
    }

    /// Encodes the user that a step has verified (RFC 3875 §4.1.1, §4.1.11), unless an authorizer names another one.
    fn encode_user(&self, of_authorizer: &[(String, HeaderValue)], params: &mut Encoder<'_>) {
        let Some(identity) = &self.request.state().identity else { return };
        let is_set = |name: &str| of_authorizer.iter().any(|(other, _)| other == name);
        if is_set("REMOTE_USER") {
            return;
        }
        params.push("REMOTE_USER", identity.user().as_bytes());
        if let Some(auth_type) = identity.auth_type.filter(|_| !is_set("AUTH_TYPE")) {
            params.push("AUTH_TYPE", auth_type.as_bytes());
        }
    }

    /// Encodes the header fields, as `HTTP_ACCEPT` and so on (RFC 3875 §4.1.18). Fields with the same name
    /// are joined.
    fn encode_fields(&self, protocol: AppProtocol, params: &mut Encoder<'_>) {
        let is_absolute = self.request.is_absolute();
        if is_absolute {
            // RFC 9112 §3.2.2: the authority replaces Host. The app must see the same host as the site
            // selection.
            params.push("HTTP_HOST", self.request.host());
        }
        // RFC 8470 §5.1. A field of the client, which is then itself a gateway, is passed on otherwise.
        let is_early = self.client.tls.as_ref().is_some_and(|tls| tls.is_early);
        if is_early {
            params.push("HTTP_EARLY_DATA", b"1");
        }
        // Each attempt has a span of its own. The answer of an authorizer is one of another kind.
        let traceparent = match self.purpose {
            Purpose::RunScript(_) => trace::value_of_attempt(self.client.observer.get(), protocol.name()),
            Purpose::Authorize(_) => None,
        };
        if let Some(value) = &traceparent {
            params.push("HTTP_TRACEPARENT", value);
        }
        let is_replaced = |name: &[u8]| {
            (is_absolute && name.eq_ignore_ascii_case(b"host"))
                || (is_early && name.eq_ignore_ascii_case(b"early-data"))
        };
        let are_plain = self.request.has_plain_names();
        // To find the lines again would cost more than the list.
        let mut fields = Vec::with_capacity(FIELDS);
        fields.extend(self.request.fields());
        let repeated = Names::repeated(fields.iter().map(|(name, _)| *name));
        let mut joined: Vec<&[u8]> = Vec::new();
        for (name, value) in fields {
            let is_done = || joined.iter().any(|other| name.eq_ignore_ascii_case(other));
            if !(are_plain || is_plain(name)) || has_other_way(name) || is_replaced(name) || is_done() {
                continue;
            }
            let mut value = Cow::Borrowed(value);
            if repeated.may_have(name) {
                joined.push(name);
                value = self.joined(name).into();
            }
            params.push_field(name, &value);
        }
    }

    /// Joins all lines of a field (RFC 9110 §5.3). Cookies have their own separator (RFC 6265 §5.4).
    fn joined(&self, name: &[u8]) -> Vec<u8> {
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        let lines = self.request.fields().filter(|(other, _)| name.eq_ignore_ascii_case(other));
        lines.map(|(_, value)| value).collect::<Vec<_>>().join(separator)
    }
}

/// Returns whether only the server may set a variable, because apps trust it: the variables above, those of
/// header fields, and those that php-fpm uses as settings.
pub(super) fn is_reserved(name: &str) -> bool {
    const PREFIXES: [&str; 9] =
        ["HTTP_", "SERVER_", "REQUEST_", "SCRIPT_", "PATH_", "DOCUMENT_", "CONTENT_", "FCGI_", "SSL_"];
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

/// Returns whether a name consists of letters, digits and hyphens. Others are not passed to the app: an underscore (in PHP also a dot) becomes
/// the same variable as a hyphen, so a client could forge a field that a proxy in front sets.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Returns whether a field is not passed to the app as a field: those of the connection, those that have their own variable, and `Proxy`, because
/// many libraries use `HTTP_PROXY` as the address of their proxy (CVE-2016-5385).
fn has_other_way(name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        2 => is("te"),
        5 => is("proxy"),
        7 => is("trailer") || is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        12 => is("content-type"),
        14 => is("content-length"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        19 => is("proxy-authorization"),
        _ => false,
    }
}

/// A set of names, in any case, which may seem to have others. With 1,024 places, hardly one of the names of a request does.
#[derive(Default)]
struct Names([u64; 16]);

impl Names {
    /// Returns the names that may be there several times.
    fn repeated<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let (mut seen, mut repeated) = (Self::default(), Self::default());
        for name in names {
            let (word, bit) = Self::place(name);
            repeated.0[word] |= seen.0[word] & bit;
            seen.0[word] |= bit;
        }
        repeated
    }

    fn may_have(&self, name: &[u8]) -> bool {
        let (word, bit) = Self::place(name);
        self.0[word] & bit != 0
    }

    fn place(name: &[u8]) -> (usize, u64) {
        // The length and the last four bytes, in which even `Sec-Fetch-Site` and `Sec-Fetch-Mode` differ.
        let mut last = [0; 4];
        let start = name.len().saturating_sub(last.len());
        last[..name.len() - start].copy_from_slice(&name[start..]);
        let letters = u64::from(u32::from_le_bytes(last) | 0x2020_2020);
        // Fibonacci hashing (Knuth, volume 3, §6.4): the ten highest bits of a product.
        let hash = (letters + ((name.len() as u64) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        ((hash / 64) as usize, 1 << (hash % 64))
    }
}

/// Returns the port that the client has named, or the default port.
fn port<'a>(host: &'a [u8], scheme: &Scheme) -> &'a [u8] {
    match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if colon + 1 < host.len() && host[colon + 1..].iter().all(u8::is_ascii_digit) => {
            &host[colon + 1..]
        }
        _ if *scheme == Scheme::HTTPS => b"443",
        _ => b"80",
    }
}

/// Spells the name of a field as that of a variable. In blocks for which the compiler needs no loop; the last one may overlap the one before.
fn spell_variable(name: &mut [u8]) {
    let spell = |block: &mut [u8]| {
        for byte in block {
            *byte = variable_byte(*byte);
        }
    };
    for block in name.as_chunks_mut::<8>().0 {
        spell(block);
    }
    match name.last_chunk_mut::<8>() {
        Some(block) => spell(block),
        None => spell(name),
    }
}

/// Returns the character in the name of a variable for that in the name of a field, or for itself.
#[inline]
fn variable_byte(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

struct Encoder<'a> {
    params: Variables<'a>,
    overrides: &'a [(String, String)],
}

impl Encoder<'_> {
    /// Adds a variable unless the configuration overrides it.
    fn push(&mut self, name: &str, value: &[u8]) {
        if self.is_not_overridden(name.as_bytes()) {
            self.params.push(name.as_bytes(), value);
        }
    }

    /// Adds the variable of a header field.
    fn push_field(&mut self, name: &[u8], value: &[u8]) {
        let variable = || PREFIX.iter().copied().chain(name.iter().map(|byte| variable_byte(*byte)));
        if self.overrides.iter().all(|(other, _)| !other.bytes().eq(variable())) {
            self.params.push_spelled(PREFIX, name, spell_variable, value);
        }
    }

    fn push_joined(&mut self, name: &str, start: &[u8], end: &[u8]) {
        if self.is_not_overridden(name.as_bytes()) {
            self.params.push_joined(name.as_bytes(), start, end);
        }
    }

    fn push_number(&mut self, name: &str, value: u64) {
        self.push(name, itoa::Buffer::new().format(value).as_bytes());
    }

    fn push_ip(&mut self, name: &str, ip: IpAddr) {
        let mut text = [0; IP_BYTES_MAX];
        let mut left = &mut text[..];
        let _ = write_ip(ip, &mut left);
        let unused = left.len();
        self.push(name, &text[..IP_BYTES_MAX - unused]);
    }

    fn is_not_overridden(&self, name: &[u8]) -> bool {
        self.overrides.iter().all(|(other, _)| other.as_bytes() != name)
    }
}
