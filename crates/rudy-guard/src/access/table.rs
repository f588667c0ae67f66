//! The settings of access rules.

use rudy_config::{Location, OneOrMany, Problem, Table};
use rudy_pipeline::AllowedClient;
use rudy_pipeline::conditions::RequestConditions;

/// A rule: `allow` or `deny`, and conditions that must all be met.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct AccessRuleTable {
    /// Allows requests of these clients: addresses, networks, `loopback` (this machine, without a proxy) or `anyone`.
    #[setting(example = ["10.0.0.0/8", "loopback"])]
    pub allow: Option<OneOrMany<AllowedClient>>,
    /// Rejects requests of these clients with 403.
    #[setting(example = "anyone")]
    pub deny: Option<OneOrMany<AllowedClient>>,
    /// Conditions on the requests.
    #[setting(part)]
    pub conditions: RequestConditions,
}

impl AccessRuleTable {
    /// Reports a rule that does not say what it does, or that matches no request of a site.
    #[must_use]
    pub fn problems(&self, location: &Location, has_client_certificates: bool) -> Vec<Problem> {
        let useless = (self.conditions.certificate.is_some() && !has_client_certificates).then(|| {
            let title = "the site asks for no client certificates, so this rule matches no request";
            let problem = Problem::key(&location.key("certificate"), title).label("without effect");
            problem.help("set `client_certificates` in the table `tls` of the site")
        });
        self.problem_of_effect(location).into_iter().chain(useless).collect()
    }

    fn problem_of_effect(&self, location: &Location) -> Option<Problem> {
        let title = match (&self.allow, &self.deny) {
            (Some(_), Some(_)) => "this rule has both `allow` and `deny`",
            (None, None) => "this rule has neither `allow` nor `deny`",
            _ => return None,
        };
        let problem = Problem::value(location, title).label("expected one of them: `allow = \"10.0.0.0/8\"`");
        Some(problem.help("for all clients, write `deny = \"anyone\"`"))
    }
}
