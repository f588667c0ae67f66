//! The step that allows or rejects requests by rules: by client address, method, header fields and client certificate.

mod rule;
mod table;

use http::StatusCode;
use rudy_config::OneOrMany;
use rudy_pipeline::conditions::Examined;
use rudy_pipeline::{AllowedClient, Call, Context, Flow, Passage, Step, pages};
use rudy_service::Request;

use self::rule::Rule;
pub use self::table::AccessRuleTable;

/// Rules in order: the first one that matches decides.
#[derive(Debug, PartialEq, Eq)]
pub struct AccessRules {
    rules: Vec<Rule>,
    /// What happens to requests that no rule matches: they are allowed if no rule allows any.
    allows_others: bool,
}

impl AccessRules {
    /// Rules from lists of addresses. Those that are denied come first.
    #[must_use]
    pub fn of_lists(
        (allow, deny): (Option<&OneOrMany<AllowedClient>>, Option<&OneOrMany<AllowedClient>>),
    ) -> Self {
        let rule = |allows, clients: &OneOrMany<AllowedClient>| Rule::of_clients(allows, clients.as_slice());
        let deny = deny.map(|clients| rule(false, clients));
        Self::new(deny.into_iter().chain(allow.map(|clients| rule(true, clients))).collect())
    }

    /// Prepares rules.
    pub fn of_tables(tables: &[AccessRuleTable]) -> Self {
        Self::new(tables.iter().map(Rule::from).collect())
    }

    fn new(rules: Vec<Rule>) -> Self {
        let allows_others = !rules.iter().any(|rule| rule.allows);
        Self { rules, allows_others }
    }

    /// Returns whether a request is allowed, and the number of the rule that decides, from 0. `None` if no rule matches.
    fn decide(&self, request: &Request<'_>, call: &Call<'_>) -> (bool, Option<usize>) {
        let Context { client, routes, .. } = call.context;
        let examined = Examined { request, path: call.path, client, listeners: routes.router.listeners() };
        let decides = self.rules.iter().position(|rule| rule.matches(&examined));
        (decides.map_or(self.allows_others, |number| self.rules[number].allows), decides)
    }

    fn others(&self) -> String {
        format!("{} all others", if self.allows_others { "allow" } else { "deny" })
    }
}

impl Step for AccessRules {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        if self.decide(&passage.request, call).0 {
            return Flow::Continue;
        }
        let explanation = "You are not allowed to access this page.";
        pages::error(StatusCode::FORBIDDEN, passage.request.headers(), explanation).into()
    }

    fn describe(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|rule| format!("access: {rule}"));
        rules.chain([format!("access: {}", self.others())]).collect()
    }

    fn reason(&self, request: &Request<'_>, call: &Call<'_>) -> Option<String> {
        Some(match self.decide(request, call).1 {
            Some(number) => format!("access rule {}: {}", number + 1, self.rules[number]),
            None => format!("the access rules, none of which matches: {}", self.others()),
        })
    }
}
