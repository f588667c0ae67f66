//! Requests that are sent again with a condition or a range.

use std::collections::HashSet;

use http::header::{ACCEPT_ENCODING, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::compare::Kind;
use crate::{Request, Response};

/// The range that is requested: short, and in most files.
const FIRST_BYTES: &str = "bytes=0-99";

/// A request with another field for each server.
#[derive(Debug, Clone)]
pub(crate) struct FollowUp {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) old: HeaderMap,
    pub(crate) new: HeaderMap,
}

impl FollowUp {
    fn new(kind: Kind, name: &'static str, field: &HeaderName, values: [&HeaderValue; 2]) -> Self {
        let [old, new] = values.map(|value| HeaderMap::from_iter([(field.clone(), value.clone())]));
        Self { kind, name, old, new }
    }

    /// The value that the new server gets.
    pub(crate) fn value(&self) -> Option<&str> {
        self.new.get(self.name)?.to_str().ok()
    }
}

/// The URLs that are requested again: the first different ones.
#[derive(Debug)]
pub(crate) struct Samples {
    max: usize,
    seen: HashSet<(Option<String>, String)>,
}

impl Samples {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, seen: HashSet::new() }
    }

    /// Number of URLs so far.
    pub(crate) fn taken(&self) -> u64 {
        self.seen.len() as u64
    }

    /// The requests that follow one, with what each server has sent. None if they are no sample. Bodies that differ have no equal ranges.
    pub(crate) fn follow_ups(
        &mut self,
        request: &Request,
        old: &Response,
        new: &Response,
        is_equal: bool,
    ) -> Vec<FollowUp> {
        let is_sample = request.method == Method::GET && old.status == 200 && new.status == 200;
        if !is_sample
            || self.seen.len() >= self.max
            || !self.seen.insert((request.host.clone(), request.target.clone()))
        {
            return Vec::new();
        }
        let mut follow_ups = Vec::new();
        for (name, field, received) in
            [("If-None-Match", IF_NONE_MATCH, ETAG), ("If-Modified-Since", IF_MODIFIED_SINCE, LAST_MODIFIED)]
        {
            if let (Some(old), Some(new)) = (old.fields.get(&received), new.fields.get(&received)) {
                follow_ups.push(FollowUp::new(Kind::Conditional, name, &field, [old, new]));
            }
        }
        if is_equal {
            let range = HeaderValue::from_static(FIRST_BYTES);
            let mut follow_up = FollowUp::new(Kind::Range, "Range", &RANGE, [&range, &range]);
            for fields in [&mut follow_up.old, &mut follow_up.new] {
                // The bytes of compressed bodies are those of a compressor.
                fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            follow_ups.push(follow_up);
        }
        follow_ups
    }
}
