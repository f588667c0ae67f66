//! A rule and the requests that it matches.

use std::fmt;

use rudy_config::OneOrMany;
use rudy_pipeline::AllowedClient;
use rudy_pipeline::conditions::{Examined, RequestConditions};

use super::table::AccessRuleTable;

/// A rule. It matches a request that meets all its conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Whether the requests that it matches are allowed, or else rejected.
    pub(super) allows: bool,
    clients: Vec<AllowedClient>,
    conditions: RequestConditions,
}

impl Rule {
    /// A rule for these clients.
    pub(super) fn of_clients(allows: bool, clients: &[AllowedClient]) -> Self {
        Self { allows, clients: clients.to_vec(), conditions: RequestConditions::default() }
    }

    /// Returns whether the rule matches a request. A client of which that is unclear is rejected.
    pub(super) fn matches(&self, examined: &Examined<'_>) -> bool {
        let Examined { request, client, listeners, .. } = examined;
        let in_doubt = !self.allows;
        self.clients.iter().any(|group| group.is_client(request, client, listeners, in_doubt))
            && self.conditions.are_met(examined, in_doubt)
    }
}

impl From<&AccessRuleTable> for Rule {
    fn from(table: &AccessRuleTable) -> Self {
        let clients = |list: &OneOrMany<AllowedClient>| list.as_slice().to_vec();
        Self {
            allows: table.allow.is_some(),
            clients: table.allow.as_ref().or(table.deny.as_ref()).map(clients).unwrap_or_default(),
            conditions: table.conditions.clone(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = self.clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        write!(f, "{} {clients}", if self.allows { "allow" } else { "deny" })?;
        self.conditions.texts().try_for_each(|text| write!(f, ", {text}"))
    }
}
