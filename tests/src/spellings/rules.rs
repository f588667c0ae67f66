//! Explanations of the differences between servers.

use std::sync::LazyLock;

use super::generate::Spelling;
use super::send::ResponseSummary;

/// An explanation of differences between Rudy and other servers.
#[derive(Debug)]
pub struct Rule {
    /// The tags of the spellings. `*` matches any text.
    pub tags: Vec<&'static str>,
    /// The possible beginnings of Rudy's response, as in [`ResponseSummary::first`].
    pub rudy: Vec<&'static str>,
    /// The reason for the difference.
    pub reason: &'static str,
}

impl Rule {
    /// Whether the rule matches the spelling and Rudy's response.
    pub fn explains(&self, spelling: &Spelling, rudy: &ResponseSummary) -> bool {
        let has = |pattern: &str| spelling.tags.iter().any(|tag| matches(pattern, tag));
        self.tags.iter().any(|pattern| has(pattern))
            && self.rudy.iter().any(|first| rudy.first.starts_with(first))
    }
}

/// Whether a tag matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, tag: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == tag };
    let Some(mut tag) = tag.strip_prefix(first) else { return false };
    rest.split('*').all(|part| match tag.find(part) {
        Some(at) => {
            tag = &tag[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Rudy accepts the spelling: it serves the resource, redirects, or the resource is closed or missing. In [`TEXT`], this is `meant`.
const AS_MEANT: [&str; 5] = ["2", "3", "403", "404", "405"];

/// The rules, the most specific first: tags, `=>`, the beginnings of responses, and below them the reason.
const TEXT: &str = r"
// Framing. Rudy rejects a body with ambiguous framing, because it allows request smuggling.
coding/and-length => 400
    Transfer-Encoding and Content-Length at once: Rudy, nginx and lighttpd reject it, Apache uses the chunks (RFC 9112 §6.3 allows both)
coding/gzip-chunked coding/identity => 501, 400
    a transfer coding that Rudy cannot decode is 501 (RFC 9112 §6.1); Apache ignores the unknown coding and reads the chunks
coding/* => 400, 501
    a body whose Transfer-Encoding does not end in a single `chunked` has no known length: 400 (RFC 9112 §6.3); others send 501, or accept a second `chunked`
coding/chunked coding/empty-elements length/white-space host/white-space => meant
    tabs around a value and empty list elements are valid (RFC 9110 §5.5, §5.6.1); nginx and lighttpd do not accept all of them
length/same-twice length/list* length/two => 400
    more than one Content-Length is 400, even if the values are equal
length/overflow length/negative-overflow chunk/overflow chunk/32-bit-overflow => 400, 413, 403, 404, 405
    Rudy sends 413 for a length over the limit at once, before the body; others send 400, or wait for the body until their timeout
length/of-a-get coding/of-a-get => meant
    a GET may have a body, which Rudy discards (RFC 9110 §9.3.1); lighttpd rejects it
length/* => 400
    Content-Length may have digits only (RFC 9110 §8.6): 400; lighttpd sends 411 for an empty value, Apache unfolds a folded one
length/missing coding/other-field method/POST method/case => meant
    a POST without a length has no body (RFC 9112 §6.3); lighttpd requires a length (411)
chunk/space-behind-size chunk/many-zeros chunk/framing-in-trailer => 400
    stricter than all others: no space after a chunk size (RFC 9112 §7.1.1 allows it before an extension only), at most 16 digits in it, and no framing fields in a trailer (RFC 9110 §6.5.1)
chunk/* => 400
    chunks must match RFC 9112 §7.1, with valid extensions and trailers and CRLF everywhere; nginx and lighttpd skip invalid parts
chunk/* => 403, 404, 405
    Rudy does not check a body that no handler reads before the response, and closes the connection afterwards. Apache reads the body first

// Line ends and white space.
end/* before/lf before/cr => 400
    a line ends in CRLF: a bare LF or CR is 400 (RFC 9112 §2.2 allows both); nginx accepts LF, lighttpd only at the end of the head
before/empty-line* => meant
    empty lines before a request are skipped (RFC 9112 §2.2); lighttpd rejects them
before/* => 400
    other bytes before a request are 400; lighttpd treats them as a method: 501
space/* => 400
    one space on each side of the target (RFC 9112 §3); nginx accepts several, and treats a line without version as HTTP/0.9, like Apache

// The request line.
version/none* version/0.9 => 400
    HTTP/0.9 is not supported; nginx and Apache respond to it without status and fields
version/2 => 505, 400
    another major version is 505; Apache responds with HTTP/1.1
version/1.0 => 400
    HTTP/1.0 has no Transfer-Encoding: 400 (RFC 9112 §6.1)
version/1.2 version/1.0 => meant
    a later minor version is served as HTTP/1.1 (RFC 9110 §2.5); lighttpd sends 505
version/* => 400, 505
    a version is `HTTP/` with two digits, without extra spaces (RFC 9112 §2.3): 400; nginx accepts several digits and spaces, lighttpd sends 505 or treats the rest as part of the path
method/TRACE => 405, 403
    TRACE is 405 unless a route allows it, because an echo reveals cookies to scripts, and 403 in a closed folder; Apache echoes, lighttpd passes it to the app
method/CONNECT form/connect-authority => 400, 405
    CONNECT is 405 with a valid authority and 400 without one (RFC 9110 §9.3.6)
method/no-token method/empty => 400
    a method is a token (RFC 9110 §9.1): 400; lighttpd sends 501
method/case method/HEAD method/POST method/PUT method/DELETE method/OPTIONS method/PATCH method/dav method/unknown method/long method/preface => 2, 3, 403, 404, 405, 411, 501
    methods are case-sensitive; an unknown one is 501 for files and closed folders, and is passed to an app; OPTIONS is 204 with Allow; Apache serves files for POST and TRACE; nginx rejects lower case, lighttpd unknown methods
form/options-asterisk => 2
    `OPTIONS *` is about the server: 204 (RFC 9110 §9.3.7); nginx rejects it
form/absolute-https => 421
    https over a connection without TLS is 421 (RFC 9110 §4.2.2, §7.4); the others ignore the scheme
form/* => 400
    a target is a path, an absolute http or https URI with a host and without user information, or `*` (RFC 9112 §3.2): 400; nginx accepts any scheme, Apache any path without a leading slash
form/absolute* form/dot-host form/broken-scheme => meant
    an absolute target overrides Host (RFC 9112 §3.2.2), and the app receives only the path in REQUEST_URI; Apache passes the whole target, lighttpd rejects different hosts, nginx converts the host to lower case

// Host.
host/* => 400
    Host is a valid host with an optional port (RFC 9110 §7.2, RFC 3986 §3.2.2): 400; nginx accepts almost any bytes, Apache unfolds a folded line
host/case host/port host/empty-port host/final-dot host/dots host/other host/ipv6 host/ipv-future host/sub-delimiter host/encoded host/underscore host/list host/long => meant
    a valid host selects a site or the default one, even if it is not a DNS name (sub-delimiters, percent-encoding, empty labels); the app receives it unchanged. The others reject some of these, or normalize the host for the app

// Fields.
field/long => meant
    Rudy accepts fields up to 16 KiB, the others up to 8 KiB
field/many field/too-long path/long path/many-segments query/long => 431, 414, 400
    limits: Rudy sends 414 for a target over 8 KiB, 431 for more than 100 fields or 16 KiB; the others have other limits and send 400 or 431
field/other-expectation => 417
    an expectation that is not 100-continue is 417 (RFC 9110 §10.1.1); nginx and lighttpd ignore it
field/* => 400
    a field line is a token, directly followed by a colon, and a value without control characters, on one line, and Host occurs once (RFC 9112 §5, RFC 9110 §5.5): 400; nginx accepts invalid names and bytes, lighttpd a second Host, lighttpd and Apache folded lines
field/expect => meant
    Rudy, nginx and lighttpd keep the connection if the client sends the body without waiting for 100; Apache closes it
field/* => meant
    unusual but valid fields have no effect; lighttpd and Apache reject some

// Paths.
meaning/source* => 404, 405
    Rudy never sends PHP source, whatever the case or the continuation of the suffix; the others send files that do not match *.php exactly
path/above-root path/first-backslash meaning/outside => 400
    a path above the root is 400, as with nginx and Apache; lighttpd stops at the root
meaning/path-info-dots path/slash-behind-dots => 400, 404
    a `..` segment in the decoded PATH_INFO is 400, because an app that resolves it leaves its folder; nginx and lighttpd resolve it, even across %2F, Apache passes it on encoded
meaning/encoded-slash* path/encoded-slash path/encoded-first-slash path/overlong-slash => 400, 404
    a name of a file cannot have a slash: %2F is 400 outside of PATH_INFO; nginx and lighttpd treat it as a separator, Apache sends 404
meaning/path-info-slash path/encoded-slash => meant
    %2F in PATH_INFO is a slash for the app (RFC 3875 §4.1.5), as with nginx and lighttpd; Apache passes it on encoded
path/*backslash* => 400
    a backslash in the path of a file is 400, because some programs treat it as a separator; the others find no such file
path/bad-escape => 400
    a percent sign without two digits is 400 (RFC 3986 §2.1), as with nginx and Apache; lighttpd accepts it literally
path/parameter path/parameter-dots path/double-encoded-dots => 400
    a path with %2F or %5C that no script handles is 400; the others send 404
path/encoded-letter => 400
    percent-encoding that is completed by another one is invalid (`%2%46`): 400; lighttpd accepts the percent sign literally
path/*nul* => 400
    NUL is 400 anywhere; Apache sends 404
path/*not-utf8 path/overlong* query/bytes-not-utf8 => 400, 403
    paths of files must be UTF-8: 400, unless the path is closed; nginx and Apache accept any bytes. lighttpd 1.4.69 does not match its patterns against such paths, and so opens a closed folder
path/fragment query/fragment => 400
    a target has no fragment (RFC 9112 §3.2): 400; nginx and lighttpd cut it off
path/*space* query/space path/tab query/tab path/control query/control query/nul => 400
    white space and control characters in a target are 400 (RFC 9112 §3.2); lighttpd accepts spaces as part of the path
path/encoded-control path/encoded-line-end => 403, 404
    no file has control characters in its name: 404; lighttpd rejects them
path/three-dots path/parameter-dots path/last-suffix => 404
    a file whose name begins with a dot is hidden (404); the others may serve it
path/final-slash path/last-suffix path/utf8 path/final-dot-segment path/final-dot-dot-segment => 404
    a file is not a folder: more segments after its name are 404; lighttpd sends the file
path/* => 200 app
    apps receive PATH_INFO decoded once and REQUEST_URI unchanged; lighttpd rejects paths that decode to control characters or invalid UTF-8, Apache keeps %2F

// Queries.
query/* => meant
    the app receives the query unchanged; lighttpd normalizes it, and rejects some percent-encoding
";

/// The rules of [`TEXT`]. Rules are compared by address.
pub static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let lines: Vec<_> = lines.collect();
    let rules = lines.chunks_exact(2).map(|lines| {
        let (tags, rudy) = lines[0].split_once(" => ").expect("tags, and beginnings of responses");
        let rudy = if rudy == "meant" { AS_MEANT.to_vec() } else { rudy.split(", ").collect() };
        Rule { tags: tags.split(' ').collect(), rudy, reason: lines[1].trim() }
    });
    rules.collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, tag, expected) in [
            ("path/nul", "path/nul", true),
            ("path/nul", "path/nul-and-slash", false),
            ("path/*", "path/nul", true),
            ("path/*nul*", "path/encoded-nul", true),
            ("path/*nul*", "path/encoded-slash", false),
            ("query/*", "path/nul", false),
        ] {
            assert_eq!(matches(pattern, tag), expected, "{pattern} {tag}");
        }
    }
}
