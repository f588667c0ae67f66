//! Requests as clients send them: valid, and with everything that a proxy may change.

use rudy_tests::Random;

/// The field that identifies a request.
pub(super) const NUMBER: &str = "x-number";

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Generated {
    pub(super) number: usize,
    pub(super) method: &'static str,
    pub(super) target: String,
    /// All fields but those for the framing of the body.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Body,
    pub(super) version: &'static str,
}

/// The body, and how it is framed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Length(String),
    /// With trailers, if any.
    Chunked(String, &'static str),
}

const METHODS: &[&str] =
    &["GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "X-RUDY"];

/// One of them is empty.
const SEGMENTS: &str = "a b.html %61 %2F %2f %20 %E2%82%AC . .. %2e %2E%2e  .hidden ... a;b=c a:b ~u (x) a+b a&b a=b @ $ ! * ' a,b %25 %c3%a9";

const QUERIES: &[&str] =
    &["", "?", "?a=b", "?a=b&c=%26", "?../x", "?a?b", "?%00", "?q=%2F..%2F", "?a=b;c", "?http://x/y"];

const TRAILERS: &[&str] = &["", "", "X-Trailer: 1\r\n"];

/// Fields with the values from which one is chosen.
const FIELDS: &[(&str, &[&str])] = &[
    ("Accept", &["*/*", "text/html, */*;q=0.1"]),
    ("ACCEPT-ENCODING", &["gzip, br", "identity"]),
    ("accept-language", &["de, en;q=0.5"]),
    ("Authorization", &["Basic YTpi"]),
    ("Cookie", &["a=b", "a=b; c=\"d\""]),
    ("Cache-Control", &["no-cache"]),
    ("Connection", &["keep-alive", "x-hop", "X-Hop, x-other", "TE", "Keep-Alive, cookie"]),
    ("Content-Type", &["text/plain", "application/x-www-form-urlencoded"]),
    ("Client-Cert", &[":AAAA:"]),
    ("Expect-CT", &["max-age=0"]),
    ("Forwarded", &["for=127.0.0.1", "for=192.0.2.1;proto=https"]),
    ("From", &["a@example.org"]),
    ("If-None-Match", &["\"x\""]),
    ("If-Modified-Since", &["Sat, 29 Oct 1994 19:43:31 GMT"]),
    ("Keep-Alive", &["timeout=5"]),
    ("Max-Forwards", &["5"]),
    ("Origin", &["https://example.org"]),
    ("Pragma", &["no-cache"]),
    ("Priority", &["u=1, i"]),
    ("Proxy-Authorization", &["Basic YTpi"]),
    ("Proxy-Connection", &["keep-alive"]),
    ("Range", &["bytes=0-9", "bytes=-1"]),
    ("Referer", &["https://example.org/a"]),
    ("TE", &["trailers", "gzip", "trailers, deflate;q=0.5"]),
    ("Upgrade", &["h2c", "TLS/1.3"]),
    ("User-Agent", &["Mozilla/5.0 (X11; Linux)", "curl/8"]),
    ("Via", &["1.1 other", "1.0 a, 1.1 b"]),
    ("X-Empty", &[""]),
    ("X-Forwarded-For", &["127.0.0.1", "203.0.113.9, 10.0.0.1"]),
    ("X-Forwarded-Host", &["evil.example"]),
    ("X-Forwarded-Proto", &["https"]),
    ("X-Hop", &["1"]),
    ("X-Other", &["1, 2", "  spaces around  ", "tab\tinside", "\"quoted, string\""]),
    ("X-Real-IP", &["127.0.0.1"]),
    ("X-Requested-With", &["XMLHttpRequest"]),
    ("X_Under_Score", &["1"]),
    ("X_Forwarded_For", &["127.0.0.1"]),
    ("X!#$%&'*+.^`|~", &["all characters of a token"]),
];

/// `Host` of most requests.
const HOSTS: &[&str] =
    &["example.org", "example.org:8080", "EXAMPLE.org", "127.0.0.1", "[::1]:80", "example.org."];

fn pick(random: &mut Random, all: &[&'static str]) -> &'static str {
    all[random.below(all.len())]
}

impl Generated {
    pub(super) fn new(number: usize, random: &mut Random) -> Self {
        let segments: Vec<_> = SEGMENTS.split(' ').collect();
        let method = pick(random, METHODS);
        let mut target = String::new();
        for _ in 0..=random.below(4) {
            target.extend(["/", pick(random, &segments)]);
        }
        target.push_str(pick(random, QUERIES));
        if random.chance(5) {
            target = format!("http://other.example{target}");
        }
        let mut fields = vec![("Host", pick(random, HOSTS).to_owned()), (NUMBER, number.to_string())];
        for _ in 0..random.below(9) {
            let (name, values) = *random.pick(FIELDS);
            fields.push((name, pick(random, values).to_owned()));
        }
        let body = match random.below(4) {
            _ if matches!(method, "GET" | "HEAD" | "OPTIONS") && !random.chance(10) => Body::None,
            0 => Body::None,
            1 => Body::Chunked("x".repeat(random.below(2000)), pick(random, TRAILERS)),
            _ => Body::Length("x".repeat(random.below(2000))),
        };
        let version = if random.chance(10) && !matches!(body, Body::Chunked(..)) { "1.0" } else { "1.1" };
        Self { number, method, target, fields, body, version }
    }

    /// Returns the bytes of the request.
    pub(super) fn encode(&self) -> String {
        let Self { method, target, fields, body, version, .. } = self;
        let mut head = format!("{method} {target} HTTP/{version}\r\n");
        for (name, value) in fields {
            head.extend([*name, ": ", value, "\r\n"]);
        }
        match body {
            Body::None => head + "\r\n",
            Body::Length(body) => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
            Body::Chunked(body, trailers) => {
                // In two chunks; none has a length of 0.
                let (first, second) = body.split_at(body.len() / 2);
                let chunk = |part: &str| {
                    if part.is_empty() { String::new() } else { format!("{:x}\r\n{part}\r\n", part.len()) }
                };
                format!(
                    "{head}Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n{trailers}\r\n",
                    chunk(first),
                    chunk(second)
                )
            }
        }
    }

    /// Returns whether a field has a member, in any case.
    pub(super) fn has_member(&self, name: &str, member: &str) -> bool {
        self.values(name).any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(member)))
    }

    /// Returns the values of a field.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields
            .iter()
            .filter(move |(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}
