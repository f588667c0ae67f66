//! The settings of access rules.

use std::fmt;
use std::str::FromStr;

use http::{HeaderName, Method};
use rudy_config::{FieldName, Location, OneOrMany, Problem, field_table, inline_schema, written_as_text};
use rudy_pipeline::AllowedClient;
use rudy_pipeline::wildcard::Wildcard;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer};

/// A rule: `allow` or `deny`, and conditions that must all be met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessRuleTable {
    /// Allows requests of these clients: addresses, networks, `loopback` (this machine, without a proxy) or `anyone`.
    #[schemars(extend("examples" = [["10.0.0.0/8", "loopback"]]))]
    pub allow: Option<OneOrMany<AllowedClient>>,
    /// Rejects requests of these clients with 403.
    #[schemars(extend("examples" = ["anyone"]))]
    pub deny: Option<OneOrMany<AllowedClient>>,
    /// Methods of the requests. The default is all methods.
    #[schemars(extend("examples" = [["GET", "HEAD"]]))]
    pub methods: Option<OneOrMany<MethodName>>,
    /// Header fields of the requests, with patterns of their values, in which `*` matches any characters.
    pub headers: FieldPatterns,
    /// Patterns of the subject of the client certificate, as in the log: `CN=alice,O=Example`. `*` matches any certificate
    /// that the site accepts (`client_certificates`).
    #[schemars(extend("examples" = ["CN=alice,*"]))]
    pub certificate: Option<OneOrMany<Wildcard>>,
}

impl AccessRuleTable {
    /// Reports a rule that does not say what it does, or that matches no request of a site.
    #[must_use]
    pub fn problems(&self, location: &Location, has_client_certificates: bool) -> Vec<Problem> {
        let useless = (self.certificate.is_some() && !has_client_certificates).then(|| {
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

/// Patterns of values by the names of header fields: `{ User-Agent = "*bot*" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPatterns(pub(super) Vec<(HeaderName, Wildcard)>);

impl<'de> Deserialize<'de> for FieldPatterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let patterns = field_table(deserializer)?.into_iter();
        Ok(Self(patterns.map(|(FieldName(_, name), pattern)| (name, pattern)).collect()))
    }
}

inline_schema!([] FieldPatterns, |generator| {
    let pattern = generator.subschema_for::<Wildcard>();
    json_schema!({
        "type": "object", "additionalProperties": pattern, "examples": [{ "User-Agent": "*bot*" }]
    })
});

/// A method: `GET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName(pub Method);

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let method = Method::from_str(text).ok().filter(|method| method.as_str() == text);
        match method {
            // Methods are case-sensitive (RFC 9110 §9.1).
            Some(method) if !text.contains(|letter: char| letter.is_ascii_lowercase()) => Ok(Self(method)),
            _ => Err("expected a method in capital letters, such as \"GET\"".to_owned()),
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

written_as_text!(MethodName, "a method (\"GET\")",
    { "type": "string", "description": "A method of HTTP.", "pattern": "^[^a-z]+$", "examples": ["GET", "POST"] });
