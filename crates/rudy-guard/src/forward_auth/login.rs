//! The login page to which clients are redirected that are not logged in.

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rudy_config::written_as_text;
use rudy_message::semantics::percent::encode;
use rudy_pipeline::pages::Form;
use rudy_service::{Request, Response};

/// A URL or a path, with `{url}` for the URL of the request and `{uri}` for its path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginUrl(String);

/// A request for a page, with what the login page gets to know.
#[derive(Debug)]
pub(super) struct LoginRequest {
    /// The `Location` of the login page.
    location: HeaderValue,
    /// Whether the client can send the request again with its method.
    is_safe: bool,
}

impl LoginUrl {
    /// Returns what a redirect of a request needs; `None` for one that is not for a page: scripts need the 401.
    pub(super) fn request(&self, request: &Request<'_>, url: &[u8], uri: &[u8]) -> Option<LoginRequest> {
        if Form::preferred(request.headers()) != Form::Html {
            return None;
        }
        let encoded = |text| str::from_utf8(text).map(encode).ok();
        let location = self.0.replace("{url}", &encoded(url)?).replace("{uri}", &encoded(uri)?);
        let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
        Some(LoginRequest { location: HeaderValue::try_from(location).ok()?, is_safe })
    }
}

impl LoginRequest {
    /// Returns the redirect, with the cookies of the authorizer.
    pub(super) fn redirect(self, of_authorizer: &HeaderMap) -> Response {
        let status = if self.is_safe { StatusCode::FOUND } else { StatusCode::SEE_OTHER };
        let mut response = Response::new(status);
        let fields = response.headers_mut();
        fields.insert(header::LOCATION, self.location);
        for cookie in of_authorizer.get_all(header::SET_COOKIE) {
            fields.append(header::SET_COOKIE, cookie.clone());
        }
        response
    }
}

impl FromStr for LoginUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_path = text.starts_with('/') && !text.starts_with("//");
        let is_url = ["https://", "http://"].iter().any(|scheme| {
            text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '{']))
        });
        let rest = text.replace("{url}", "").replace("{uri}", "");
        let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}\\\"<>".contains(&byte));
        if (is_path || is_url) && is_plain {
            return Ok(Self(text.to_owned()));
        }
        Err("expected a URL or a path, with {url} or {uri}: \"https://auth.example.org/?rd={url}\""
            .to_owned())
    }
}

impl fmt::Display for LoginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(LoginUrl, "the URL of a login page (\"https://auth.example.org/?rd={url}\")", {
    doc: "The URL or path of a login page. `{url}` is the percent-encoded URL of the request, and `{uri}` its path and query.",
    examples: ["https://auth.example.org/?rd={url}", "/oauth2/sign_in?rd={uri}"],
});

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

    #[test]
    fn a_login_page_gets_the_url_of_the_request() {
        let location = |login: &str, accept: &'static str| {
            let login: LoginUrl = login.parse().unwrap();
            let mut request = Request::default();
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
            let login = login.request(&request, b"https://a.org/b?c=d&e=%20", b"/b?c=d&e=%20")?;
            Some(login.location.to_str().unwrap().to_owned())
        };
        for (login, expected) in [
            ("https://auth.org/?rd={url}", "https://auth.org/?rd=https%3A//a.org/b%3Fc%3Dd%26e%3D%2520"),
            ("/oauth2/start?rd={uri}&x=y", "/oauth2/start?rd=/b%3Fc%3Dd%26e%3D%2520&x=y"),
            ("/login", "/login"),
        ] {
            assert_eq!(location(login, BROWSER).as_deref(), Some(expected));
            for accept in ["*/*", "application/json", "text/plain, text/html;q=0.5"] {
                assert_eq!(location(login, accept), None, "{accept}");
            }
        }
        for text in [
            "",
            "login",
            "//evil.org/",
            "https://",
            "https:///a",
            "{url}",
            "https://{url}",
            "/a{b}",
            "/a b",
            "ftp://a/",
        ] {
            assert!(text.parse::<LoginUrl>().is_err(), "{text}");
        }
    }
}
