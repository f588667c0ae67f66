//! Why a request reaches the upstream differently.

use super::generate::{Body, Generated};
use super::{Difference, Part};

/// Why Rudy differs from nginx.
pub(super) struct Explanation {
    pub(super) reason: &'static str,
    pub(super) applies: fn(&Generated, &Difference) -> bool,
}

/// Whether the difference is in this field, which only nginx passes on.
fn is_removed(difference: &Difference, name: &str) -> bool {
    difference.part == Part::Field(name.to_owned()) && difference.rudy.is_empty()
}

fn is_in(difference: &Difference, names: &[&str]) -> bool {
    names.iter().any(|name| difference.part == Part::Field((*name).to_owned()))
}

fn is_absolute(request: &Generated) -> bool {
    request.target.starts_with("http://")
}

fn has_trailers(request: &Generated) -> bool {
    matches!(&request.body, Body::Chunked(_, trailers) if !trailers.is_empty())
}

/// Every difference that there may be. A test fails if one of them does not occur.
pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        reason: "RFC 9110 §7.6.3: a gateway adds Via, which nginx does not",
        applies: |_, difference| is_in(difference, &["via"]) && difference.rudy.contains(" rudy-"),
    },
    Explanation {
        reason: "the client is not trusted, so its X-Forwarded-For is replaced; nginx appends to it",
        applies: |_, difference| {
            is_in(difference, &["x-forwarded-for"])
                && difference.rudy == "127.0.0.1"
                && difference.nginx.ends_with(", 127.0.0.1")
        },
    },
    Explanation {
        reason: "RFC 9110 §7.6.2: an intermediary decrements Max-Forwards of OPTIONS, or responds itself; nginx passes it on",
        applies: |request, difference| request.method == "OPTIONS" && is_in(difference, &["max-forwards"]),
    },
    Explanation {
        reason: "applications trust this field, so that of a client is removed",
        applies: |_, difference| {
            ["forwarded", "client-cert", "x-real-ip"].iter().any(|name| is_removed(difference, name))
        },
    },
    Explanation {
        reason: "nginx drops names with underscores and other unusual characters, and Rudy only those that imitate other fields",
        applies: |_, difference| {
            is_in(difference, &["x_under_score", "x!#$%&'*+.^`|~"]) && difference.nginx.is_empty()
        },
    },
    Explanation {
        reason: "RFC 9110 §7.6.1: what Connection names is for this connection only; nginx passes it on",
        applies: |request, difference| {
            let Part::Field(name) = &difference.part else { return false };
            request.has_member("connection", name) && is_removed(difference, name)
        },
    },
    Explanation {
        reason: "RFC 9110 §7.6.1: Proxy-Connection should be removed; nginx passes it on",
        applies: |_, difference| is_removed(difference, "proxy-connection"),
    },
    Explanation {
        reason: "trailers are passed on, so TE: trailers is, too; nginx drops both",
        applies: |request, difference| {
            request.has_member("te", "trailers")
                && (is_in(difference, &["te"]) && difference.rudy == "trailers"
                    || is_in(difference, &["connection"]) && difference.rudy == "te")
        },
    },
    Explanation {
        reason: "trailers need a chunked body; nginx drops trailers and sends a length",
        applies: |request, difference| {
            has_trailers(request)
                && (difference.part == Part::Trailers
                    || is_in(difference, &["transfer-encoding", "content-length"]))
        },
    },
    Explanation {
        reason: "dot segments are resolved, so that the upstream sees the path that the route has allowed",
        applies: |request, difference| {
            let path = request.target.split('?').next().unwrap_or_default().to_ascii_lowercase();
            let has_dots = path.replace("%2e", ".").split('/').any(|segment| matches!(segment, "." | ".."));
            difference.part == Part::Line && has_dots
        },
    },
    Explanation {
        reason: "RFC 9110 §8.6: methods with a body have a length of 0, and others none; nginx repeats what the client sent",
        applies: |request, difference| {
            let expects_body = matches!(request.method, "POST" | "PUT" | "PATCH");
            let (with, without) = if expects_body {
                (&difference.rudy, &difference.nginx)
            } else {
                (&difference.nginx, &difference.rudy)
            };
            is_in(difference, &["content-length"]) && with == "0" && without.is_empty()
        },
    },
    Explanation {
        reason: "nginx 1.22 rejects some fields that occur twice; the application decides",
        applies: |request, difference| {
            let repeated = ["authorization", "content-type", "if-none-match", "if-modified-since"];
            difference.part == Part::Status
                && (difference.nginx.as_str(), difference.rudy.as_str()) == ("400", "200")
                && repeated.iter().any(|name| request.values(name).count() > 1)
        },
    },
    Explanation {
        reason: "dot segments next to or after encoded slashes and backslashes are ambiguous, so Rudy rejects them",
        applies: |request, difference| {
            let path = request.target.to_ascii_lowercase().replace("%2e", ".");
            let has_statuses = (difference.nginx.as_str(), difference.rudy.as_str()) == ("200", "400");
            let is_special = path.contains("%2f") || path.contains("%5c") || path.contains('\\');
            let path = path.replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
            difference.part == Part::Status && has_statuses && is_special && path.contains("/.")
        },
    },
    Explanation {
        reason: "an unknown method is 501 for a path that is rejected, above the root or ambiguous",
        applies: |request, difference| {
            let path = request.target.to_ascii_lowercase().replace("%2e", ".");
            let is_rejected = difference.part == Part::Status && difference.rudy == "501";
            is_rejected && request.method == "X-RUDY" && path.contains("/..")
        },
    },
    Explanation {
        reason: "RFC 9112 §3.2.2: the host of an absolute target replaces Host; nginx passes Host on",
        applies: |request, difference| {
            is_absolute(request)
                && is_in(difference, &["host", "x-forwarded-host"])
                && difference.rudy == "other.example"
        },
    },
];
