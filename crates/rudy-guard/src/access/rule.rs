//! A rule and the requests that it matches.

use std::fmt;

use http::{HeaderName, Method};
use rudy_config::OneOrMany;
use rudy_pipeline::wildcard::Wildcard;
use rudy_pipeline::{AllowedClient, Context};
use rudy_service::{Client, Peer, Request};

use super::table::AccessRuleTable;

/// A rule. It matches a request that meets all its conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Whether the requests that it matches are allowed, or else rejected.
    pub(super) allows: bool,
    clients: Vec<AllowedClient>,
    /// Empty for all methods.
    methods: Vec<Method>,
    /// Header fields, and patterns of their values.
    fields: Vec<(HeaderName, Wildcard)>,
    /// Patterns of the subject of the client certificate; empty for requests with and without one.
    certificates: Vec<Wildcard>,
}

impl Rule {
    /// A rule for these clients.
    pub(super) fn of_clients(allows: bool, clients: &[AllowedClient]) -> Self {
        let (methods, fields, certificates) = (Vec::new(), Vec::new(), Vec::new());
        Self { allows, clients: clients.to_vec(), methods, fields, certificates }
    }

    /// Returns whether the rule matches a request.
    pub(super) fn matches(&self, request: &Request<'_>, context: Context<'_>) -> bool {
        (self.methods.is_empty() || self.methods.contains(request.method()))
            && self.clients.iter().any(|group| self.includes(*group, request, context))
            && self.fields.iter().all(|(name, pattern)| has_field(request, name, pattern))
            && (self.certificates.is_empty() || self.has_certificate(context.client))
    }

    fn includes(&self, group: AllowedClient, request: &Request<'_>, context: Context<'_>) -> bool {
        if self.allows {
            return group.allows(request, context);
        }
        // A client whose address is unknown may have any.
        let is_unknown = matches!(context.client.address(), Peer::Unnamed(_));
        is_unknown && matches!(group, AllowedClient::Network(_)) || group.includes(request, context.client)
    }

    fn has_certificate(&self, client: &Client<'_>) -> bool {
        let certificate = client.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref());
        certificate.is_some_and(|certificate| {
            let subject = certificate.subject.as_bytes();
            self.certificates.iter().any(|pattern| pattern.matches(subject, |_| true))
        })
    }
}

fn has_field(request: &Request<'_>, name: &HeaderName, pattern: &Wildcard) -> bool {
    request.get_all(name).any(|value| pattern.matches(value, |_| true))
}

impl From<&AccessRuleTable> for Rule {
    fn from(table: &AccessRuleTable) -> Self {
        let clients = |list: &OneOrMany<AllowedClient>| list.as_slice().to_vec();
        let methods = table.methods.iter().flat_map(OneOrMany::as_slice);
        let patterns = table.certificate.as_ref().map_or(&[][..], OneOrMany::as_slice);
        Self {
            allows: table.allow.is_some(),
            clients: table.allow.as_ref().or(table.deny.as_ref()).map(clients).unwrap_or_default(),
            methods: methods.map(|method| method.0.clone()).collect(),
            fields: table.headers.0.clone(),
            certificates: patterns.to_vec(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.allows { "allow " } else { "deny " })?;
        f.write_str(&join(&self.clients))?;
        if !self.methods.is_empty() {
            write!(f, ", method {}", join(&self.methods))?;
        }
        for (name, pattern) in &self.fields {
            write!(f, ", field {name}: {pattern}")?;
        }
        if !self.certificates.is_empty() {
            write!(f, ", certificate {}", join(&self.certificates))?;
        }
        Ok(())
    }
}

fn join<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
