//! The forms in which a repository offers the same metadata: HTML and JSON of a Python index, full and short documents of npm.
//!
//! Clients spell what they accept in many ways. The repository receives one of three spellings, and the responses are stored for each of
//! them, also if the repository omits `Vary`.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use rudy_message::semantics::negotiation::media_type_weights;
use rudy_service::Response;

use super::Preset;

/// Two forms, each with its media types, the first of which is the name of the form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forms {
    /// What clients get that accept everything.
    usual: &'static [&'static str],
    other: &'static [&'static str],
    /// The values of `Accept` for clients that prefer the usual form, that prefer the other one, as npm and pip send it, and that accept
    /// only the other one.
    values: [&'static str; 3],
}

const NPM: Forms = Forms {
    usual: &["application/json"],
    other: &["application/vnd.npm.install-v1+json"],
    values: [
        "application/json, */*;q=0.1",
        "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*",
        "application/vnd.npm.install-v1+json",
    ],
};

/// `text/html` is another name of the form in HTML (PEP 691).
const PYPI: Forms = Forms {
    usual: &["text/html", "application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.latest+html"],
    other: &["application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.latest+json"],
    values: [
        "text/html, application/vnd.pypi.simple.v1+html;q=0.9, */*;q=0.1",
        "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01",
        "application/vnd.pypi.simple.v1+json",
    ],
};

impl Forms {
    /// Returns the forms of the metadata in a repository of this kind. `None` if there is one form.
    pub(super) fn of(preset: Preset) -> Option<Self> {
        match preset {
            Preset::Npm => Some(NPM),
            Preset::Pypi => Some(PYPI),
            Preset::Maven | Preset::Crates | Preset::Apt | Preset::Go => None,
        }
    }

    /// Returns the `Accept` for the repository. `None` if the client accepts neither form, so that only its own value leads to what it
    /// wants.
    pub(super) fn accept(&self, fields: &HeaderMap) -> Option<HeaderValue> {
        let [prefers_usual, prefers_other, only_other] = self.values;
        let value = match (weight(fields, self.usual), weight(fields, self.other)) {
            _ if !fields.contains_key(ACCEPT) => prefers_usual,
            (0, 0) => return None,
            (0, _) => only_other,
            (usual, other) if other > usual => prefers_other,
            _ => prefers_usual,
        };
        Some(HeaderValue::from_static(value))
    }

    /// Returns the values of `Accept` with which other clients have requested the same metadata.
    pub(super) fn others(&self, accept: Option<&HeaderValue>) -> impl Iterator<Item = HeaderValue> {
        let values = self.values.into_iter().map(HeaderValue::from_static);
        values.filter(move |value| Some(value) != accept)
    }

    /// Whether a client accepts the media type of a response.
    pub(super) fn suits(&self, fields: &HeaderMap, response: &Response) -> bool {
        let essence = essence(response.headers());
        let form = [self.usual, self.other].into_iter().find(|form| form.contains(&essence.as_str()));
        !fields.contains_key(ACCEPT) || weight(fields, form.unwrap_or(&[&essence])) > 0
    }
}

/// Returns the media type of a response without its parameters, in lower case.
pub(super) fn essence(fields: &HeaderMap) -> String {
    let media_type = fields.get(CONTENT_TYPE).map_or(b"".as_slice(), HeaderValue::as_bytes);
    let media_type = String::from_utf8_lossy(media_type).to_ascii_lowercase();
    media_type.split(';').next().unwrap_or_default().trim().to_owned()
}

/// Returns the weight of a form for a client: the highest one of its media types. Further names count only if the client uses them: in
/// `X, text/html;q=0.8, */*`, the form in HTML has the weight 0.8.
fn weight(fields: &HeaderMap, form: &[&str]) -> u16 {
    let is_named = |name: &str| {
        let lines = fields.get_all(ACCEPT).iter().map(|line| line.as_bytes().to_ascii_lowercase());
        lines.into_iter().any(|line| memchr::memmem::find(&line, name.as_bytes()).is_some())
    };
    let weights = form.iter().zip(media_type_weights(fields.get_all(ACCEPT), form));
    let weights = weights.filter(|(name, _)| form.first() == Some(*name) || is_named(name));
    weights.map(|(_, weight)| weight).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn fields(accept: &str) -> HeaderMap {
        let value = HeaderValue::try_from(accept).unwrap();
        if accept.is_empty() { HeaderMap::new() } else { HeaderMap::from_iter([(ACCEPT, value)]) }
    }

    #[test]
    fn every_spelling_of_a_preference_is_one_request() {
        for (forms, accept, expected) in [
            (NPM, "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*", Some(1)),
            (NPM, "application/vnd.npm.install-v1+json,application/json;q=0.9", Some(1)),
            (NPM, "Application/vnd.npm.install-v1+JSON", Some(2)),
            (NPM, "application/json", Some(0)),
            (NPM, "application/json, text/plain, */*", Some(0)),
            (NPM, "*/*", Some(0)),
            (NPM, "", Some(0)),
            (NPM, "text/plain", None),
            (
                PYPI,
                "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01",
                Some(1),
            ),
            (PYPI, "application/vnd.pypi.simple.latest+json;q=0.4, text/html;q=0.3", Some(1)),
            (PYPI, "application/vnd.pypi.simple.v1+json; q=1.0, text/html; q=0.8, */*", Some(1)),
            (
                PYPI,
                "text/html;q=0.1, APPLICATION/vnd.pypi.simple.v1+html, application/vnd.pypi.simple.v1+json;q=0.5",
                Some(0),
            ),
            (PYPI, "application/vnd.pypi.simple.v1+json", Some(2)),
            (PYPI, "text/html", Some(0)),
            (PYPI, "text/html,application/xhtml+xml,*/*;q=0.8", Some(0)),
            (PYPI, "application/vnd.pypi.simple.v1+html", Some(0)),
            (PYPI, "application/json", None),
            (PYPI, "", Some(0)),
        ] {
            let value = forms.accept(&fields(accept));
            assert_eq!(
                value,
                expected.map(|index: usize| HeaderValue::from_static(forms.values[index])),
                "{accept}"
            );
            // The repository understands the preference as the client means it.
            let again = value.clone().map(|value| forms.accept(&HeaderMap::from_iter([(ACCEPT, value)])));
            assert_eq!(again, value.clone().map(Some), "{accept}");
            assert_eq!(forms.others(value.as_ref()).count(), if value.is_some() { 2 } else { 3 });
        }
    }

    #[test]
    fn another_form_suits_a_client_that_accepts_it() {
        for (forms, accept, media_type, expected) in [
            (PYPI, "application/vnd.pypi.simple.v1+json, text/html;q=0.1", "text/html; charset=utf-8", true),
            (PYPI, "application/vnd.pypi.simple.v1+json", "text/html", false),
            (PYPI, "text/html", "application/vnd.pypi.simple.v1+html", true),
            (PYPI, "text/html", "application/vnd.pypi.simple.v1+json", false),
            (PYPI, "text/html, */*;q=0.1", "application/vnd.pypi.simple.v1+json", true),
            (PYPI, "", "application/vnd.pypi.simple.v1+json", true),
            (NPM, "application/json", "application/vnd.npm.install-v1+json", false),
            (NPM, "application/vnd.npm.install-v1+json, application/json;q=0.8", "Application/JSON", true),
            (NPM, "text/plain", "text/plain", true),
            (NPM, "application/json", "text/plain", false),
        ] {
            let mut response = Response::new(StatusCode::OK);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            assert_eq!(forms.suits(&fields(accept), &response), expected, "{accept}: {media_type}");
        }
    }
}
