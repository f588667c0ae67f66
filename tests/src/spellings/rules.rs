//! Explanations of the differences between servers.

use super::generate::Spelling;
use super::send::ResponseSummary;

/// An explanation of differences between Rudy and other servers.
#[derive(Debug)]
pub struct Rule {
    /// The tags of the spellings. `*` matches any text.
    pub tags: &'static [&'static str],
    /// The possible beginnings of Rudy's response, as in [`ResponseSummary::first`].
    pub rudy: &'static [&'static str],
    /// The reason for the difference.
    pub reason: &'static str,
}

impl Rule {
    /// Whether the rule matches the spelling and Rudy's response.
    #[must_use]
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

/// Rudy accepts the spelling: it serves the resource, redirects, or the resource is closed or missing.
const AS_MEANT: &[&str] = &["2", "3", "403", "404", "405"];

/// The rules, the most specific first. Rules are compared by address, so this is a static and not a constant.
pub static RULES: &[Rule] = &[
    // Framing. Rudy rejects a body with ambiguous framing, because it allows request smuggling.
    rule(
        &["coding/and-length"],
        &["400"],
        "Transfer-Encoding and Content-Length at once: Rudy, nginx and lighttpd reject it, Apache uses the chunks (RFC 9112 §6.3 allows both)",
    ),
    rule(
        &["coding/gzip-chunked", "coding/identity"],
        &["501", "400"],
        "a transfer coding that Rudy cannot decode is 501 (RFC 9112 §6.1); Apache ignores the unknown coding and reads the chunks",
    ),
    rule(
        &["coding/*"],
        &["400", "501"],
        "a body whose Transfer-Encoding does not end in a single `chunked` has no known length: 400 (RFC 9112 §6.3); others send 501, or accept a second `chunked`",
    ),
    rule(
        &["coding/chunked", "coding/empty-elements", "length/white-space", "host/white-space"],
        AS_MEANT,
        "tabs around a value and empty list elements are valid (RFC 9110 §5.5, §5.6.1); nginx and lighttpd do not accept all of them",
    ),
    rule(
        &["length/same-twice", "length/list*", "length/two"],
        &["400"],
        "more than one Content-Length is 400, even if the values are equal",
    ),
    rule(
        &["length/overflow", "length/negative-overflow", "chunk/overflow", "chunk/32-bit-overflow"],
        &["400", "413", "403", "404", "405"],
        "Rudy sends 413 for a length over the limit at once, before the body; others send 400, or wait for the body until their timeout",
    ),
    rule(
        &["length/of-a-get", "coding/of-a-get"],
        AS_MEANT,
        "a GET may have a body, which Rudy discards (RFC 9110 §9.3.1); lighttpd rejects it",
    ),
    rule(
        &["length/*"],
        &["400"],
        "Content-Length may have digits only (RFC 9110 §8.6): 400; lighttpd sends 411 for an empty value, Apache unfolds a folded one",
    ),
    rule(
        &["length/missing", "coding/other-field", "method/POST", "method/case"],
        AS_MEANT,
        "a POST without a length has no body (RFC 9112 §6.3); lighttpd requires a length (411)",
    ),
    rule(
        &["chunk/space-behind-size", "chunk/many-zeros", "chunk/framing-in-trailer"],
        &["400"],
        "stricter than all others: no space after a chunk size (RFC 9112 §7.1.1 allows it before an extension only), at most 16 digits in it, and no framing fields in a trailer (RFC 9110 §6.5.1)",
    ),
    rule(
        &["chunk/*"],
        &["400"],
        "chunks must match RFC 9112 §7.1, with valid extensions and trailers and CRLF everywhere; nginx and lighttpd skip invalid parts",
    ),
    rule(
        &["chunk/*"],
        &["403", "404", "405"],
        "Rudy does not check a body that no handler reads before the response, and closes the connection afterwards. Apache reads the body first",
    ),
    // Line ends and white space.
    rule(
        &["end/*", "before/lf", "before/cr"],
        &["400"],
        "a line ends in CRLF: a bare LF or CR is 400 (RFC 9112 §2.2 allows both); nginx accepts LF, lighttpd only at the end of the head",
    ),
    rule(
        &["before/empty-line*"],
        AS_MEANT,
        "empty lines before a request are skipped (RFC 9112 §2.2); lighttpd rejects them",
    ),
    rule(
        &["before/*"],
        &["400"],
        "other bytes before a request are 400; lighttpd treats them as a method: 501",
    ),
    rule(
        &["space/*"],
        &["400"],
        "one space on each side of the target (RFC 9112 §3); nginx accepts several, and treats a line without version as HTTP/0.9, like Apache",
    ),
    // The request line.
    rule(
        &["version/none*", "version/0.9"],
        &["400"],
        "HTTP/0.9 is not supported; nginx and Apache respond to it without status and fields",
    ),
    rule(&["version/2"], &["505", "400"], "another major version is 505; Apache responds with HTTP/1.1"),
    rule(&["version/1.0"], &["400"], "HTTP/1.0 has no Transfer-Encoding: 400 (RFC 9112 §6.1)"),
    rule(
        &["version/1.2", "version/1.0"],
        AS_MEANT,
        "a later minor version is served as HTTP/1.1 (RFC 9110 §2.5); lighttpd sends 505",
    ),
    rule(
        &["version/*"],
        &["400", "505"],
        "a version is `HTTP/` with two digits, without extra spaces (RFC 9112 §2.3): 400; nginx accepts several digits and spaces, lighttpd sends 505 or treats the rest as part of the path",
    ),
    rule(
        &["method/TRACE"],
        &["405", "403"],
        "TRACE is 405 unless a route allows it, because an echo reveals cookies to scripts, and 403 in a closed folder; Apache echoes, lighttpd passes it to the app",
    ),
    rule(
        &["method/CONNECT", "form/connect-authority"],
        &["400", "405"],
        "CONNECT is 405 with a valid authority and 400 without one (RFC 9110 §9.3.6)",
    ),
    rule(
        &["method/no-token", "method/empty"],
        &["400"],
        "a method is a token (RFC 9110 §9.1): 400; lighttpd sends 501",
    ),
    rule(
        &[
            "method/case",
            "method/HEAD",
            "method/POST",
            "method/PUT",
            "method/DELETE",
            "method/OPTIONS",
            "method/PATCH",
            "method/dav",
            "method/unknown",
            "method/long",
            "method/preface",
        ],
        &["2", "3", "403", "404", "405", "411", "501"],
        "methods are case-sensitive; an unknown one is 501 for files and closed folders, and is passed to an app; OPTIONS is 204 with Allow; Apache serves files for POST and TRACE; nginx rejects lower case, lighttpd unknown methods",
    ),
    rule(
        &["form/options-asterisk"],
        &["2"],
        "`OPTIONS *` is about the server: 204 (RFC 9110 §9.3.7); nginx rejects it",
    ),
    rule(
        &["form/absolute-https"],
        &["421"],
        "https over a connection without TLS is 421 (RFC 9110 §4.2.2, §7.4); the others ignore the scheme",
    ),
    rule(
        &["form/*"],
        &["400"],
        "a target is a path, an absolute http or https URI with a host and without user information, or `*` (RFC 9112 §3.2): 400; nginx accepts any scheme, Apache any path without a leading slash",
    ),
    rule(
        &["form/absolute*", "form/dot-host", "form/broken-scheme"],
        AS_MEANT,
        "an absolute target overrides Host (RFC 9112 §3.2.2), and the app receives only the path in REQUEST_URI; Apache passes the whole target, lighttpd rejects different hosts, nginx converts the host to lower case",
    ),
    // Host.
    rule(
        &["host/*"],
        &["400"],
        "Host is a valid host with an optional port (RFC 9110 §7.2, RFC 3986 §3.2.2): 400; nginx accepts almost any bytes, Apache unfolds a folded line",
    ),
    rule(
        &[
            "host/case",
            "host/port",
            "host/empty-port",
            "host/final-dot",
            "host/dots",
            "host/other",
            "host/ipv6",
            "host/ipv-future",
            "host/sub-delimiter",
            "host/encoded",
            "host/underscore",
            "host/list",
            "host/long",
        ],
        AS_MEANT,
        "a valid host selects a site or the default one, even if it is not a DNS name (sub-delimiters, percent-encoding, empty labels); the app receives it unchanged. The others reject some of these, or normalize the host for the app",
    ),
    // Fields.
    rule(&["field/long"], AS_MEANT, "Rudy accepts fields up to 16 KiB, the others up to 8 KiB"),
    rule(
        &["field/many", "field/too-long", "path/long", "path/many-segments", "query/long"],
        &["431", "414", "400"],
        "limits: Rudy sends 414 for a target over 8 KiB, 431 for more than 100 fields or 16 KiB; the others have other limits and send 400 or 431",
    ),
    rule(
        &["field/other-expectation"],
        &["417"],
        "an expectation that is not 100-continue is 417 (RFC 9110 §10.1.1); nginx and lighttpd ignore it",
    ),
    rule(
        &["field/*"],
        &["400"],
        "a field line is a token, directly followed by a colon, and a value without control characters, on one line, and Host occurs once (RFC 9112 §5, RFC 9110 §5.5): 400; nginx accepts invalid names and bytes, lighttpd a second Host, lighttpd and Apache folded lines",
    ),
    rule(
        &["field/expect"],
        AS_MEANT,
        "Rudy, nginx and lighttpd keep the connection if the client sends the body without waiting for 100; Apache closes it",
    ),
    rule(&["field/*"], AS_MEANT, "unusual but valid fields have no effect; lighttpd and Apache reject some"),
    // Paths.
    rule(
        &["meaning/source*"],
        &["404", "405"],
        "Rudy never sends PHP source, whatever the case or the continuation of the suffix; the others send files that do not match *.php exactly",
    ),
    rule(
        &["path/above-root", "path/first-backslash", "meaning/outside"],
        &["400"],
        "a path above the root is 400, as with nginx and Apache; lighttpd stops at the root",
    ),
    rule(
        &["meaning/path-info-dots", "path/slash-behind-dots"],
        &["400", "404"],
        "a `..` segment in the decoded PATH_INFO is 400, because an app that resolves it leaves its folder; nginx and lighttpd resolve it, even across %2F, Apache passes it on encoded",
    ),
    rule(
        &["meaning/encoded-slash*", "path/encoded-slash", "path/encoded-first-slash", "path/overlong-slash"],
        &["400", "404"],
        "a name of a file cannot have a slash: %2F is 400 outside of PATH_INFO; nginx and lighttpd treat it as a separator, Apache sends 404",
    ),
    rule(
        &["meaning/path-info-slash", "path/encoded-slash"],
        AS_MEANT,
        "%2F in PATH_INFO is a slash for the app (RFC 3875 §4.1.5), as with nginx and lighttpd; Apache passes it on encoded",
    ),
    rule(
        &["path/*backslash*"],
        &["400"],
        "a backslash in the path of a file is 400, because some programs treat it as a separator; the others find no such file",
    ),
    rule(
        &["path/bad-escape"],
        &["400"],
        "a percent sign without two digits is 400 (RFC 3986 §2.1), as with nginx and Apache; lighttpd accepts it literally",
    ),
    rule(
        &["path/parameter", "path/parameter-dots", "path/double-encoded-dots"],
        &["400"],
        "a path with %2F or %5C that no script handles is 400; the others send 404",
    ),
    rule(
        &["path/encoded-letter"],
        &["400"],
        "percent-encoding that is completed by another one is invalid (`%2%46`): 400; lighttpd accepts the percent sign literally",
    ),
    rule(&["path/*nul*"], &["400"], "NUL is 400 anywhere; Apache sends 404"),
    rule(
        &["path/*not-utf8", "path/overlong*", "query/bytes-not-utf8"],
        &["400", "403"],
        "paths of files must be UTF-8: 400, unless the path is closed; nginx and Apache accept any bytes. lighttpd 1.4.69 does not match its patterns against such paths, and so opens a closed folder",
    ),
    rule(
        &["path/fragment", "query/fragment"],
        &["400"],
        "a target has no fragment (RFC 9112 §3.2): 400; nginx and lighttpd cut it off",
    ),
    rule(
        &[
            "path/*space*",
            "query/space",
            "path/tab",
            "query/tab",
            "path/control",
            "query/control",
            "query/nul",
        ],
        &["400"],
        "white space and control characters in a target are 400 (RFC 9112 §3.2); lighttpd accepts spaces as part of the path",
    ),
    rule(
        &["path/encoded-control", "path/encoded-line-end"],
        &["403", "404"],
        "no file has control characters in its name: 404; lighttpd rejects them",
    ),
    rule(
        &["path/three-dots", "path/parameter-dots", "path/last-suffix"],
        &["404"],
        "a file whose name begins with a dot is hidden (404); the others may serve it",
    ),
    rule(
        &[
            "path/final-slash",
            "path/last-suffix",
            "path/utf8",
            "path/final-dot-segment",
            "path/final-dot-dot-segment",
        ],
        &["404"],
        "a file is not a folder: more segments after its name are 404; lighttpd sends the file",
    ),
    rule(
        &["path/*"],
        &["200 app"],
        "apps receive PATH_INFO decoded once and REQUEST_URI unchanged; lighttpd rejects paths that decode to control characters or invalid UTF-8, Apache keeps %2F",
    ),
    // Queries.
    rule(
        &["query/*"],
        AS_MEANT,
        "the app receives the query unchanged; lighttpd normalizes it, and rejects some percent-encoding",
    ),
];

const fn rule(tags: &'static [&'static str], rudy: &'static [&'static str], reason: &'static str) -> Rule {
    Rule { tags, rudy, reason }
}

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
