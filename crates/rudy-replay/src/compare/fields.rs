//! Header fields. Those that differ in every response are known.

use http::{HeaderName, Method};
use rudy_message::semantics::date::HttpDate;

use super::{Comparison, Difference, Kind, Side};
use crate::Response;

/// Fields that differ between any two servers or any two responses, and those that other parts compare.
const NOT_COMPARED: [&str; 20] = [
    "age",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "location",
    "request-id",
    "server",
    "server-timing",
    "set-cookie",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "via",
    "x-correlation-id",
    "x-request-id",
    "x-response-time",
    "x-runtime",
];

/// Fields with another value for each resource. Their values do not group.
const BY_RESOURCE: [&str; 5] =
    ["content-disposition", "content-location", "expires", "last-modified", "link"];

/// Fields whose value is a list in which neither the order nor the case matters.
const SETS: [&str; 5] =
    ["allow", "vary", "cache-control", "access-control-allow-methods", "access-control-allow-headers"];

/// Fields that describe the page of a redirect or an error.
const OF_PAGES: [&str; 5] = ["content-type", "etag", "last-modified", "accept-ranges", "content-language"];

/// Maximum difference of two lifetimes: a second can pass while a response is made.
const LIFETIME_TOLERANCE_S: u64 = 2;

impl Comparison {
    pub(super) fn fields(&self, method: &Method, old: &Response, new: &Response) -> Vec<Difference> {
        let mut names: Vec<&str> =
            old.fields.keys().chain(new.fields.keys()).map(HeaderName::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let is_compared = |name: &&str| !NOT_COMPARED.contains(name) && !self.is_ignored(name, old);
        let mut differences: Vec<_> =
            names.into_iter().filter(is_compared).filter_map(|name| self.field(name, old, new)).collect();
        differences.extend(length_of_head(method, old, new));
        differences
    }

    fn is_ignored(&self, name: &str, old: &Response) -> bool {
        let is_of_page = self.ignores_error_pages && old.has_own_page() && OF_PAGES.contains(&name);
        is_of_page || self.ignored.iter().any(|ignored| ignored == name)
    }

    fn field(&self, name: &str, old: &Response, new: &Response) -> Option<Difference> {
        let of = |response: &Response, side: &Side| match value(name, response) {
            // HTTP/3 at the port of the server itself.
            Some(value) if name == "alt-svc" => {
                value.replace(&format!("\":{}\"", side.url.port()), "\":PORT\"")
            }
            value => value.unwrap_or_else(|| "absent".to_owned()),
        };
        let (a, b) = (of(old, &self.old), of(new, &self.new));
        if a == b || (name == "expires" && is_same_lifetime(old, new)) {
            return None;
        }
        let (a, b) = (self.values.masked(&a), self.values.masked(&b));
        let kind = if old.has_own_page() && OF_PAGES.contains(&name) { Kind::ErrorPage } else { Kind::Field };
        let difference = Difference::new(kind, format!("field {name}"));
        Some(match (BY_RESOURCE.contains(&name), a.as_str(), b.as_str()) {
            (true, "absent", _) => difference.between("absent", "present").with_detail(b),
            (true, _, "absent") => difference.between("present", "absent").with_detail(a),
            (true, ..) => difference.with_detail(format!("{a} → {b}")),
            (false, ..) => difference.between(&a, &b),
        })
    }
}

/// The value of a field, as far as it is compared.
fn value(name: &str, response: &Response) -> Option<String> {
    let value = response.field(name)?;
    Some(match name {
        // Each server makes its own: what matters is whether it can be used with ranges.
        "etag" if value.starts_with("W/\"") => "weak".to_owned(),
        "etag" if value.starts_with('"') => "strong".to_owned(),
        "etag" => "not quoted".to_owned(),
        "content-type" => value.to_ascii_lowercase().replace([' ', '"'], ""),
        _ if SETS.contains(&name) => {
            let mut members: Vec<_> =
                value.split(',').map(|member| member.trim().to_ascii_lowercase()).collect();
            members.sort();
            members.join(", ")
        }
        _ => value.trim().to_owned(),
    })
}

/// Whether both responses expire at the same time after they were made.
fn is_same_lifetime(old: &Response, new: &Response) -> bool {
    let seconds = |response: &Response, name| {
        let value = response.field(name)?;
        HttpDate::parse(value.as_bytes()).map(HttpDate::unix_seconds)
    };
    let lifetime = |response| {
        let (expires, date) = (seconds(response, "expires")?, seconds(response, "date")?);
        // Those of the past are the same.
        Some(expires.saturating_sub(date))
    };
    match (lifetime(old), lifetime(new)) {
        (Some(a), Some(b)) => a.abs_diff(b) <= LIFETIME_TOLERANCE_S,
        _ => false,
    }
}

/// The length that a response to HEAD announces. Those of compressed bodies differ.
fn length_of_head(method: &Method, old: &Response, new: &Response) -> Option<Difference> {
    if *method != Method::HEAD || old.field("content-encoding").or(new.field("content-encoding")).is_some() {
        return None;
    }
    let (a, b) = (old.field("content-length")?, new.field("content-length")?);
    let kind = if old.has_own_page() { Kind::ErrorPage } else { Kind::Field };
    (a != b).then(|| Difference::new(kind, "content-length of HEAD").with_detail(format!("{a} → {b}")))
}
