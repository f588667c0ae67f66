//! The differences between two responses to one request.

mod body;
mod cookies;
mod fields;
mod location;

use serde::Serialize;

pub use location::Side;

use crate::mask::{Values, shortened};
use crate::{Failed, Outcome, Response};

pub(crate) use body::decoded;

/// What differs. The order is that of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A response is missing or incomplete.
    Error,
    /// The status.
    Status,
    /// The target of a redirect.
    Redirect,
    /// The body.
    Body,
    /// A cookie or its attributes.
    Cookie,
    /// Another header field.
    Field,
    /// The coding of the body.
    Compression,
    /// The response to a conditional request.
    Conditional,
    /// The response to a request for a range.
    Range,
    /// The body or the type of a redirect or an error, which the server usually makes itself.
    ErrorPage,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub kind: Kind,
    /// What exactly differs, such as a field. Two differences with one subject have different values at most.
    pub subject: String,
    /// Both values, by which differences are grouped. Empty if each response has others.
    pub values: String,
    /// The values of this response, if they are no part of the group.
    pub detail: String,
}

impl Difference {
    fn new(kind: Kind, subject: impl Into<String>) -> Self {
        Self { kind, subject: subject.into(), values: String::new(), detail: String::new() }
    }

    /// The difference between two values, by which it is grouped.
    fn between(mut self, old: &str, new: &str) -> Self {
        self.values = format!("{} → {}", shortened(old), shortened(new));
        self
    }

    fn with_detail(mut self, detail: String) -> Self {
        self.detail = detail;
        self
    }
}

/// How responses are compared.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The old server.
    pub old: Side,
    /// The new server.
    pub new: Side,
    /// Names of fields that are not compared, in lower case.
    pub ignored: Vec<String>,
    /// Whether the pages of redirects and errors are not compared.
    pub ignores_error_pages: bool,
    /// Whether values of queries and cookies are shown.
    pub values: Values,
}

impl Comparison {
    /// All differences. A difference of the statuses explains those of fields and bodies, which are left out.
    #[must_use]
    pub fn compare(&self, method: &http::Method, old: &Outcome, new: &Outcome) -> Vec<Difference> {
        let (old, new) = match (old, new) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(old), Err(new)) if old.kind == new.kind => return Vec::new(),
            _ => return vec![error(old, new)],
        };
        let mut differences = Vec::new();
        differences.extend(status(old, new));
        differences.extend(self.redirect(old, new));
        if old.status != new.status {
            return differences;
        }
        if !(old.has_own_page() && self.ignores_error_pages) {
            differences.extend(body::compare(old, new));
        }
        differences.extend(cookies::compare(old, new));
        differences.extend(self.fields(method, old, new));
        differences
    }

    /// The differences of responses to requests for a range: the status, what of the body they have, and these bytes.
    #[must_use]
    pub fn compare_ranges(&self, old: &Outcome, new: &Outcome) -> Vec<Difference> {
        let (Ok(old), Ok(new)) = (old, new) else {
            return self.compare_statuses(Kind::Range, "Range", old, new);
        };
        let mut differences: Vec<_> = status(old, new).into_iter().collect();
        if old.status == new.status {
            let [a, b] = [old, new].map(|response| response.field("content-range").unwrap_or_default());
            if a != b {
                let difference = Difference::new(Kind::Range, "Content-Range");
                differences.push(difference.with_detail(format!("{} → {}", shortened(&a), shortened(&b))));
            }
            differences.extend(body::compare(old, new));
        }
        for difference in &mut differences {
            difference.subject = format!("with Range: {}", difference.subject);
            difference.kind = Kind::Range;
        }
        differences
    }

    /// The difference of the statuses of responses to a request with this field.
    #[must_use]
    pub fn compare_statuses(&self, kind: Kind, field: &str, old: &Outcome, new: &Outcome) -> Vec<Difference> {
        let difference = match (old, new) {
            (Ok(old), Ok(new)) => status(old, new),
            (Err(old), Err(new)) if old.kind == new.kind => None,
            _ => Some(error(old, new)),
        };
        let named = |difference: Difference| {
            let subject = format!("with {field}: {}", difference.subject);
            Difference { kind, subject, ..difference }
        };
        difference.map(named).into_iter().collect()
    }
}

fn status(old: &Response, new: &Response) -> Option<Difference> {
    let difference = || Difference::new(Kind::Status, "status");
    (old.status != new.status).then(|| difference().between(&old.status.to_string(), &new.status.to_string()))
}

fn error(old: &Outcome, new: &Outcome) -> Difference {
    let name = |outcome: &Outcome| match outcome {
        Ok(response) => response.status.to_string(),
        Err(Failed { kind, .. }) => format!("error ({kind})"),
    };
    let messages = [("old", old), ("new", new)].map(|(side, outcome)| match outcome {
        Err(Failed { message, .. }) => format!("{side}: {message}"),
        Ok(_) => String::new(),
    });
    let detail = messages.into_iter().filter(|message| !message.is_empty()).collect::<Vec<_>>().join("; ");
    Difference::new(Kind::Error, "no complete response").between(&name(old), &name(new)).with_detail(detail)
}

#[cfg(test)]
mod tests;
