//! The settings of access rules.

use std::fmt;
use std::str::FromStr;

use http::{HeaderName, Method};
use rudy_config::{
    FieldName, Invalid, Location, OneOrMany, Problem, Setting, Shape, Table, Value, field_table,
    written_as_text,
};
use rudy_pipeline::AllowedClient;
use rudy_pipeline::wildcard::Wildcard;

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
    /// Methods of the requests. The default is all methods.
    #[setting(example = ["GET", "HEAD"])]
    pub methods: Option<OneOrMany<MethodName>>,
    /// Header fields of the requests, with patterns of their values, in which `*` matches any characters.

    #[setting(example = { "User-Agent" = "*bot*" })]
    pub headers: FieldPatterns,
    /// Patterns of the subject of the client certificate, as in the log: `CN=alice,O=Example`. `*` matches any certificate
    /// that the site accepts (`client_certificates`).
    #[setting(example = "CN=alice,*")]
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

impl Setting for FieldPatterns {
    const SHAPE: Shape = Shape::Map(&Wildcard::SHAPE, None);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let patterns = field_table(value)?.into_iter();
        Ok(Self(patterns.map(|(FieldName(_, name), pattern)| (name, pattern)).collect()))
    }
}

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

written_as_text!(MethodName, "a method (\"GET\")", {
    doc: "A method of HTTP.",
    pattern: "^[^a-z]+$",
    examples: ["GET", "POST"],
});
