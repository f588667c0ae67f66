//! Why servers differ.

use super::ask::Seen;
use super::generate::Spelling;

/// An explanation of differences between Rudy and other servers.
#[derive(Debug)]
pub struct Rule {
    /// Spellings with one of these tags; a star stands for anything.
    pub tags: &'static [&'static str],
    /// What Rudy's response begins with, in the words of [`Seen::first`].
    pub rudy: &'static [&'static str],
    /// Why.
    pub because: &'static str,
}

impl Rule {
    /// Whether it is about this spelling, and Rudy does what it says.
    #[must_use]
    pub fn explains(&self, spelling: &Spelling, rudy: &Seen) -> bool {
        let has = |pattern: &str| spelling.tags.iter().any(|tag| matches(pattern, tag));
        self.tags.iter().any(|pattern| has(pattern))
            && self.rudy.iter().any(|first| rudy.first.starts_with(first))
    }
}

/// A star in a pattern stands for anything.
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

/// Rudy takes the spelling for what it means: it serves it, redirects, or has nothing there.
const AS_MEANT: &[&str] = &["2", "3", "403", "404", "405"];

/// The rules, the most particular first. A constant would have another address wherever it is used, and rules are compared by
/// their addresses.
pub static RULES: &[Rule] = &[
    // Framing. Rudy has one reading of a body or none: what two servers can read in two ways is a request to smuggle with.
    rule(
        &["coding/and-length"],
        &["400"],
        "Transfer-Encoding and Content-Length at once: Rudy, nginx and lighttpd reject it, Apache goes by the chunks (RFC 9112 §6.3 allows both)",
    ),
    rule(
        &["coding/gzip-chunked", "coding/identity"],
        &["501", "400"],
        "a transfer coding that Rudy cannot decode is 501 (RFC 9112 §6.1); Apache ignores the unknown coding and reads the chunks",
    ),
    rule(
        &["coding/*"],
        &["400", "501"],
        "a Transfer-Encoding that does not end in one plain `chunked` leaves no length: 400 (RFC 9112 §6.3); others say 501, or accept a second `chunked`",
    ),
    rule(
        &["coding/chunked", "coding/empty-elements", "length/white-space", "host/white-space"],
        AS_MEANT,
        "tabs around a value and empty list elements are valid (RFC 9110 §5.5, §5.6.1); nginx and lighttpd do not know all of them",
    ),
    rule(
        &["length/same-twice", "length/list*", "length/two"],
        &["400"],
        "more than one Content-Length is 400, also where the values are equal",
    ),
    rule(
        &["length/overflow", "length/negative-overflow", "chunk/overflow", "chunk/32-bit-overflow"],
        &["400", "413", "403", "404", "405"],
        "a length beyond the limit is 413 from Rudy at once, before the body; others say 400, or wait for the body until their timeout",
    ),
    rule(
        &["length/of-a-get", "coding/of-a-get"],
        AS_MEANT,
        "a GET may have a body, which Rudy reads and ignores (RFC 9110 §9.3.1); lighttpd rejects it",
    ),
    rule(
        &["length/*"],
        &["400"],
        "Content-Length is digits and nothing else (RFC 9110 §8.6): 400; lighttpd says 411 for an empty value, Apache unfolds a folded one",
    ),
    rule(
        &["length/missing", "coding/other-field", "method/POST", "method/case"],
        AS_MEANT,
        "a POST without a length has no body (RFC 9112 §6.3); lighttpd insists on a length with 411",
    ),
    rule(
        &["chunk/space-behind-size", "chunk/many-zeros", "chunk/framing-in-trailer"],
        &["400"],
        "stricter than all others: no space behind a chunk size (RFC 9112 §7.1.1 allows it before an extension only), at most 16 digits in it, and no framing fields in a trailer (RFC 9110 §6.5.1)",
    ),
    rule(
        &["chunk/*"],
        &["400"],
        "chunks as RFC 9112 §7.1 has them, extensions and trailers checked like other fields, CRLF everywhere; nginx and lighttpd skip what they do not understand",
    ),
    rule(
        &["chunk/*"],
        &["403", "404", "405"],
        "a body that no handler reads need not be checked before the response; Rudy closes the connection afterwards. Apache reads the body first",
    ),
    // Line ends and white space.
    rule(
        &["end/*", "before/lf", "before/cr"],
        &["400"],
        "a line ends in CRLF: a bare LF or CR is 400 (RFC 9112 §2.2 allows both answers); nginx accepts LF, lighttpd does at the end of the head",
    ),
    rule(
        &["before/empty-line*"],
        AS_MEANT,
        "empty lines in front of a request are skipped (RFC 9112 §2.2); lighttpd rejects them",
    ),
    rule(
        &["before/*"],
        &["400"],
        "other bytes in front of a request are 400; lighttpd says 501 for the method they make",
    ),
    rule(
        &["space/*"],
        &["400"],
        "one space on each side of the target (RFC 9112 §3); nginx accepts several, and together with Apache takes a line without version for HTTP/0.9",
    ),
    // The request line.
    rule(
        &["version/none*", "version/0.9"],
        &["400"],
        "no HTTP/0.9: nginx and Apache respond to it without status and fields",
    ),
    rule(&["version/2"], &["505", "400"], "a version of another protocol is 505; Apache answers as HTTP/1.1"),
    rule(&["version/1.0"], &["400"], "HTTP/1.0 has no Transfer-Encoding: 400 (RFC 9112 §6.1)"),
    rule(
        &["version/1.2", "version/1.0"],
        AS_MEANT,
        "a later minor version is served as HTTP/1.1 (RFC 9110 §2.5); lighttpd says 505",
    ),
    rule(
        &["version/*"],
        &["400", "505"],
        "HTTP-version is exactly `HTTP/1.1` or another digit, without space around (RFC 9112 §2.3): 400; nginx accepts several digits and spaces, lighttpd says 505 or takes the rest for a part of the path",
    ),
    rule(
        &["method/TRACE"],
        &["405", "403"],
        "TRACE is 405 unless a route allows it, since an echo shows cookies to scripts, and 403 in a closed folder; Apache echoes, lighttpd hands it to the app",
    ),
    rule(
        &["method/CONNECT", "form/connect-authority"],
        &["400", "405"],
        "CONNECT is 405 with a valid authority and 400 without one (RFC 9110 §9.3.6)",
    ),
    rule(
        &["method/no-token", "method/empty"],
        &["400"],
        "a method is a token (RFC 9110 §9.1): 400; lighttpd says 501",
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
        "methods are case-sensitive, an unknown one is 501 for files and closed folders and goes on to an app; OPTIONS is 204 with Allow; Apache serves files to POST and TRACE; nginx rejects small letters, lighttpd what it does not know",
    ),
    rule(
        &["form/options-asterisk"],
        &["2"],
        "`OPTIONS *` asks about the server: 204 (RFC 9110 §9.3.7); nginx rejects it",
    ),
    rule(
        &["form/absolute-https"],
        &["421"],
        "https over a connection without TLS is 421 (RFC 9110 §4.2.2, §7.4); the others ignore the scheme",
    ),
    rule(
        &["form/*"],
        &["400"],
        "a target is a path, an absolute http or https URI with a host and without user information, or `*` (RFC 9112 §3.2): 400; nginx takes any scheme, Apache any path without a slash at its beginning",
    ),
    rule(
        &["form/absolute*", "form/dot-host", "form/broken-scheme"],
        AS_MEANT,
        "an absolute target says the host, whatever Host says (RFC 9112 §3.2.2), and the app gets the path alone as REQUEST_URI; Apache passes the whole target, lighttpd rejects hosts that differ, nginx writes the host in small letters",
    ),
    // Host.
    rule(
        &["host/*"],
        &["400"],
        "Host is a valid host with an optional port (RFC 9110 §7.2, RFC 3986 §3.2.2): 400; nginx takes almost any bytes, Apache unfolds a folded line",
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
        "a valid host, even of a form that is no DNS name (sub-delimiters, percent-encoded, empty labels), names a site or the default one; the app gets it as sent. The others reject some of these, or normalize what they pass on",
    ),
    // Fields.
    rule(&["field/long"], AS_MEANT, "a field may have 16 KiB with Rudy; 8 KiB with the others"),
    rule(
        &["field/many", "field/too-long", "path/long", "path/many-segments", "query/long"],
        &["431", "414", "400"],
        "limits: Rudy says 414 for a target over 8 KiB, 431 for more than 100 fields or 16 KiB; the others have other limits and say 400 or 431",
    ),
    rule(
        &["field/other-expectation"],
        &["417"],
        "an expectation that is not 100-continue is 417 (RFC 9110 §10.1.1); nginx and lighttpd ignore it",
    ),
    rule(
        &["field/*"],
        &["400"],
        "a field line is a token, a colon at once, and a value without control characters, on one line, and Host is there once (RFC 9112 §5, RFC 9110 §5.5): 400; nginx accepts odd names and bytes, lighttpd a second Host, lighttpd and Apache folded lines",
    ),
    rule(
        &["field/expect"],
        AS_MEANT,
        "Rudy, nginx and lighttpd go on with the connection after a body that came without waiting for 100; Apache closes",
    ),
    rule(&["field/*"], AS_MEANT, "unusual but valid fields do not matter; lighttpd and Apache reject some"),
    // Paths.
    rule(
        &["meaning/source*"],
        &["404", "405"],
        "Rudy never sends PHP source, in whatever case the suffix is written or continued; the others send what is not exactly *.php",
    ),
    rule(
        &["path/above-root", "path/first-backslash", "meaning/outside"],
        &["400"],
        "above the root is 400, as with nginx and Apache; lighttpd stops at the root",
    ),
    rule(
        &["meaning/path-info-dots", "path/slash-behind-dots"],
        &["400", "404"],
        "PATH_INFO that is `..` after decoding is 400: an app that resolves it leaves its folder; nginx and lighttpd resolve it, even across %2F, Apache passes it on encoded",
    ),
    rule(
        &["meaning/encoded-slash*", "path/encoded-slash", "path/encoded-first-slash", "path/overlong-slash"],
        &["400", "404"],
        "a name of a file cannot have a slash: %2F is 400 outside of PATH_INFO; nginx and lighttpd take it for a separator, Apache says 404",
    ),
    rule(
        &["meaning/path-info-slash", "path/encoded-slash"],
        AS_MEANT,
        "%2F in PATH_INFO is a slash for the app (RFC 3875 §4.1.5), as with nginx and lighttpd; Apache passes it on encoded",
    ),
    rule(
        &["path/*backslash*"],
        &["400"],
        "a backslash in the path of a file is 400, since it separates for some programs; the others find no such file",
    ),
    rule(
        &["path/bad-escape"],
        &["400"],
        "a percent sign without two digits is 400 (RFC 3986 §2.1), as with nginx and Apache; lighttpd takes it for itself",
    ),
    rule(
        &["path/parameter", "path/parameter-dots", "path/double-encoded-dots"],
        &["400"],
        "where no script takes a path with %2F or %5C, a folder refuses it: 400; for the others it names nothing, 404",
    ),
    rule(
        &["path/encoded-letter"],
        &["400"],
        "an escape that another one completes is broken (`%2%46`): 400; lighttpd takes its percent sign for a letter",
    ),
    rule(&["path/*nul*"], &["400"], "NUL is 400 wherever it is; Apache says 404"),
    rule(
        &["path/*not-utf8", "path/overlong*", "query/bytes-not-utf8"],
        &["400", "403"],
        "paths of files are UTF-8: 400, where the path is not closed; for nginx and Apache they are bytes. lighttpd 1.4.69 fails to match its own patterns against such paths, and so opens a closed folder",
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
        "white space and control characters in a target are 400 (RFC 9112 §3.2); lighttpd takes spaces for a part of the path",
    ),
    rule(
        &["path/encoded-control", "path/encoded-line-end"],
        &["403", "404"],
        "encoded control characters name no file: 404; lighttpd rejects them",
    ),
    rule(
        &["path/three-dots", "path/parameter-dots", "path/last-suffix"],
        &["404"],
        "a file whose name begins with a dot is hidden (404); the others look for it",
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
        "a file is no folder: with something behind its name it is 404; lighttpd sends the file",
    ),
    rule(
        &["path/*"],
        &["200 app"],
        "apps get PATH_INFO decoded once and REQUEST_URI as it was sent; lighttpd rejects what decodes to control characters or no UTF-8, Apache keeps %2F",
    ),
    // Queries.
    rule(
        &["query/*"],
        AS_MEANT,
        "a query goes to the app as it was sent; lighttpd normalizes it, and rejects some escapes in it",
    ),
];

const fn rule(tags: &'static [&'static str], rudy: &'static [&'static str], because: &'static str) -> Rule {
    Rule { tags, rudy, because }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_tag_stands_for_anything() {
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
