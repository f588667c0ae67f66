//! Fields of a request that only the server sets: no spelling of the client's own remains, and no client can have a proxy drop them.

use http::{HeaderName, HeaderValue, header};
use rudy_message::LazyHead;
use rudy_message::syntax::members;
use rudy_service::Request;

/// Replaces a field of a request, in every spelling, by one with these values. The client cannot have a proxy drop it.
pub fn replace_field(
    name: &HeaderName,
    values: impl IntoIterator<Item = HeaderValue>,
    head: &mut LazyHead<'_>,
) {
    keep_from_connection(|option| is_named(name, option), head);
    remove_spellings(name, head);
    for value in values {
        head.add(name.clone(), value);
    }
}

/// Removes changed fields from `Connection`: a proxy drops the fields that are named there, so a client could remove what the server
/// has set.
pub fn keep_from_connection(is_changed: impl Fn(&[u8]) -> bool, head: &mut LazyHead<'_>) {
    let options = || head.get_all(&header::CONNECTION).flat_map(members);
    if !options().any(&is_changed) {
        return;
    }
    let kept: Vec<_> = options().filter(|option| !is_changed(option)).collect();
    match HeaderValue::from_bytes(&kept.join(&b", "[..])) {
        Ok(kept) if !kept.is_empty() => head.set(header::CONNECTION, kept),
        _ => head.remove(&header::CONNECTION),
    }
}

/// Whether an option of `Connection` names a field.
pub fn is_named(name: &HeaderName, option: &[u8]) -> bool {
    name.as_str().as_bytes().eq_ignore_ascii_case(option)
}

/// Removes a field in all spellings that are one variable for CGI: `Remote_User` is `REMOTE_USER`, too.
pub fn remove_spellings(name: &HeaderName, head: &mut LazyHead<'_>) {
    head.remove_if(|other| is_same_variable(other, name.as_str().as_bytes()));
}

/// Whether two names are one variable for CGI. PHP turns a dot into an underscore, too.
#[must_use]
pub fn is_same_variable(one: &[u8], other: &[u8]) -> bool {
    let is_mark = |byte: u8| !byte.is_ascii_alphanumeric();
    let is_same =
        |(one, other): (&u8, &u8)| one.eq_ignore_ascii_case(other) || (is_mark(*one) && is_mark(*other));
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Removes the trailers of a request. Some apps merge them into the fields, so a client could set a removed field again there.
pub fn remove_trailers(request: &mut Request<'_>) {
    request.remove(&header::TRAILER);
    let body = std::mem::take(request.body_mut());
    *request.body_mut() = body.without_trailers();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_have_a_proxy_drop_what_the_server_sets() {
        for (given, kept) in [
            (&["close"][..], Some("close")),
            (&["X-User, keep-alive", "x-other"], Some("keep-alive, x-other")),
            (&["x-USER"], None),
            (&[], None),
        ] {
            let mut head = LazyHead::default();
            for line in given {
                head.add(header::CONNECTION, HeaderValue::from_static(line));
            }
            keep_from_connection(|option| is_named(&HeaderName::from_static("x-user"), option), &mut head);
            assert_eq!(head.get(&header::CONNECTION), kept.map(str::as_bytes), "{given:?}");
        }
    }

    #[test]
    fn a_removed_field_of_a_request_is_removed_in_every_spelling() {
        let mut head = LazyHead::default();
        for name in ["remote-user", "remote_user", "remote.user", "remote-user-2"] {
            head.add(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        remove_spellings(&HeaderName::from_static("remote_user"), &mut head);
        assert_eq!(head.fields().map(|(name, _)| name).collect::<Vec<_>>(), [b"remote-user-2"]);
    }
}
