//! The error pages that the server generates.

use http::header::{ACCEPT, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::semantics::negotiation::choose_media_type;
use rudy_http::semantics::reason::reason_phrase;
use rudy_net::{Body, Response};

/// Returns an error as HTML if `headers`, those of the request, prefer it, and as plain text otherwise.
/// `explanation` is one or two sentences for the user. Its markup is escaped.
#[must_use]
pub fn error(status: StatusCode, headers: &HeaderMap, explanation: &str) -> Response {
    let reason = reason_phrase(status).unwrap_or("Error");
    let offers = ["text/plain", "text/html"];
    let html = choose_media_type(headers.get_all(ACCEPT), &offers) == Some(offers[1]);
    let (media_type, text) = if html {
        let page = include_str!("pages/error.html")
            .replace("{status}", status.as_str())
            .replace("{reason}", reason)
            .replace("{explanation}", &escape(explanation));
        ("text/html; charset=utf-8", page)
    } else {
        ("text/plain; charset=utf-8", format!("{} {reason}\n{explanation}\n", status.as_str()))
    };
    let mut response = Response::new(status);
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(VARY, HeaderValue::from_static("Accept"));
    response.body = Body::Bytes(text.into());
    response
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
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
    fn a_page_has_the_reason_phrase_of_the_status_line() {
        let response = error(StatusCode::PAYLOAD_TOO_LARGE, &HeaderMap::new(), "No.");
        let Body::Bytes(bytes) = &response.body else { panic!("a page is in memory") };
        assert_eq!(&bytes[..], b"413 Content Too Large\nNo.\n");
    }
}
