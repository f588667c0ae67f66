//! Changes of protocol (RFC 9110 §7.8): which ones a client may request, and whether the upstream has really changed.
//!
//! Only the protocols of a list are passed on. A change to HTTP/2 without TLS, to another version of HTTP or to TLS would hide requests
//! from the proxy, so these can never be on the list.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{Method, Version};
use rudy_config::written_as_text;
use rudy_message::LazyHead;
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::syntax::{is_token, members};

/// The protocols that are always passed on. Clients of Docker use `tcp` for the raw streams of a container.
const ALWAYS: [&str; 2] = [WEBSOCKET, "tcp"];

const WEBSOCKET: &str = "websocket";

/// The constant of the WebSocket handshake (RFC 6455 §1.3).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A protocol to which a client may change its connection: `tailscale-control-protocol`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpgradeProtocol(String);

/// A request for another protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The protocols, in the order of the client.
    tokens: String,
    /// The key of the WebSocket handshake. Clients of other handshakes have none.
    key: Option<HeaderValue>,
    /// Whether the client uses extended CONNECT (RFC 8441, RFC 9220): the upstream gets an upgrade, and the client a 200.
    pub(super) is_connect: bool,
}

/// Returns the request for another protocol if it may be passed on: to WebSocket, or to one of `more`. Call this before the fields of the
/// client's connection are removed.
pub(super) fn offer(head: &LazyHead<'_>, more: &[UpgradeProtocol]) -> Option<Offer> {
    let (method, version) = (head.method(), head.version());
    let is_connect = version >= Version::HTTP_2 && *method == Method::CONNECT;
    // RFC 6455 §4.1 requires GET for WebSocket.
    let is_http11 = version == Version::HTTP_11 && matches!(*method, Method::GET | Method::POST);
    let has_option =
        || list(head, KnownField::Connection).any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    if !(is_connect || is_http11 && has_option()) {
        return None;
    }
    let key = if is_connect { Some(new_key()) } else { head.value(&SEC_WEBSOCKET_KEY) };
    let names = || ALWAYS.into_iter().chain(more.iter().map(|protocol| protocol.0.as_str()));
    let is_passed = |token: &&[u8]| {
        (*method != Method::POST || !token.eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
            && names().any(|name| name.as_bytes().eq_ignore_ascii_case(token))
    };
    let tokens =
        list(head, KnownField::Upgrade).filter(is_passed).map(|token| String::from_utf8_lossy(token));
    let tokens = tokens.collect::<Vec<_>>().join(", ");
    (!tokens.is_empty()).then_some(Offer { tokens, key, is_connect })
}

impl Offer {
    /// Adds the request for the protocol to the fields for the upstream.
    pub(super) fn set_fields(&self, head: &mut LazyHead<'_>) {
        if let Ok(tokens) = HeaderValue::from_str(&self.tokens) {
            head.set(UPGRADE, tokens);
            head.add(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        if let Some(key) = self.key.as_ref().filter(|_| self.is_connect) {
            head.set(SEC_WEBSOCKET_KEY, key.clone());
            if !head.contains(&SEC_WEBSOCKET_VERSION) {
                head.add(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
        }
    }

    /// Returns the protocol that the client prefers.
    pub(super) fn protocol(&self) -> &str {
        self.tokens.split(", ").next().unwrap_or_default()
    }

    /// Returns the value of `Sec-WebSocket-Accept` for the client.
    pub(super) fn accept(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(accept(self.key.as_ref()?)).ok()
    }

    /// Checks the response of an upstream that changes the protocol to `token`. Clients of HTTP/1.1 have made the key of a WebSocket, if
    /// there is one, and check the upstream's response to it themselves; for clients of HTTP/2, Rudy has.
    ///
    /// # Errors
    ///
    /// The client has not requested this protocol, or the upstream does not speak WebSocket.
    pub(super) fn check(&self, token: &HeaderValue, fields: &HeaderMap) -> Result<(), &'static str> {
        let is_offered =
            self.tokens.split(", ").any(|offered| offered.as_bytes().eq_ignore_ascii_case(token.as_bytes()));
        if !is_offered {
            return Err("to a protocol that the client has not requested (Upgrade)");
        }
        if !self.is_connect || !token.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()) {
            return Ok(());
        }
        let expected = self.key.as_ref().map(accept);
        let given = fields.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
        if expected.as_ref().map(String::as_bytes) == given {
            Ok(())
        } else {
            Err("without the right Sec-WebSocket-Accept")
        }
    }
}

fn list<'h>(head: &'h LazyHead<'_>, field: KnownField) -> impl Iterator<Item = &'h [u8]> {
    head.lines(field).flat_map(members)
}

/// Returns the value that shows that an upstream has read the key (RFC 6455 §4.2.2).
fn accept(key: &HeaderValue) -> String {
    let text = [key.as_bytes(), WEBSOCKET_GUID.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text))
}

/// Makes a key for a client of HTTP/2, which sends none. An upstream does not tell one key from another, so a failure of the random number
/// generator does no harm.
fn new_key() -> HeaderValue {
    let mut bytes = [0; 16];
    let _ = rand::fill(&mut bytes);
    HeaderValue::try_from(STANDARD.encode(bytes)).unwrap_or(HeaderValue::from_static(""))
}

impl FromStr for UpgradeProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.split('/').next().unwrap_or_default().to_ascii_lowercase();
        if matches!(name.as_str(), "h2c" | "http" | "tls") {
            return Err("HTTP and TLS would hide requests from the proxy".to_owned());
        }
        let is_name = !text.is_empty() && text.bytes().all(|byte| is_token(byte) || byte == b'/');
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| "expected a name as in `Upgrade`".to_owned())
    }
}

impl fmt::Display for UpgradeProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(UpgradeProtocol, "a protocol for `Upgrade` (\"tailscale-control-protocol\")", {
    doc: "The name of a protocol in the field `Upgrade`.",
    examples: ["tailscale-control-protocol"],
});

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn head(method: &Method, version: Version, fields: &[(&'static str, &'static str)]) -> LazyHead<'static> {
        let mut request = http::Request::builder().method(method).version(version).body(()).unwrap();
        *request.headers_mut() = map(fields);
        request.into_parts().0.into()
    }

    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");

    #[test]
    fn only_listed_protocols_are_passed_on() {
        let more = ["derp".parse::<UpgradeProtocol>().unwrap()];
        let [get, post] = [Method::GET, Method::POST].map(|method| (method, Version::HTTP_11));
        for ((method, version), fields, tokens) in [
            (
                &get,
                &[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket"), KEY][..],
                Some("WebSocket"),
            ),
            (
                &get,
                &[("connection", "upgrade"), ("upgrade", "h2c, websocket, DERP"), KEY],
                Some("websocket, DERP"),
            ),
            (&get, &[("connection", "upgrade"), ("upgrade", "websocket")], Some("websocket")),
            (&get, &[("connection", "Upgrade"), ("upgrade", "tcp")], Some("tcp")),
            (&post, &[("connection", "Upgrade"), ("upgrade", "tcp, websocket")], Some("tcp")),
            (&post, &[("connection", "Upgrade"), ("upgrade", "other")], None),
            (&get, &[("upgrade", "websocket"), KEY], None),
            (&get, &[("connection", "upgrade"), ("upgrade", "h2c, TLS/1.0, HTTP/2.0"), KEY], None),
            (&post, &[("connection", "upgrade"), ("upgrade", "websocket"), KEY], None),
            (
                &(Method::GET, Version::HTTP_10),
                &[("connection", "upgrade"), ("upgrade", "websocket"), KEY],
                None,
            ),
            (&(Method::CONNECT, Version::HTTP_2), &[("upgrade", "websocket")], Some("websocket")),
            (&(Method::CONNECT, Version::HTTP_3), &[("upgrade", "websocket")], Some("websocket")),
        ] {
            let offer = offer(&head(method, *version, fields), &more);
            assert_eq!(offer.map(|offer| offer.tokens).as_deref(), tokens, "{fields:?}");
        }
        for text in ["h2c", "HTTP/3", "tls", "TLS/1.3", "", "a b"] {
            assert!(text.parse::<UpgradeProtocol>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_upstream_must_change_to_an_offered_protocol_and_know_the_key_that_rudy_has_made() {
        let fields = [("connection", "upgrade"), ("upgrade", "websocket"), KEY];
        let of_client = offer(&head(&Method::GET, Version::HTTP_11, &fields), &[]).unwrap();
        let ours = Offer { is_connect: true, ..of_client.clone() };
        let check = |offer: &Offer, token, fields: &[_]| {
            offer.check(&HeaderValue::from_static(token), &map(fields)).is_ok()
        };
        // RFC 6455 §1.3.
        let accept = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let wrong = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=");
        for (offer, is_checked) in [(&of_client, false), (&ours, true)] {
            assert!(check(offer, "websocket", &[accept]) && check(offer, "WebSocket", &[accept]));
            assert_eq!(check(offer, "websocket", &[]), !is_checked);
            assert_eq!(check(offer, "websocket", &[wrong]), !is_checked);
            assert!(!check(offer, "h2c", &[accept]));
        }
    }
}
