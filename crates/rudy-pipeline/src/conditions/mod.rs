//! Conditions on requests, which choose their routes and decide on their access.

pub(crate) mod clients;
mod table;
#[cfg(test)]
mod tests;

use http::HeaderName;
use rudy_config::OneOrMany;
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Client, Request};

pub use self::clients::AllowedClient;
pub use self::table::{Conditions, FieldPatterns, MethodName, RequestConditions};
use crate::hosts::Listeners;

/// A request that may meet conditions.
#[derive(Clone, Copy)]
pub struct Examined<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// Its canonical path.
    pub path: &'a RequestPath<'a>,
    /// Who has sent it.
    pub client: &'a Client<'a>,
    /// What knows the hosts of this machine.
    pub listeners: &'a Listeners,
}

impl Examined<'_> {
    /// Returns the subject of the client certificate.
    fn certificate(&self) -> impl Iterator<Item = &[u8]> {
        let tls = self.client.tls.as_ref();
        tls.and_then(|tls| Some(tls.client_certificate.as_ref()?.subject.as_bytes())).into_iter()
    }
}

/// The most different conditions on the routes of a site.
pub const CONDITIONS_MAX: usize = 64;

/// The conditions on the routes of a site, each once.
#[derive(Debug, Default)]
pub struct SiteConditions(Vec<OneOrMany<Conditions>>);

/// Which conditions of its site a request meets. They are evaluated once, before the steps change the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Met(u64);

impl SiteConditions {
    /// Adds conditions, one of which has to be met, and returns their number. `None` if there are too many.
    pub fn add(&mut self, conditions: &OneOrMany<Conditions>) -> Option<u8> {
        let known = self.0.iter().position(|known| known == conditions);
        let number = known.or_else(|| {
            let is_free = self.0.len() < CONDITIONS_MAX;
            is_free.then(|| {
                self.0.push(conditions.clone());
                self.0.len() - 1
            })
        })?;
        u8::try_from(number).ok()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns which of them a request meets.
    #[must_use]
    pub fn of(&self, examined: &Examined<'_>) -> Met {
        let mut met = Met::default();
        for (number, alternatives) in self.0.iter().enumerate() {
            let is_met = alternatives.as_slice().iter().any(|conditions| conditions.are_met(examined));
            met.0 |= u64::from(is_met) << number;
        }
        met
    }

    /// Calls `visit` for the fields on which conditions depend, some of them several times.
    pub fn fields(&self, number: u8, visit: &mut impl FnMut(HeaderName)) {
        let alternatives = self.0.get(usize::from(number)).into_iter().flat_map(OneOrMany::as_slice);
        alternatives.for_each(|conditions| conditions.fields(visit));
    }
}

impl Met {
    /// Whether the conditions with this number are among them.
    #[must_use]
    #[inline]
    pub fn contains(self, number: u8) -> bool {
        self.0 >> number & 1 == 1
    }
}
