//! The error pages that the server generates.

use bytes::Bytes;
use http::header::{ACCEPT, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_message::semantics::negotiation::choose_media_type;
use rudy_message::semantics::reason::reason_phrase;
use rudy_service::Response;
use serde_json::json;

use crate::request_state::HasResponseState;

/// The form in which a client wants an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For programs such as curl, which accept everything.
    Text,
    /// For browsers.
    Html,
    /// For clients that accept only JSON (RFC 9457).
    Json,
}

impl Form {
    /// Returns the form that the fields of a request prefer.
    pub fn preferred(headers: &HeaderMap) -> Self {
        const OFFERS: [(&str, Form); 4] = [
            ("text/plain", Form::Text),
            ("text/html", Form::Html),
            ("application/problem+json", Form::Json),
            ("application/json", Form::Json),
        ];
        let chosen = choose_media_type(headers.get_all(ACCEPT), &OFFERS.map(|(media_type, _)| media_type));
        OFFERS
            .iter()
            .find(|(media_type, _)| Some(*media_type) == chosen)
            .map_or(Self::Text, |(_, form)| *form)
    }
}

/// Returns an error in the form that `headers`, those of the request, prefer. `explanation` is one or two sentences for the user. Its
/// markup is escaped.
#[must_use]
pub fn error(status: StatusCode, headers: &HeaderMap, explanation: &str) -> Response {
    error_of_form(Form::preferred(headers), status, explanation)
}

/// As [`error`], in a form.
#[must_use]
pub fn error_of_form(form: Form, status: StatusCode, explanation: &str) -> Response {
    let mut response = of_form(form, status, explanation);
    response.state_mut().explanation = Some(explanation.to_owned());
    response
}

/// Returns the page of an error in a form.
#[must_use]
pub fn of_form(form: Form, status: StatusCode, explanation: &str) -> Response {
    let reason = reason_phrase(status).unwrap_or("Error");
    let (media_type, text) = match form {
        Form::Text => {
            let text = format!("{} {reason}\n{explanation}", status.as_str());
            ("text/plain; charset=utf-8", format!("{}\n", text.trim_end()))
        }
        Form::Html => {
            let paragraph = if explanation.is_empty() {
                String::new()
            } else {
                format!("<p>{}</p>\n", escape(explanation))
            };
            let page = include_str!("pages/error.html")
                .replace("{status}", status.as_str())
                .replace("{reason}", reason)
                .replace("<p>{explanation}</p>\n", &paragraph);
            ("text/html; charset=utf-8", page)
        }
        Form::Json => {
            let mut problem = json!({ "title": reason, "status": status.as_u16() });
            if !explanation.is_empty() {
                problem["detail"] = explanation.into();
            }
            ("application/problem+json", format!("{problem}\n"))
        }
    };
    page(status, media_type, text)
}

/// Returns a page for an error, which depends on what the client accepts.
pub fn page(status: StatusCode, media_type: &'static str, text: impl Into<Bytes>) -> Response {
    let mut response = Response::text(status, media_type, text);
    let fields = response.headers_mut();
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Escapes text for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use rudy_service::Body;

    use super::*;

    fn page(accept: &'static str) -> (HeaderValue, String) {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        let response = error(StatusCode::NOT_FOUND, &headers, "No <b> here.");
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let Body::Bytes(bytes) = &response.body else { panic!("a page is in memory") };
        (response.headers()[CONTENT_TYPE].clone(), String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_browser_gets_html_and_a_program_gets_plain_text() {
        let (media_type, text) = page("text/html,application/xhtml+xml,*/*;q=0.8");
        assert_eq!(media_type, "text/html; charset=utf-8");
        assert!(
            text.contains("<title>404 Not Found</title>") && text.contains("No &lt;b&gt; here."),
            "{text}"
        );
        assert_eq!(
            page("*/*"),
            ("text/plain; charset=utf-8".parse().unwrap(), "404 Not Found\nNo <b> here.\n".into())
        );
    }

    #[test]
    fn a_client_that_accepts_only_json_gets_a_problem() {
        for accept in ["application/json", "application/problem+json, text/html;q=0.5"] {
            let (media_type, text) = page(accept);
            assert_eq!(media_type, "application/problem+json", "{accept}");
            assert_eq!(text, "{\"title\":\"Not Found\",\"status\":404,\"detail\":\"No <b> here.\"}\n");
        }
        assert_eq!(page("application/json, text/plain, */*").0, "text/plain; charset=utf-8");
    }

    #[test]
    fn a_page_has_the_reason_phrase_of_the_status_line() {
        let response = error(StatusCode::PAYLOAD_TOO_LARGE, &HeaderMap::new(), "No.");
        let Body::Bytes(bytes) = &response.body else { panic!("a page is in memory") };
        assert_eq!(&bytes[..], b"413 Content Too Large\nNo.\n");
    }
}
