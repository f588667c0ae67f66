//! The head of a request on its way through a server: what was received, and changes.

use std::sync::{Arc, OnceLock};

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version, request};

use super::RequestHead;
use crate::semantics::field::{FieldLines, KnownField};

/// The head of a request, which services read and change.
///
/// It borrows what was received, and keeps changes beside it. A map of the fields and a URI are made only when something asks for
/// them: they cost more than the rest of a small response.
#[derive(Debug, Clone, Default)]
pub struct LazyHead<'a> {
    received: Option<Received<'a>>,
    method: Method,
    version: Version,
    /// Whether the target is the received one.
    has_received_target: bool,
    uri: OnceLock<Box<Uri>>,
    /// All fields, once there is a map. Until then, they are those that were received, with the changes.
    map: OnceLock<Box<HeaderMap>>,
    /// The names of received fields that have been removed.
    removed: Vec<HeaderName>,
    /// The fields that have been added.
    added: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Clone)]
enum Received<'a> {
    Borrowed(&'a RequestHead<'a>),
    Shared(Arc<RequestHead<'static>>),
}

impl Received<'_> {
    fn head(&self) -> &RequestHead<'_> {
        match self {
            Self::Borrowed(head) => head,
            Self::Shared(head) => head,
        }
    }
}

impl<'a> LazyHead<'a> {
    /// Creates the head of a received request.
    #[must_use]
    pub fn new(received: &'a RequestHead<'a>) -> Self {
        Self {
            method: received.method().clone(),
            version: received.version(),
            received: Some(Received::Borrowed(received)),
            has_received_target: true,
            uri: OnceLock::new(),
            map: OnceLock::new(),
            removed: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Returns the head with a copy of what it borrows.
    #[must_use]
    pub fn into_owned(self) -> LazyHead<'static> {
        let received = self.received.map(|received| match received {
            Received::Borrowed(head) => Received::Shared(Arc::new(head.clone().into_owned())),
            Received::Shared(head) => Received::Shared(head),
        });
        LazyHead { received, ..self }
    }

    /// Returns the received head, unless something was changed or has made a map.
    #[must_use]
    pub fn unchanged(&self) -> Option<&RequestHead<'_>> {
        let is_same = self.has_received_target && self.removed.is_empty() && self.added.is_empty();
        self.received_lines().filter(|_| is_same)
    }

    /// Returns the received head, if it is borrowed.
    #[must_use]
    pub fn received(&self) -> Option<&'a RequestHead<'a>> {
        match self.received {
            Some(Received::Borrowed(head)) => Some(head),
            _ => None,
        }
    }

    /// Returns the copy of the received head, if it is not borrowed.
    #[must_use]
    pub fn shared(&self) -> Option<&Arc<RequestHead<'static>>> {
        match &self.received {
            Some(Received::Shared(head)) => Some(head),
            _ => None,
        }
    }

    fn head(&self) -> Option<&RequestHead<'_>> {
        self.received.as_ref().map(Received::head)
    }

    /// Returns the received head if the fields are its lines with the changes.
    fn received_lines(&self) -> Option<&RequestHead<'_>> {
        self.head().filter(|_| self.map.get().is_none())
    }

    /// Returns the method, which can be any token.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Replaces the method.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
    }

    /// Returns HTTP/1.0, HTTP/1.1 or HTTP/2.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the URI. Bytes that it cannot hold are percent-encoded.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        let make = || self.head().map(|head| head.to_uri().0).unwrap_or_default();
        self.uri.get_or_init(|| Box::new(make()))
    }

    /// Replaces the URI.
    pub fn set_uri(&mut self, uri: Uri) {
        self.has_received_target = false;
        self.uri = OnceLock::from(Box::new(uri));
    }

    fn received_target(&self) -> Option<&RequestHead<'_>> {
        self.head().filter(|_| self.has_received_target)
    }

    /// Returns the path, not decoded: as it was received, or that of the URI.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.received_target().map_or_else(|| self.uri().path().as_bytes(), RequestHead::path)
    }

    /// Returns the path as it was received, if it is borrowed.
    #[must_use]
    pub fn received_path(&self) -> Option<&'a [u8]> {
        self.received().filter(|_| self.has_received_target).map(RequestHead::path)
    }

    /// Whether the target has a scheme and an authority.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        match self.received_target() {
            Some(head) => head.authority().is_some(),
            None => self.uri().scheme().is_some(),
        }
    }

    /// Returns the query, as [`Self::path`].
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.received_target().map_or_else(|| self.uri().query().map(str::as_bytes), RequestHead::query)
    }

    /// Returns the path and the query, as [`Self::path`]; `/` without both.
    #[must_use]
    pub fn path_and_query(&self) -> &[u8] {
        let received = self.received_target().and_then(RequestHead::path_and_query);
        let of_uri = || self.uri().path_and_query().map_or("/", |target| target.as_str()).as_bytes();
        received.unwrap_or_else(of_uri)
    }

    /// Returns the requested host, with a port if it has one. A host in the target overrides the field (RFC 9112 §3.2.2). Empty
    /// without a host.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        if let Some(head) = self.unchanged() {
            return head.host();
        }
        let authority = match self.received_target() {
            Some(head) => head.authority(),
            None => self.uri().authority().map(|authority| authority.as_str().as_bytes()),
        };
        authority.or_else(|| self.get(&HOST)).unwrap_or_default()
    }

    /// Returns the fields in a map, which is made by the first call.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| Box::new(self.to_map()))
    }

    /// Returns the fields in a map, to change them. [`Self::set`], [`Self::add`] and [`Self::remove`] need no map.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        if self.map.get().is_none() {
            self.map = OnceLock::from(Box::new(self.to_map()));
        }
        self.map.get_mut().expect("the map has been made")
    }

    /// Returns the fields that are added to the received ones.
    fn added(&self) -> &[(HeaderName, HeaderValue)] {
        if self.map.get().is_some() { &[] } else { &self.added }
    }

    fn to_map(&self) -> HeaderMap {
        let mut map = self.head().map(RequestHead::to_map).unwrap_or_default();
        for name in &self.removed {
            map.remove(name);
        }
        for (name, value) in &self.added {
            map.append(name, value.clone());
        }
        map
    }

    /// Returns the value of the first line of a field.
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Returns a copy of the value of the first line of a field.
    #[must_use]
    pub fn value(&self, name: &HeaderName) -> Option<HeaderValue> {
        // The values of received fields are valid.
        HeaderValue::from_bytes(self.get(name)?).ok()
    }

    /// Whether a field is present.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Returns the values of all lines of a field, in their order.
    pub fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        let map = self.map.get().into_iter();
        let of_map = map.flat_map(move |map| map.get_all(name)).map(HeaderValue::as_bytes);
        let head = self.received_lines().filter(|_| !self.removed.contains(name)).into_iter();
        let received = head.flat_map(move |head| head.lines_named(name));
        let added = self.added().iter().filter(move |(other, _)| other == name);
        of_map.chain(received).chain(added.map(|(_, value)| value.as_bytes()))
    }

    /// Returns the names and the values of all fields. The case of a name may be that in which it was received.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let map = self.map.get().into_iter().flat_map(|map| map.iter());
        let is_kept = |(name, _): &(&[u8], &[u8])| !is_among(&self.removed, name);
        let received = self.received_lines().into_iter().flat_map(RequestHead::field_bytes);
        let received = received.filter(is_kept);
        let added = self.added().iter().map(|(name, value)| (name, value));
        received.chain(map.chain(added).map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
    }

    /// Removes all lines of a field.
    pub fn remove(&mut self, name: &HeaderName) {
        if let Some(map) = self.map.get_mut() {
            map.remove(name);
            return;
        }
        self.added.retain(|(other, _)| other != name);
        let is_received = self.head().is_some_and(|head| head.lines_named(name).next().is_some());
        if is_received && !self.removed.contains(name) {
            self.removed.push(name.clone());
        }
    }

    /// Removes all fields with names that `is_removed` accepts, in the case in which they were received. Returns their names.
    pub fn remove_if(&mut self, is_removed: impl Fn(&[u8]) -> bool) -> Vec<HeaderName> {
        let names = self.fields().map(|(name, _)| name).filter(|name| is_removed(name));
        // The names of received fields are valid.
        let names: Vec<HeaderName> = names.filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
        for name in &names {
            self.remove(name);
        }
        names
    }

    /// Adds a line.
    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        match self.map.get_mut() {
            Some(map) => drop(map.append(name, value)),
            None => self.added.push((name, value)),
        }
    }

    /// Replaces all lines of a field by one.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.remove(&name);
        self.add(name, value);
    }
}

fn is_among(names: &[HeaderName], name: &[u8]) -> bool {
    names.iter().any(|other| other.as_str().as_bytes().eq_ignore_ascii_case(name))
}

impl From<request::Parts> for LazyHead<'static> {
    /// Creates the head of a request that was not received. Its extensions are lost.
    fn from(parts: request::Parts) -> Self {
        let request::Parts { method, uri, version, headers, .. } = parts;
        Self {
            received: None,
            method,
            version,
            has_received_target: false,
            uri: OnceLock::from(Box::new(uri)),
            map: OnceLock::from(Box::new(headers)),
            removed: Vec::new(),
            added: Vec::new(),
        }
    }
}

impl From<HeaderMap> for LazyHead<'static> {
    /// Creates the head of a GET of `/`.
    fn from(fields: HeaderMap) -> Self {
        Self { map: OnceLock::from(Box::new(fields)), ..Self::default() }
    }
}

impl From<LazyHead<'_>> for request::Parts {
    /// Creates a head in which a [`RawTarget`](crate::RawTarget) is an extension.
    fn from(head: LazyHead<'_>) -> Self {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = std::mem::take(head.clone().headers_mut());
        if let Some(received) = head.received_target() {
            let (uri, raw) = received.to_uri();
            raw.map(|raw| parts.extensions.insert(raw));
            parts.uri = uri;
        } else {
            parts.uri = head.uri().clone();
        }
        (parts.method, parts.version) = (head.method, head.version);
        parts
    }
}

impl FieldLines for LazyHead<'_> {
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        let name = field.name();
        let of_map = self.map.get().into_iter().flat_map(move |map| FieldLines::lines(&**map, field));
        let head = self.received_lines().filter(|_| !self.removed.contains(&name));
        let received = head.into_iter().flat_map(move |head| head.lines(field));
        let added = self.added().iter().filter(move |(other, _)| *other == name);
        of_map.chain(received).chain(added.map(|(_, value)| value.as_bytes()))
    }

    fn has(&self, field: KnownField) -> bool {
        if let Some(map) = self.map.get() {
            return FieldLines::has(&**map, field);
        }
        let is_received = self.head().is_some_and(|head| head.has(field));
        // Most heads have no changes, and most fields are not in them.
        is_received && !self.removed.contains(&field.name())
            || self.added.iter().any(|(name, _)| *name == field.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;

    const NAMES: [&str; 5] = ["cookie", "x-a", "x-b", "host", "via"];

    #[derive(Debug, Clone)]
    enum Change {
        Add(&'static str, u16),
        Set(&'static str, u16),
        Remove(&'static str),
        RemoveIf(&'static str),
        MakeMap,
        Own,
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let name = || prop::sample::select(&NAMES[..]);
        let change = prop_oneof![
            (name(), any::<u16>()).prop_map(|(name, value)| Change::Add(name, value)),
            (name(), any::<u16>()).prop_map(|(name, value)| Change::Set(name, value)),
            name().prop_map(Change::Remove),
            prop::sample::select(&["x-", "x-b"][..]).prop_map(Change::RemoveIf),
            Just(Change::MakeMap),
            Just(Change::Own),
        ];
        prop::collection::vec(change, 0..8)
    }

    fn make(change: &Change, mut head: LazyHead<'_>, model: &mut HeaderMap) -> LazyHead<'static> {
        let name = HeaderName::from_static;
        match change {
            Change::Add(of, value) => {
                head.add(name(of), (*value).into());
                model.append(*of, (*value).into());
            }
            Change::Set(of, value) => {
                head.set(name(of), (*value).into());
                model.insert(*of, (*value).into());
            }
            Change::Remove(of) => {
                head.remove(&name(of));
                model.remove(*of);
            }
            Change::RemoveIf(start) => {
                head.remove_if(|name| name.to_ascii_lowercase().starts_with(start.as_bytes()));
                for name in NAMES.iter().filter(|name| name.starts_with(start)) {
                    model.remove(*name);
                }
            }
            Change::MakeMap => drop(head.headers().len()),
            Change::Own => {}
        }
        head.into_owned()
    }

    proptest! {
        #[test]
        fn a_changed_head_has_the_fields_of_a_map_that_was_changed_alike(
            lines in prop::collection::vec((prop::sample::select(&["Cookie", "X-A", "x-a", "X-b"][..]), any::<u16>()), 0..6),
            changes in changes(),
        ) {
            let lines = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
            let text = format!("GET /a?b HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let received = RequestHead::of_rejected(text.as_bytes(), &Limits::default()).expect("a valid head");
            let mut model = received.to_map();
            let start = LazyHead::new(&received);
            prop_assert!(start.unchanged().is_some());
            let head = changes.iter().fold(start.into_owned(), |head, change| make(change, head, &mut model));
            for name in NAMES.map(HeaderName::from_static) {
                let expected: Vec<_> = model.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
                prop_assert_eq!(head.get_all(&name).collect::<Vec<_>>(), &expected[..], "{}", name);
                if let Some(field) = KnownField::of(name.as_str().as_bytes()) {
                    prop_assert_eq!(FieldLines::lines(&head, field).collect::<Vec<_>>(), &expected[..], "{}", name);
                }
            }
            prop_assert_eq!(head.fields().count(), model.len());
            prop_assert_eq!(head.headers(), &model);
            prop_assert_eq!((head.path(), head.query(), head.uri().path()), (&b"/a"[..], Some(&b"b"[..]), "/a"));
        }
    }

    #[test]
    fn a_replaced_target_hides_the_received_one() {
        let text = b"GET http://own/<a>?b HTTP/1.1\r\nHost: other\r\n\r\n";
        let received = RequestHead::of_rejected(text, &Limits::default()).expect("a valid head");
        let mut head = LazyHead::new(&received);
        assert_eq!(
            (head.host(), head.path(), head.path_and_query()),
            (&b"own"[..], &b"/<a>"[..], &b"/<a>?b"[..])
        );
        assert_eq!((head.uri().path(), head.received_path()), ("/%3Ca%3E", Some(&b"/<a>"[..])));
        head.set_uri("/c".parse().expect("a valid URI"));
        assert_eq!((head.host(), head.path_and_query()), (&b"other"[..], &b"/c"[..]));
        assert!(head.received_path().is_none() && head.unchanged().is_none() && !head.is_absolute());
    }
}
