//! The head of a request on its way through a server: what was received, and changes.

mod added;
mod convert;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri, Version};

use self::added::{AddedFields, next_line};
use crate::semantics::field::{ChangeFields, FieldLines, KnownField, KnownFields, NameStarts};
use crate::syntax::is_text;
use crate::text::put_field;
use crate::{FieldValue, RequestHead};

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
    /// The received fields that have been removed: known ones, and the names of others.
    removed: KnownFields,
    removed_others: Vec<HeaderName>,
    added: AddedFields,
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
            removed: KnownFields::default(),
            removed_others: Vec::new(),
            added: AddedFields::default(),
        }
    }

    /// Returns the head with a copy of what it borrows.
    #[must_use]
    pub fn into_owned(self) -> LazyHead<'static> {
        self.sharing(&OnceLock::new())
    }

    /// As [`Self::into_owned`], with the copy in `copy`, which is made by the first of all heads that borrow the same.
    #[must_use]
    pub fn sharing(self, copy: &OnceLock<Arc<RequestHead<'static>>>) -> LazyHead<'static> {
        let received = self.received.map(|received| match received {
            Received::Borrowed(head) => {
                Received::Shared(copy.get_or_init(|| Arc::new(head.clone().into_owned())).clone())
            }
            Received::Shared(head) => Received::Shared(head),
        });
        LazyHead { received, ..self }
    }

    /// Returns the received head, unless something was changed or has made a map.
    #[must_use]
    pub fn unchanged(&self) -> Option<&RequestHead<'_>> {
        let removes = !self.removed.is_empty() || !self.removed_others.is_empty();
        let is_same = self.has_received_target && !removes && self.added.lines.is_empty();
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

    /// Returns the known fields that are present, if there is no map.
    #[inline]
    fn known_fields(&self) -> KnownFields {
        let received = self.head().map(RequestHead::known_fields).unwrap_or_default();
        received.without(self.removed).union(self.added.known)
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

    fn to_map(&self) -> HeaderMap {
        let mut map = self.head().map(RequestHead::to_map).unwrap_or_default();
        let known: Vec<_> = self.removed.iter().map(KnownField::name).collect();
        for name in known.iter().chain(&self.removed_others) {
            map.remove(name);
        }
        for (name, value) in self.added.iter() {
            // They were a name and a value.
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                map.append(name, value);
            }
        }
        map
    }

    /// Returns the value of the first line of a field.
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        match KnownField::of(name.as_str().as_bytes()) {
            Some(field) => self.first(field),
            None if !self.may_have(|starts| starts.may_have(name.as_str().as_bytes())) => None,
            None => self.get_all(name).next(),
        }
    }

    /// Whether there may be fields with names that are, or begin as, some of these. Costs less than a search for them.
    #[must_use]
    pub fn may_have_any(&self, names: NameStarts) -> bool {
        self.may_have(|starts| starts.intersects(names))
    }

    fn may_have(&self, is_among: impl Fn(NameStarts) -> bool) -> bool {
        let received = self.head().map(RequestHead::name_starts).unwrap_or_default();
        self.map.get().is_some() || is_among(received) || is_among(self.added.name_starts)
    }

    /// Whether all names consist of letters, digits and hyphens. Names of added fields, and in a map, are not known to do so.
    #[must_use]
    pub fn has_plain_names(&self) -> bool {
        let is_as_received = self.map.get().is_none() && self.added.lines.is_empty();
        is_as_received && self.head().is_none_or(RequestHead::has_plain_names)
    }

    /// Whether any of these fields is present.
    #[must_use]
    pub fn has_any(&self, fields: KnownFields) -> bool {
        match self.map.get() {
            Some(map) => fields.iter().any(|field| FieldLines::has(&**map, field)),
            None => !self.known_fields().intersection(fields).is_empty(),
        }
    }

    /// Looks up a known field.
    #[must_use]
    pub fn field(&self, field: KnownField) -> FieldValue<'_> {
        if !self.has(field) {
            return FieldValue::Absent;
        }
        if let Some(head) = self.received_with(field) {
            return head.field(field);
        }
        FieldValue::of(self.lines(field))
    }

    /// Returns the received head if all lines of this field are its lines.
    pub(crate) fn received_with(&self, field: KnownField) -> Option<&RequestHead<'_>> {
        let is_changed = self.removed.contains(field) || self.added.known.contains(field);
        self.received_lines().filter(|_| !is_changed)
    }

    /// Returns the value of the first line of a known field.
    #[must_use]
    pub fn first(&self, field: KnownField) -> Option<&[u8]> {
        match self.field(field) {
            FieldValue::Absent => None,
            FieldValue::Once(value) => Some(value),
            FieldValue::Repeated => self.lines(field).next(),
        }
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
        let map = self.map.get();
        let of_map = map.into_iter().flat_map(move |map| map.get_all(name)).map(HeaderValue::as_bytes);
        let is_kept = !self.is_removed(name.as_str().as_bytes());
        let received = self.received_lines().filter(|_| is_kept).into_iter();
        let received = received.flat_map(move |head| head.lines_named(name));
        let added = map.is_none().then(|| self.added.of(name.clone())).into_iter().flatten();
        of_map.chain(received).chain(added)
    }

    /// Returns the names and the values of all fields. The case of a name may be that in which it was received.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut of_map = self.map.get().map(|map| map.iter());
        let mut received = self.received_lines().map(RequestHead::fields);
        let mut added = if of_map.is_none() { &self.added.lines[..] } else { &[] };
        // One loop: a chain of iterators costs four times as much for each field.
        std::iter::from_fn(move || {
            if let Some(map) = &mut of_map {
                return map.next().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
            }
            while let Some(lines) = &mut received {
                match lines.next_bytes() {
                    Some((name, _)) if self.is_removed(name) => {}
                    Some(field) => return Some(field),
                    None => received = None,
                }
            }
            next_line(&mut added)
        })
    }

    /// Whether a received field with this name, in any case, has been removed.
    fn is_removed(&self, name: &[u8]) -> bool {
        !self.removed.is_empty() && KnownField::of(name).is_some_and(|field| self.removed.contains(field))
            || self.removed_others.iter().any(|other| other.as_str().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Appends the lines of all fields except `skipped`, the received ones as they are if there is no map.
    pub(crate) fn encode_lines(&self, skipped: KnownFields, out: &mut BytesMut) {
        if self.removed_others.is_empty()
            && self.added.known.intersection(skipped).is_empty()
            && self
                .received_lines()
                .is_some_and(|head| head.copy_lines_except(self.removed.union(skipped), out))
        {
            out.extend_from_slice(&self.added.lines);
            return;
        }
        let is_skipped = |name: &[u8]| KnownField::of(name).is_some_and(|field| skipped.contains(field));
        for (name, value) in self.fields().filter(|(name, _)| !is_skipped(name)) {
            put_field(name, value, out);
        }
    }

    /// Removes all lines of a field.
    pub fn remove(&mut self, name: &HeaderName) {
        if let Some(map) = self.map.get_mut() {
            map.remove(name);
            return;
        }
        if let Some(field) = KnownField::of(name.as_str().as_bytes()) {
            return self.remove_all(KnownFields::of(&[field]));
        }
        if !self.may_have(|starts| starts.may_have(name.as_str().as_bytes())) {
            return;
        }
        self.added.remove(name);
        let is_received = self.head().is_some_and(|head| head.lines_named(name).next().is_some());
        if is_received && !self.removed_others.contains(name) {
            self.removed_others.push(name.clone());
        }
    }

    /// Removes all lines of these fields.
    pub fn remove_all(&mut self, fields: KnownFields) {
        if let Some(map) = self.map.get_mut() {
            fields.iter().for_each(|field| drop(map.remove(field.name())));
            return;
        }
        for field in self.added.known.intersection(fields).iter() {
            self.added.remove(&field.name());
        }
        let received = self.head().map(RequestHead::known_fields).unwrap_or_default();
        self.removed = self.removed.union(received.intersection(fields));
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
            None => self.added.push(&name, value.as_bytes()),
        }
    }

    /// Adds a line, unless the value is invalid.
    pub fn add_text(&mut self, name: &HeaderName, value: &[u8]) {
        match self.map.get_mut() {
            Some(map) => drop(HeaderValue::from_bytes(value).map(|value| map.append(name, value))),
            None if is_text(value) => self.added.push(name, value),
            None => {}
        }
    }

    /// Adds a line with the value of the first line of another field, if there is one.
    pub fn add_copy(&mut self, name: &HeaderName, of: KnownField) {
        let is_changed = self.removed.contains(of) || self.added.known.contains(of);
        if let (None, Some(head), false) = (self.map.get(), &self.received, is_changed)
            && let FieldValue::Once(value) = head.head().field(of)
        {
            return self.added.push(name, value);
        }
        if let Some(value) = self.first(of).map(<[u8]>::to_vec) {
            self.add_text(name, &value);
        }
    }

    /// Replaces all lines of a field by one.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.remove(&name);
        self.add(name, value);
    }
}

impl ChangeFields for LazyHead<'_> {
    fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        self.get_all(name)
    }

    fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get(name)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove(name);
    }

    fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.add(name, value);
    }
}

impl FieldLines for LazyHead<'_> {
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        let lines = || {
            let map = self.map.get();
            let of_map = map.into_iter().flat_map(move |map| FieldLines::lines(&**map, field));
            let head = self.received_lines().filter(|_| !self.removed.contains(field));
            let received = head.into_iter().flat_map(move |head| head.lines(field));
            let is_added = map.is_none() && self.added.known.contains(field);
            let added = is_added.then(|| self.added.of(field.name())).into_iter().flatten();
            of_map.chain(received).chain(added)
        };
        // Most fields are missing: the end of a chain costs more than the question.
        self.has(field).then(lines).into_iter().flatten()
    }

    #[inline]
    fn has(&self, field: KnownField) -> bool {
        match self.map.get() {
            Some(map) => FieldLines::has(&**map, field),
            None => self.known_fields().contains(field),
        }
    }
}
