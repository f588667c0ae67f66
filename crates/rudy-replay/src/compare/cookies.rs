//! Cookies by their names and attributes. Their values differ in every response.

use std::collections::BTreeMap;

use super::{Difference, Kind};
use crate::Response;

pub(super) fn compare(old: &Response, new: &Response) -> Vec<Difference> {
    let (old, new) = (cookies(old), cookies(new));
    let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let difference = |name: &String| {
        let of = |cookies: &BTreeMap<String, String>| {
            cookies.get(name).cloned().unwrap_or_else(|| "absent".to_owned())
        };
        let (old, new) = (of(&old), of(&new));
        (old != new).then(|| Difference::new(Kind::Cookie, format!("cookie {name}")).between(&old, &new))
    };
    names.into_iter().filter_map(difference).collect()
}

/// The attributes of each cookie, in the order of their names.
fn cookies(response: &Response) -> BTreeMap<String, String> {
    let lines = response.fields.get_all("set-cookie").iter();
    let cookie = |value: &http::HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().split('=').next().unwrap_or_default().to_owned();
        let mut attributes: Vec<_> = parts.filter(|part| !part.is_empty()).map(attribute).collect();
        attributes.sort();
        let attributes =
            if attributes.is_empty() { "no attributes".to_owned() } else { attributes.join("; ") };
        (name, attributes)
    };
    lines.map(cookie).collect()
}

/// An attribute without what depends on the time.
fn attribute(text: &str) -> String {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name.trim().to_ascii_lowercase().as_str() {
        name @ "expires" => name.to_owned(),
        name if value.is_empty() => name.to_owned(),
        name => format!("{name}={}", value.trim().to_ascii_lowercase()),
    }
}
