//! Errors as sentences, with what to do.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};

/// Why there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened, in the words of the authority if it has said something.
    pub message: String,
    /// What to do.
    pub advice: Option<&'static str>,
    /// When the authority accepts the next request.
    pub retry_after: Option<Duration>,
    /// Whether the authority does not know the account, so that another one is needed.
    pub needs_account: bool,
    /// Whether the authority could not verify the challenge, which counts against its limits.
    pub is_validation: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Creates a failure on this side of the connection.
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: None,
            retry_after: None,
            needs_account: false,
            is_validation: false,
        }
    }

    /// The authority could not verify a challenge.
    pub(crate) fn validation(problem: &Problem) -> Self {
        Self { is_validation: true, ..Self::from(problem) }
    }
}

impl From<&Problem> for Failure {
    fn from(problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().and_then(|kind| kind.strip_prefix(PREFIX)).unwrap_or_default();
        let mut details: Vec<_> = problem.detail.iter().map(String::as_str).collect();
        details.extend(problem.subproblems.iter().filter_map(|problem| problem.detail.as_deref()));
        let details = if details.is_empty() { "no details".to_owned() } else { details.join("; ") };
        let kind_shown = if kind.is_empty() { String::new() } else { format!(" ({kind})") };
        Self {
            advice: advice(kind),
            needs_account: kind == "accountDoesNotExist",
            ..Self::local(format!("the authority said: {details}{kind_shown}"))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::from(&problem),
            Error::Timeout(_) => Self {
                advice: Some("it may be overloaded: Rudy tries again"),
                ..Self::local("the authority did not decide in time")
            },
            Error::Json(error) => Self::local(format!("the authority sent an invalid response: {error}")),
            error => Self {
                advice: Some("check that this machine can reach the authority, and its status page"),
                ..Self::local(format!("cannot ask the authority: {error}"))
            },
        }
    }
}

/// The start of the types of errors (RFC 8555 §6.7).
const PREFIX: &str = "urn:ietf:params:acme:error:";

/// Returns what to do about a type of error.
fn advice(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "caa" => "add the authority to the CAA records of the name",
        "connection" => {
            "the name must lead to this machine, and port 80 or 443 must be open to the internet: check the A and AAAA \
             records and the firewall"
        }
        "dns" => "check that the name exists, and that its name servers respond",
        "externalAccountRequired" => "get a key from the authority, and set `external_account` in [acme]",
        "incorrectResponse" | "unauthorized" => {
            "another server has responded: check that the A and AAAA records of the name lead to this machine only"
        }
        "invalidContact" | "unsupportedContact" => "correct `email` in [acme]",
        "invalidProfile" => "set `profile` in [acme] to one that the authority offers, or remove it",
        "rateLimited" => {
            "too many requests for this name or account: Rudy waits as long as the authority wants"
        }
        "rejectedIdentifier" => "the authority signs no certificates for this name",
        "userActionRequired" => "visit the URL to agree to the new terms of service",
        "serverInternal" => "the fault is with the authority: Rudy tries again",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_words_of_the_authority_and_advice() {
        let problem = |text: &str| Failure::from(&serde_json::from_str::<Problem>(text).unwrap());
        let refused = problem(
            r#"{"type": "urn:ietf:params:acme:error:connection", "detail": "192.0.2.7: Connection refused", "status": 400}"#,
        );
        let text = refused.to_string();
        assert!(
            text.starts_with(
                "the authority said: 192.0.2.7: Connection refused (connection); the name must lead"
            ),
            "{text}"
        );
        assert!(!refused.needs_account);
        let gone = problem(r#"{"type": "urn:ietf:params:acme:error:accountDoesNotExist"}"#);
        assert_eq!(gone.to_string(), "the authority said: no details (accountDoesNotExist)");
        assert!(gone.needs_account);
    }
}
