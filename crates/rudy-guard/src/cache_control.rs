//! `Cache-Control` of successful responses, by path, whatever the handler is.

use http::HeaderName;
use http::header::{CACHE_CONTROL, EXPIRES};
use rudy_config::{FieldValue, OneOrMany, Table};
use rudy_message::semantics::field::ChangeFields;
use rudy_message::syntax::members;
use rudy_pipeline::field_changes::{Action, FieldChange};
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::routing::template::Template;
use rudy_pipeline::{Call, Kept, ResponseStep, Step};
use rudy_service::{Reply, Response};

use super::fields::{Changes, is_success};

/// How long caches may keep responses: a table, or the value alone.
#[derive(Debug, Clone, Table)]
#[setting(short(value), what = "a value (\"max-age=3600\") or a table")]
pub struct CacheControlTable {
    /// Pattern of the path, in the notation of `path` of a route. The default is all paths.
    #[setting(example = "*.css")]
    pub pattern: Option<PathPattern>,
    /// Value of `Cache-Control`, such as `max-age=31536000, immutable`.
    #[setting(example = "max-age=31536000, immutable")]
    pub value: FieldValue,
}

/// Replaces `Cache-Control` and `Expires` of successful responses (2xx and 304) by the value of the first rule for the path. A response
/// that is for one client only, or must not be stored, keeps its own.
#[derive(Debug)]
pub struct CacheControl(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: Option<PathPattern>,
    value: String,
    changes: Changes,
}

impl CacheControl {
    /// Prepares rules.
    #[must_use]
    pub fn new(rules: &OneOrMany<CacheControlTable>) -> Self {
        let rule = |table: &CacheControlTable| {
            let value = String::from_utf8_lossy(table.value.0.as_bytes()).into_owned();
            let change =
                |name: HeaderName, action| FieldChange { key: name.to_string(), name, action, always: true };
            let set = change(CACHE_CONTROL, Action::Set(vec![Template::literal(&value)]));
            let changes = Changes::new(&[set, change(EXPIRES, Action::Remove)]);
            Rule { pattern: table.pattern.clone(), value, changes }
        };
        Self(rules.as_slice().iter().map(rule).collect())
    }
}

impl Step for CacheControl {
    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        let rule = |Rule { pattern, value, .. }: &Rule| {
            let of = pattern.as_ref().map_or_else(String::new, |pattern| format!(" of {pattern}"));
            format!("response (2xx and 304){of}: set cache-control to {value}")
        };
        self.0.iter().map(rule).collect()
    }
}

impl ResponseStep for CacheControl {
    fn response(&self, response: Response, _: &mut Kept<'_>, call: &Call<'_>) -> Reply {
        // The route that an internal redirect led to has its own rules.
        if !is_success(response.status()) || response.state().is_redirected || forbids_storing(&response) {
            return response.into();
        }
        let matches =
            |rule: &&Rule| rule.pattern.as_ref().is_none_or(|pattern| pattern.matches(call.path.as_bytes()));
        match self.0.iter().find(matches) {
            Some(rule) => rule.changes.apply(response).into(),
            None => response.into(),
        }
    }
}

/// Whether only a client may keep the response, or no client either.
fn forbids_storing(response: &Response) -> bool {
    let forbids = |line: &[u8]| {
        members(line).any(|directive| {
            let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
            [&b"no-store"[..], b"private", b"no-cache"].iter().any(|known| name.eq_ignore_ascii_case(known))
        })
    };
    response.get_all(&CACHE_CONTROL).any(forbids)
}
