//! Turns the fields of a section into the text of an HTTP/1.1 head (RFC 9113 §8, RFC 9114 §4).
//!
//! The text then passes the same checks as a head that arrives over HTTP/1.1, so that names, values, targets and hosts are checked
//! in one place. What the text cannot express is checked here: pseudo-fields, upper case, line breaks.

use std::ops::Range;

use rudy_message::syntax::{any_byte, is_token};

use super::Priority;
use super::field::{FIELD_OVERHEAD_BYTES, check_field, put_line};

/// Buffers for heads, which the connections of a thread share.
#[derive(Debug, Default)]
pub struct HeadBuffers {
    /// Decoded strings of one field.
    pub(crate) strings: Vec<u8>,
    pub(crate) parts: HeadParts,
    /// The whole head.
    pub(crate) head: Vec<u8>,
}

#[cfg(test)]
impl HeadBuffers {
    /// Returns the heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let HeadParts { pseudo, lines, cookie } = &self.parts;
        [&self.strings, pseudo, lines, cookie, &self.head].map(Vec::capacity).iter().sum()
    }
}

/// The parts of a head whose fields come in another order than those of HTTP/1.1.
#[derive(Debug, Default)]
pub(crate) struct HeadParts {
    /// The values of pseudo-fields.
    pseudo: Vec<u8>,
    /// The lines of the other fields.
    lines: Vec<u8>,
    /// The values of all Cookie fields.
    cookie: Vec<u8>,
}

/// The pseudo-fields of a request (RFC 9113 §8.3.1).
const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
/// The protocol of a tunnel (RFC 8441 §4).
const PROTOCOL: usize = 4;

/// The fields of one header block.
pub(crate) struct HeadText<'b> {
    parts: &'b mut HeadParts,
    pseudo: [Option<Range<usize>>; 5],
    /// Whether the block is a trailer section, which has no pseudo-fields.
    is_trailer: bool,
    /// Whether a field has come that is not a pseudo-field: no pseudo-field may follow.
    has_fields: bool,
    /// The value of the first Host, in the lines.
    host: Option<Range<usize>>,
    list_bytes: usize,
    list_bytes_max: usize,
    malformed: Option<&'static str>,
    /// The priority of the response.
    pub(crate) priority: Priority,
}

/// Why a header block is not a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// It is malformed: a stream error (RFC 9113 §8.1.1).
    Malformed(&'static str),
    /// It is larger than the limit.
    TooLarge,
}

impl<'b> HeadText<'b> {
    pub(crate) fn new(parts: &'b mut HeadParts, is_trailer: bool, list_bytes_max: usize) -> Self {
        let HeadParts { pseudo, lines, cookie } = parts;
        for buffer in [pseudo, lines, cookie] {
            buffer.clear();
        }
        Self {
            parts,
            pseudo: [const { None }; 5],
            is_trailer,
            has_fields: false,
            host: None,
            list_bytes: 0,
            list_bytes_max,
            malformed: None,
            priority: Priority::default(),
        }
    }

    /// Adds a field. After a fault, fields are only counted.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.malformed.is_none() && self.list_bytes <= self.list_bytes_max {
            self.malformed = match name {
                [b':', name @ ..] => self.pseudo_field(name, value),
                _ => self.plain_field(name, value),
            }
            .err();
        }
    }

    /// Makes the block malformed, for a reason outside its fields.
    pub(crate) fn reject(&mut self, reason: &'static str) {
        self.malformed = Some(reason);
    }

    /// Whether the method is HEAD, if the limit left room for it.
    pub(crate) fn is_head(&self) -> bool {
        self.pseudo[METHOD].clone().is_some_and(|place| &self.parts.pseudo[place] == b"HEAD")
    }

    /// Whether the request is for a tunnel (RFC 8441).
    pub(crate) fn is_tunnel(&self) -> bool {
        self.pseudo[PROTOCOL].is_some()
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let which = match name {
            b"method" => METHOD,
            b"scheme" => SCHEME,
            b"authority" => AUTHORITY,
            b"path" => PATH,
            b"protocol" => PROTOCOL,
            _ => return Err("an unknown pseudo-field"),
        };
        if self.is_trailer {
            return Err("a pseudo-field in a trailer section");
        }
        if self.has_fields {
            return Err("a pseudo-field after another field");
        }
        // The parts of a request line, separated by spaces.
        if value.is_empty() || any_byte(value, |byte| byte <= b' ' || byte == 0x7f) {
            return Err("a pseudo-field is empty, or has a space or a control character");
        }
        if which == SCHEME && !is_scheme(value) {
            return Err("the scheme has an invalid character");
        }
        let start = self.parts.pseudo.len();
        self.parts.pseudo.extend_from_slice(value);
        match self.pseudo[which].replace(start..start + value.len()) {
            Some(_) => Err("a repeated pseudo-field"),
            None => Ok(()),
        }
    }

    fn plain_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        self.has_fields = true;
        // The check of the text finds other control characters.
        check_field(name, value)?;
        match name {
            b"priority" => self.priority = Priority::parse(value),
            b"te" if value != b"trailers" => return Err("TE is not trailers (RFC 9113 §8.2.2)"),
            // Several fields are one, for better compression (RFC 9113 §8.2.3).
            b"cookie" if !self.is_trailer => {
                let cookie = &mut self.parts.cookie;
                if !cookie.is_empty() {
                    cookie.extend_from_slice(b"; ");
                }
                cookie.extend_from_slice(value);
                return Ok(());
            }
            b"host" if self.host.is_none() => {
                let authority = self.pseudo[AUTHORITY].clone().map(|place| &self.parts.pseudo[place]);
                match authority {
                    Some(authority) if authority.eq_ignore_ascii_case(value) => return Ok(()),
                    Some(_) => return Err("Host differs from :authority"),
                    None => {
                        let start = self.parts.lines.len() + b"host: ".len();
                        self.host = Some(start..start + value.len());
                    }
                }
            }
            _ => {}
        }
        put_line(name, value, &mut self.parts.lines);
        Ok(())
    }

    fn check(&self) -> Result<(), HeadFault> {
        match self.malformed {
            Some(reason) => Err(HeadFault::Malformed(reason)),
            None if self.list_bytes > self.list_bytes_max => Err(HeadFault::TooLarge),
            None => Ok(()),
        }
    }

    /// Writes the head of a request. That of a tunnel is an upgrade to its protocol, which is unambiguous, because no HTTP/2 request
    /// has the field Upgrade.
    pub(crate) fn write_request(self, head: &mut Vec<u8>, accepts_tunnels: bool) -> Result<(), HeadFault> {
        // Also after a fault: the buffer has the head of another request.
        head.clear();
        self.check()?;
        let HeadParts { pseudo, lines, cookie } = &*self.parts;
        let of = |which: usize| self.pseudo[which].clone().map(|place| &pseudo[place]);
        let malformed = Err(HeadFault::Malformed("a pseudo-field is missing, or one too many"));
        let (authority, scheme, protocol) = (of(AUTHORITY), of(SCHEME), of(PROTOCOL));
        let (method, target) = match (of(METHOD), of(PATH)) {
            (Some(b"CONNECT"), Some(path)) if protocol.is_some() && accepts_tunnels => {
                if authority.is_none() || scheme.is_none() {
                    return malformed;
                }
                (&b"GET"[..], path)
            }
            _ if protocol.is_some() => return malformed,
            // RFC 9113 §8.5.
            (Some(b"CONNECT"), None) if scheme.is_none() => match authority {
                Some(authority) => (&b"CONNECT"[..], authority),
                None => return malformed,
            },
            (Some(b"CONNECT"), _) => return malformed,
            (Some(method), Some(path)) if scheme.is_some() => (method, path),
            _ => return malformed,
        };
        if ![Some(method), protocol].into_iter().flatten().flatten().all(|byte| is_token(*byte)) {
            return Err(HeadFault::Malformed("the method or the protocol has an invalid character"));
        }
        let is_path = target[0] == b'/' || method == b"CONNECT" || target == b"*" && method == b"OPTIONS";
        if !is_path {
            return Err(HeadFault::Malformed(":path is not a path"));
        }
        for part in [method, b" ", target, b" HTTP/1.1\r\n"] {
            head.extend_from_slice(part);
        }
        if let Some(authority) = authority {
            put_line(b"host", authority, head);
        }
        if let Some(protocol) = protocol {
            put_line(b"upgrade", protocol, head);
        }
        head.extend_from_slice(lines);
        if !cookie.is_empty() {
            put_line(b"cookie", cookie, head);
        }
        head.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Writes a trailer section.
    pub(crate) fn write_trailers(self, section: &mut Vec<u8>) -> Result<(), HeadFault> {
        section.clear();
        self.check()?;
        section.extend_from_slice(&self.parts.lines);
        section.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Whether a value is a scheme (RFC 3986 §3.1).
fn is_scheme(value: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &[(&str, &str)]) -> Result<String, HeadFault> {
        let (mut parts, mut head) = (HeadParts::default(), Vec::new());
        let mut text = HeadText::new(&mut parts, false, 1000);
        for (name, value) in fields {
            text.field(name.as_bytes(), value.as_bytes());
        }
        text.write_request(&mut head, true).map(|()| String::from_utf8(head).unwrap())
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "a:1")];

    fn get(more: &[(&str, &str)]) -> Result<String, HeadFault> {
        text(&[&GET[..], more].concat())
    }

    fn is_malformed(result: &Result<String, HeadFault>) -> bool {
        matches!(result, Err(HeadFault::Malformed(_)))
    }

    #[test]
    fn a_block_is_a_head_of_http_1() {
        assert_eq!(
            get(&[("accept", "*/*"), ("x", ""), ("te", "trailers")]).unwrap(),
            "GET /a?b HTTP/1.1\r\nhost: a:1\r\naccept: */*\r\nx: \r\nte: trailers\r\n\r\n"
        );
        let options = text(&[(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), ("host", "b")]);
        assert_eq!(options.unwrap(), "OPTIONS * HTTP/1.1\r\nhost: b\r\n\r\n");
        let connect = text(&[(":method", "CONNECT"), (":authority", "a:1")]);
        assert_eq!(connect.unwrap(), "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n");
    }

    #[test]
    fn a_tunnel_is_an_upgrade_of_a_path_and_a_host() {
        let tunnel = [&[(":method", "CONNECT"), (":protocol", "websocket")][..], &GET[1..]].concat();
        assert_eq!(text(&tunnel).unwrap(), "GET /a?b HTTP/1.1\r\nhost: a:1\r\nupgrade: websocket\r\n\r\n");
        for missing in [1, 2, 3, 4].map(|at| tunnel[at]).into_iter().filter(|(name, _)| *name != ":protocol")
        {
            let fields: Vec<_> = tunnel.iter().copied().filter(|field| *field != missing).collect();
            assert!(is_malformed(&text(&fields)), "without {}", missing.0);
        }
        let fields = [&tunnel[..], &[("upgrade", "websocket")]].concat();
        assert!(is_malformed(&text(&fields)));
        for protocol in ["", "a b", "a/b", "a\r\nb: c"] {
            let fields = [&[(":method", "CONNECT"), (":protocol", protocol)][..], &GET[1..]].concat();
            assert!(is_malformed(&text(&fields)), "{protocol:?}");
        }
    }

    #[test]
    fn cookies_are_joined() {
        let head = get(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3; d=4")]);
        assert!(head.unwrap().ends_with("\r\nx: y\r\ncookie: a=1; b=2; c=3; d=4\r\n\r\n"));
    }

    #[test]
    fn a_host_that_differs_from_the_authority_is_malformed() {
        assert!(get(&[("host", "A:1")]).unwrap().matches("host").count() == 1);
        for host in ["a", "a:2", "b:1", ""] {
            assert!(is_malformed(&get(&[("host", host)])), "{host}");
        }
    }

    #[test]
    fn pseudo_fields_are_complete_known_and_first() {
        for missing in &GET[..3] {
            let fields: Vec<_> = GET.into_iter().filter(|field| field != missing).collect();
            assert!(is_malformed(&text(&fields)), "without {}", missing.0);
        }
        for (name, value) in GET {
            assert!(is_malformed(&get(&[(name, value)])), "{name} twice");
            let mut fields = vec![("a", "b")];
            fields.extend(GET);
            assert!(is_malformed(&text(&fields)), "{name} after a field");
        }
        for (name, value) in
            [(":status", "200"), (":protocol", "websocket"), (":", "a"), (":Method", "GET"), (":path ", "/")]
        {
            let fields = [&[(name, value)][..], &GET].concat();
            assert!(is_malformed(&text(&fields)), "{name}");
        }
    }

    #[test]
    fn pseudo_fields_cannot_break_the_request_line() {
        for value in ["", " ", "/ HTTP/1.1", "/\r\nX: y", "/\n", "/\t", "/\0", "a", "http://a/", "*"] {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", value)];
            assert!(is_malformed(&text(&fields)), "{value:?}");
        }
        for method in ["", "G T", "GET\r\n", "G:T", "G\u{e4}T"] {
            let fields = [(":method", method), (":scheme", "http"), (":path", "/")];
            assert!(is_malformed(&text(&fields)), "{method:?}");
        }
        for scheme in ["", "h}tp", "1http", "http:", "h\u{e4}"] {
            let fields = [(":method", "GET"), (":scheme", scheme), (":path", "/")];
            assert!(is_malformed(&text(&fields)), "{scheme:?}");
        }
        for authority in ["", "a b", "a\r\nx: y"] {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", authority)];
            assert!(is_malformed(&text(&fields)), "{authority:?}");
        }
        let connect = [(":method", "CONNECT"), (":authority", "a:1"), (":path", "/"), (":scheme", "http")];
        assert!(is_malformed(&text(&connect)));
        assert!(is_malformed(&text(&connect[..1])));
    }

    #[test]
    fn names_and_values_cannot_break_a_line() {
        for name in ["", "A", "a b", "a:b", "a\r\n", "a\0", "\u{e4}", " a"] {
            assert!(is_malformed(&get(&[(name, "x")])), "{name:?}");
        }
        for value in ["a\r\nb: c", "a\nb", "\r", "a\0", " a", "a ", "\ta", "a\t"] {
            assert!(is_malformed(&get(&[("x", value)])), "{value:?}");
        }
        assert!(get(&[("x", "a b\tc")]).is_ok());
    }

    #[test]
    fn fields_of_the_connection_are_malformed() {
        for (name, value) in [
            ("connection", "close"),
            ("proxy-connection", "a"),
            ("keep-alive", "a"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
        ] {
            assert!(is_malformed(&get(&[(name, value)])), "{name}");
        }
    }

    #[test]
    fn each_field_counts_with_32_bytes_more() {
        // 147 for the pseudo-fields and their values.
        let base: usize = GET.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        let count = (1000 - base) / 36;
        assert!(get(&vec![("abc", "d"); count]).is_ok());
        assert_eq!(get(&vec![("abc", "d"); count + 1]), Err(HeadFault::TooLarge));
        // Parts of Cookie, too.
        assert_eq!(get(&vec![("cookie", ""); (1000 - base) / 38 + 1]), Err(HeadFault::TooLarge));
    }

    /// The head of a rejected request is passed on, as far as it was accepted.
    #[test]
    fn a_fault_leaves_nothing_of_the_request_before() {
        let (mut parts, mut head) = (HeadParts::default(), b"GET /secret HTTP/1.1\r\n\r\n".to_vec());
        let mut text = HeadText::new(&mut parts, false, 10);
        text.field(b":method", b"GET");
        assert_eq!(text.write_request(&mut head, false), Err(HeadFault::TooLarge));
        assert_eq!(head, b"");
    }

    #[test]
    fn a_trailer_section_has_no_pseudo_fields() {
        let trailers = |name: &str| {
            let (mut parts, mut section) = (HeadParts::default(), Vec::new());
            let mut text = HeadText::new(&mut parts, true, 100);
            text.field(name.as_bytes(), b"1");
            text.write_trailers(&mut section).map(|()| section)
        };
        assert_eq!(trailers("a").as_deref(), Ok(&b"a: 1\r\n\r\n"[..]));
        assert!(trailers(":path").is_err());
    }
}
