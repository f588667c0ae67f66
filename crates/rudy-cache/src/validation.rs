//! What a validation changes in the stored responses (RFC 9111 §4.3.3 to §4.3.5).

use std::cmp::Reverse;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, DATE, ETAG, LAST_MODIFIED, VARY};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use rudy_message::semantics::etag::Comparison;

use crate::fields::remove_qualified;
use crate::freshness::{date_of, initial_age};
use crate::policy::{Exchange, Policy};
use crate::stored::{Stored, Validators};
use crate::storing::NotStored;
use crate::vary::{Variant, add_coding};

/// A stored response that a validation changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The position in the list of stored responses.
    pub index: usize,
    /// Whether it may remain stored. If not, it may be the response to this request, and has to be removed.
    pub kept: Result<(), NotStored>,
}

impl Policy {
    /// Updates the stored responses that a 304 is about (§4.3.4), and returns them, the most recent one first: it is the response
    /// to the request.
    ///
    /// If there is none, no stored response may be used: the request has to be sent again without conditions. A `Set-Cookie` of
    /// the 304 is not stored; it is only for this client. A 304 after [`Forward::Bypass`](crate::Forward::Bypass) is
    /// about the conditions of the client, and only for the client.
    pub fn freshen<B, C>(
        &self,
        request: &Request<B>,
        response: &Response<C>,
        stored: &mut [Stored],
        exchange: Exchange,
    ) -> Vec<Change> {
        if response.status() != StatusCode::NOT_MODIFIED {
            return Vec::new();
        }
        let candidates = matching(request.headers(), stored);
        let identified = identify(&Validators::of(response.headers()), stored, candidates);
        let is_kept =
            if self.of_client(request.headers()).no_store { Err(NotStored::NoStore) } else { Ok(()) };
        let mut update = |index: usize| {
            let updated = self.update(&mut stored[index], request.headers(), response.headers(), exchange);
            Change { index, kept: is_kept.and(updated) }
        };
        identified.into_iter().map(&mut update).collect()
    }

    /// Updates or invalidates the stored responses that a response to HEAD describes (§4.3.5), and returns them.
    pub fn freshen_from_head<B, C>(
        &self,
        request: &Request<B>,
        response: &Response<C>,
        stored: &mut [Stored],
        exchange: Exchange,
    ) -> Vec<Change> {
        let is_described = *request.method() == Method::HEAD && response.status() == StatusCode::OK;
        if !is_described || self.of_client(request.headers()).no_store {
            return Vec::new();
        }
        let described = matching(request.headers(), stored);
        let mut update = |index: usize| {
            let stored = &mut stored[index];
            let kept = if is_same_representation(&stored.fields, response.headers()) {
                self.update(stored, request.headers(), response.headers(), exchange)
            } else {
                stored.invalidate();
                Ok(())
            };
            Change { index, kept }
        };
        described.into_iter().map(&mut update).collect()
    }

    /// Updates a stored response with the fields of a newer one (§3.2), and its age and freshness with them.
    pub(crate) fn update(
        &self,
        stored: &mut Stored,
        request: &HeaderMap,
        newer: &HeaderMap,
        exchange: Exchange,
    ) -> Result<(), NotStored> {
        Self::update_fields(&mut stored.fields, newer);
        if date_of(newer, &DATE).is_none() {
            stored.fields.insert(DATE, exchange.received_at.to_value());
        }
        stored.initial_age = initial_age(newer, exchange);
        stored.received_at = exchange.received_at;
        stored.is_authorized |= request.contains_key(AUTHORIZATION);
        let directives = self.of_origin(&stored.fields);
        remove_qualified(&mut stored.fields, &directives);
        stored.validators = Validators::of(&stored.fields);
        // Until the checks below have passed.
        stored.is_invalid = true;
        if newer.contains_key(VARY) {
            // With the stored coding, which a 304 does not name.
            add_coding(&mut stored.fields);
            stored.variant = Variant::new(request, &stored.fields).ok_or(NotStored::VaryAny)?;
        }
        let Stored { status, fields, validators, is_authorized, .. } = &*stored;
        stored.freshness = self.check(*status, fields, validators, &directives, *is_authorized)?;
        stored.is_invalid = false;
        Ok(())
    }
}

/// Returns the positions of the responses that could be selected for a request (§4.1).
fn matching(request: &HeaderMap, stored: &[Stored]) -> Vec<usize> {
    (0..stored.len()).filter(|index| stored[*index].suits(request)).collect()
}

/// Returns the responses that a 304 with these validators updates, by the first rule of §4.3.4 that applies.
fn identify(received: &Validators, stored: &[Stored], candidates: Vec<usize>) -> Vec<usize> {
    let known = |index: &usize| &stored[*index].validators;
    let (mut same, is_strong): (Vec<usize>, bool) = match (&received.tag, received.modified) {
        (Some(tag), _) => {
            let comparison = if tag.is_weak() { Comparison::Weak } else { Comparison::Strong };
            let is_same =
                |index: &usize| known(index).tag.as_ref().is_some_and(|known| known.matches(tag, comparison));
            (candidates.into_iter().filter(is_same).collect(), !tag.is_weak())
        }
        (None, Some(modified)) => {
            let is_same = |index: &usize| known(index).modified == Some(modified);
            (candidates.into_iter().filter(is_same).collect(), received.modified_is_strong)
        }
        // The RFC names only a stored response without a validator. One with a validator was the only one that the request
        // named, so it is the one that the 304 is about. Many applications send such a 304.
        (None, None) => return if candidates.len() == 1 { candidates } else { Vec::new() },
    };
    same.sort_by_key(|index| Reverse(stored[*index].recency()));
    if !is_strong {
        same.truncate(1);
    }
    same
}

/// Whether a response to HEAD describes the stored representation: the validators that it has, and its length, are the same.
fn is_same_representation(stored: &HeaderMap, head: &HeaderMap) -> bool {
    let is_same = |name| head.get(name).is_none_or(|value| stored.get(name) == Some(value));
    [ETAG, LAST_MODIFIED, CONTENT_LENGTH].iter().all(is_same)
}
