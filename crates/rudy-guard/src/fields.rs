//! Changes to the header fields of requests and responses.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use rudy_message::PreparedHead;
use rudy_message::semantics::field::ChangeFields;
use rudy_pipeline::field_changes::{Action, Change, FieldChange};
use rudy_pipeline::own_fields::{is_named, keep_from_connection, remove_spellings, remove_trailers};
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::routing::template::Template;
use rudy_pipeline::{Call, FilledFields, Flow, Kept, Passage, ResponseStep, Step, compression};
use rudy_service::{Head, Reply, Request, Response};

use super::derived_heads::DerivedHeads;

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    Fixed(HeaderValue),
    Template(Template),
}

/// Changes in the order in which they are made.
#[derive(Debug)]
pub enum Changes {
    /// Without placeholders: the same for each request.
    Fixed(Vec<Change<HeaderValue>>, DerivedHeads),
    /// With placeholders: filled in for each request.
    Templates(Vec<Change<Value>>),
}

impl Changes {
    /// Prepares changes, whose values [`FieldChanges::problems`](rudy_pipeline::field_changes::FieldChanges::problems) has checked.
    pub fn new<'c>(changes: impl IntoIterator<Item = &'c FieldChange>) -> Self {
        let prepare = |change: &FieldChange| {
            let value = |template: &Template| {
                let fixed = template.as_fixed().and_then(|text| HeaderValue::from_str(text).ok());
                fixed.map_or_else(|| Value::Template(template.clone()), Value::Fixed)
            };
            let on_success = change.is_on_success();
            Change { name: change.name.clone(), action: change.action.map(value), on_success }
        };
        let changes: Vec<_> = changes.into_iter().map(prepare).collect();
        let fixed = |change: &Change<Value>| {
            let action = change.action.try_map(|value| match value {
                Value::Fixed(value) => Some(value.clone()),
                Value::Template(_) => None,
            })?;
            Some(Change { name: change.name.clone(), action, on_success: change.on_success })
        };
        match changes.iter().map(fixed).collect() {
            Some(fixed) => Self::Fixed(fixed, DerivedHeads::new()),
            None => Self::Templates(changes),
        }
    }

    fn describe(&self, of: &str) -> Vec<String> {
        let line = |name: &HeaderName, on_success: bool, action: Action<String>| {
            let of = if on_success { format!("{of} (2xx and 304)") } else { of.to_owned() };
            match action {
                Action::Set(values) => format!("{of}: set {name} to {}", values.join(", ")),
                Action::Add(values) => format!("{of}: add {name} {}", values.join(", ")),
                Action::Default(value) => format!("{of}: set {name} to {value} if it is missing"),
                Action::Replace { text, with } => format!("{of}: replace {text} in {name} by {with}"),
                Action::Remove => format!("{of}: remove {name}"),
            }
        };
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        match self {
            Self::Fixed(changes, _) => changes
                .iter()
                .map(|change| line(&change.name, change.on_success, change.action.map(text)))
                .collect(),
            Self::Templates(changes) => {
                let shown = |value: &Value| match value {
                    Value::Fixed(value) => text(value),
                    Value::Template(template) => template.to_string(),
                };
                changes
                    .iter()
                    .map(|change| line(&change.name, change.on_success, change.action.map(shown)))
                    .collect()
            }
        }
    }

    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(..))
    }

    /// Fills in the placeholders. A field whose placeholders have no valid value, such as `{host}` without a host, is not changed.
    fn fill(&self, request: &Request<'_>, call: &Call<'_>) -> Vec<Change<HeaderValue>> {
        let changes = match self {
            Self::Fixed(changes, _) => return changes.clone(),
            Self::Templates(changes) => changes,
        };
        let subject = call.subject(request);
        let fill = |value: &Value| match value {
            Value::Fixed(value) => Some(value.clone()),
            Value::Template(template) => HeaderValue::try_from(template.fill_value(&subject).ok()?).ok(),
        };
        let filled = changes.iter().filter_map(|change| {
            let action = change.action.try_map(fill)?;
            Some(Change { name: change.name.clone(), action, on_success: change.on_success })
        });
        filled.collect()
    }

    /// Changes a response; the head of a prepared one is changed once.
    pub(crate) fn apply(&self, mut response: Response) -> Response {
        let Self::Fixed(changes, derived) = self else { return response };
        if let Head::Prepared(head) = &response.head {
            response.head = Head::Prepared(derived.get(head, |head| {
                let mut fields = head.headers().clone();
                apply_to_response(changes, head.status(), &mut fields);
                PreparedHead::new(head.status(), fields)
            }));
        } else {
            apply_to_response(changes, response.status(), &mut response);
        }
        response
    }
}

/// Changes the fields of a response. `Vary` keeps `Accept-Encoding`: without it, a cache would send a compressed file to clients that
/// cannot decode it.
fn apply_to_response(changes: &[Change<HeaderValue>], status: StatusCode, fields: &mut impl ChangeFields) {
    let varies = compression::fields::varies(fields);
    let is_success = is_success(status);
    apply(changes.iter().filter(|change| is_success || !change.on_success), fields);
    if varies {
        compression::fields::add_vary(fields);
    }
}

/// Whether a response with this status has, or confirms, the content of its URL.
pub(super) fn is_success(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

fn apply<'c>(changes: impl IntoIterator<Item = &'c Change<HeaderValue>>, fields: &mut impl ChangeFields) {
    for Change { name, action, .. } in changes {
        match action {
            Action::Remove => fields.remove(name),
            Action::Set(values) => {
                fields.remove(name);
                for value in values {
                    fields.add(name.clone(), value.clone());
                }
            }
            Action::Default(value) if fields.contains(name) => {}
            Action::Default(value) => fields.add(name.clone(), value.clone()),
            Action::Replace { text, with } => replace_text(name, text, with, fields),
            Action::Add(values) => {
                for value in values {
                    // After an internal redirect, the line may be there already.
                    if !fields.get_all(name).any(|known| known == value.as_bytes()) {
                        fields.add(name.clone(), value.clone());
                    }
                }
            }
        }
    }
}

/// Replaces a text in all lines of a field. They are bytes: not all of them are UTF-8.
fn replace_text(name: &HeaderName, text: &HeaderValue, with: &HeaderValue, fields: &mut impl ChangeFields) {
    let replace = |line: &[u8]| {
        let (mut rest, mut replaced) = (line, Vec::new());
        // An empty text, of a placeholder, is everywhere.
        while !text.is_empty()
            && let Some(at) = memchr::memmem::find(rest, text.as_bytes())
        {
            replaced.extend_from_slice(&rest[..at]);
            replaced.extend_from_slice(with.as_bytes());
            rest = &rest[at + text.len()..];
        }
        replaced.extend_from_slice(rest);
        // Parts of valid fields.
        HeaderValue::try_from(replaced).ok()
    };
    let lines: Vec<_> = fields.get_all(name).filter_map(replace).collect();
    fields.remove(name);
    for line in lines {
        fields.add(name.clone(), line);
    }
}

/// Changes the fields of every response: of the handler, of other steps, and of errors.
#[derive(Debug)]
pub struct ResponseFields {
    /// The changes if the client uses plain HTTP.
    pub changes: Arc<Changes>,
    /// The changes if the client uses HTTPS.
    pub https: Arc<Changes>,
}

impl ResponseFields {
    fn changes(&self, is_https: bool, status: StatusCode) -> &Arc<Changes> {
        if applies_hsts(is_https, status) { &self.https } else { &self.changes }
    }
}

/// Browsers must not note that a host uses HTTPS from the response of another one.
fn applies_hsts(is_https: bool, status: StatusCode) -> bool {
    is_https && status != StatusCode::MISDIRECTED_REQUEST
}

impl Step for ResponseFields {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        if !(self.changes.is_fixed() && self.https.is_fixed()) {
            let [plain, https] = [&self.changes, &self.https].map(|list| list.fill(&passage.request, call));
            passage.kept.filled = Some(FilledFields { plain, https });
        }
        Flow::Continue
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        let shown = if Arc::ptr_eq(&self.changes, &self.https) { "response" } else { "response over HTTPS" };
        self.https.describe(shown)
    }
}

impl ResponseStep for ResponseFields {
    fn response(&self, mut response: Response, kept: &mut Kept<'_>, call: &Call<'_>) -> Reply {
        // The route that an internal redirect led to has changed them.
        if response.state().is_redirected {
            return response.into();
        }
        let is_https = call.context.client.scheme() == http::uri::Scheme::HTTPS;
        match kept.filled.take() {
            None => response = self.changes(is_https, response.status()).apply(response),
            Some(FilledFields { plain, https }) => {
                let changes = if applies_hsts(is_https, response.status()) { &https } else { &plain };
                apply_to_response(changes, response.status(), &mut response);
            }
        }
        response.into()
    }
}

/// Changes the fields of the request for the handler.
#[derive(Debug)]
pub struct RequestFields(pub Changes);

impl Step for RequestFields {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let request = &mut passage.request;
        let changes = self.0.fill(request, call);
        let is_changed = |option: &[u8]| changes.iter().any(|change| is_named(&change.name, option));
        keep_from_connection(is_changed, request);
        for change in &changes {
            if !matches!(change.action, Action::Add(_) | Action::Default(_) | Action::Replace { .. }) {
                remove_spellings(&change.name, request);
            }
        }
        apply(&changes, &mut **request);
        remove_trailers(request);
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        self.0.describe("request")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use rudy_pipeline::field_changes::FieldChanges;

    fn changed(changes: &str, fields: &[(&str, &str)]) -> Vec<String> {
        let changes: FieldChanges = rudy_config::from_text(changes).unwrap();
        let Changes::Fixed(changes, _) = Changes::new(&changes.0) else { panic!("no placeholders") };
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        apply(&changes, &mut map);
        apply(&changes, &mut map);
        let mut lines: Vec<_> =
            map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn fields_are_set_added_removed_and_left_if_there() {
        let changes = "A = 'new'\nB = false\nC = { add = ['2', '3'] }\nD = { default = 'd' }\nE = ['1', '2']";
        assert_eq!(
            changed(changes, &[("a", "old"), ("a", "older"), ("b", "x"), ("c", "1"), ("d", "there")]),
            ["a: new", "c: 1", "c: 2", "c: 3", "d: there", "e: 1", "e: 2"]
        );
        assert_eq!(changed(changes, &[]), ["a: new", "c: 2", "c: 3", "d: d", "e: 1", "e: 2"]);
    }

    #[test]
    fn what_lets_caches_store_is_for_successful_responses() {
        for (change, of_error) in [
            ("Cache-Control = 'max-age=60'", 0),
            ("Cache-Control = { default = 'public' }", 0),
            ("Cache-Control = { add = 'immutable, Max-Age=1' }", 0),
            ("CDN-Cache-Control = 's-maxage=10'", 0),
            ("Cache-Control = 'max-age=0, stale-while-revalidate=60'", 0),
            ("Expires = 'Fri, 27 Nov 2099 10:00:00 GMT'", 0),
            ("Cache-Control = { set = 'max-age=60', always = true }", 1),
            ("Cache-Control = 'no-store'", 1),
            ("Cache-Control = 'max-age=0'", 1),
            ("Cache-Control = 'public, no-cache'", 1),
            ("Expires = '0'", 1),
            ("Expires = 'Thu, 01 Jan 1970 00:00:00 GMT'", 1),
            ("X-A = 'max-age=60'", 1),
        ] {
            let changes: FieldChanges = rudy_config::from_text(change).unwrap();
            let Changes::Fixed(changes, _) = Changes::new(&changes.0) else { panic!("no placeholders") };
            for (status, expected) in
                [(200, 1), (206, 1), (304, 1), (301, of_error), (404, of_error), (502, of_error)]
            {
                let mut fields = HeaderMap::new();
                apply_to_response(&changes, StatusCode::from_u16(status).unwrap(), &mut fields);
                assert_eq!(fields.len(), expected, "{change} {status}");
            }
        }
    }

    #[test]
    fn a_text_in_a_field_is_replaced_wherever_it_is() {
        let changes = "Destination = { replace = 'https://dav.example/', with = 'http://app/' }\n\
                       If = { with = 'http://app/', replace = 'https://dav.example/' }\nNone = { replace = 'a', with = 'b' }";
        let given = [
            ("destination", "https://dav.example/a/b"),
            ("destination", "https://other.example/a"),
            ("if", "<https://dav.example/a> (<x>) <https://dav.example/b> (<y>)"),
        ];
        let expected = [
            "destination: http://app/a/b",
            "destination: https://other.example/a",
            "if: <http://app/a> (<x>) <http://app/b> (<y>)",
        ];
        assert_eq!(changed(changes, &given), expected);
        for (invalid, why) in [
            ("A = { replace = 'a' }", "`with` is missing"),
            ("A = { with = 'a' }", "`replace` is missing"),
            ("A = { replace = '', with = 'a' }", "the text to replace is empty"),
        ] {
            let error = rudy_config::from_text::<FieldChanges>(invalid).unwrap_err();
            assert!(format!("{error:?}").contains(why), "{error:?}");
        }
    }
}
