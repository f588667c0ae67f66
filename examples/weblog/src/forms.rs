//! What readers and the author send: forms, and only those of the pages of this weblog.
//!
//! The pages are in caches, so a form has no token in it. Browsers name the origin of each POST instead (`Origin`, and `Sec-Fetch-Site` if
//! they are newer), and the cookie of the author is not sent along from other sites (`SameSite`).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use rudy_fastcgi_app::{Body, BodyError};

use crate::comments::Change;

/// The largest form in bytes: a comment of [`TEXT_MAX`] characters, each of which may need 12 bytes.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// The longest name of a reader, in characters.
const NAME_MAX: usize = 60;

/// The longest comment, in characters.
const TEXT_MAX: usize = 4000;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a form is rejected, for the person who sent it.
pub(crate) type Rejection = (StatusCode, String);

/// Checks that a page of this weblog has sent a form. `origin` is the address of the weblog: scheme, host, and port.
pub(crate) fn check_origin(fields: &HeaderMap, origin: &str) -> Result<(), Rejection> {
    let all_are = |name, value| fields.get_all(name).iter().all(|other: &HeaderValue| other == value);
    let is_own = fields.contains_key(header::ORIGIN)
        && all_are(header::ORIGIN, origin)
        && all_are(SEC_FETCH_SITE, "same-origin");
    let line =
        format!("The form is not of this site: its `Origin` must be {origin} (`url` in weblog.toml).\n");
    if is_own { Ok(()) } else { Err((StatusCode::FORBIDDEN, line)) }
}

/// The cookie of the author's browser. Other sites cannot make the browser send it.
pub(crate) fn cookie(session: &str, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("author={session}; Path=/admin; HttpOnly; SameSite=Strict{secure}")
}

/// Checks that a request has the cookie.
pub(crate) fn check_cookie(fields: &HeaderMap, session: &str) -> Result<(), Rejection> {
    let cookie = format!("author={session}");
    let cookies = fields.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    if cookies.flat_map(|value| value.split(';')).any(|other| other.trim() == cookie) {
        return Ok(());
    }
    Err((StatusCode::FORBIDDEN, "The page is older than this process: load /admin again.\n".into()))
}

/// Reads a comment on a post.
pub(crate) async fn comment(post: &str, request: Request<Body>) -> Result<Change, Rejection> {
    let is_form = request.headers().get(header::CONTENT_TYPE).is_some_and(|value| {
        value.as_bytes().split(|byte| *byte == b';').next() == Some(b"application/x-www-form-urlencoded")
    });
    if !is_form {
        return Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Send a form (application/x-www-form-urlencoded).\n".into(),
        ));
    }
    let form = request.into_body().collect(FORM_BYTES_MAX).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, format!("{error}\n")),
        _ => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    })?;
    parse(post, &form).map_err(|line| (StatusCode::UNPROCESSABLE_ENTITY, line + "\n"))
}

fn parse(post: &str, form: &[u8]) -> Result<Change, String> {
    let field = |name: &str, max: usize, may_have: &[char]| {
        let (_, value) = form_urlencoded::parse(form)
            .find(|(key, _)| key == name)
            .ok_or_else(|| format!("The form has no field `{name}`."))?;
        let value = value.replace("\r\n", "\n").trim().to_owned();
        let length = value.chars().count();
        if length == 0 || length > max {
            return Err(format!("The field `{name}` has {length} characters; it needs 1 to {max}."));
        }
        if let Some(other) = value.chars().find(|c| c.is_control() && !may_have.contains(c)) {
            return Err(format!("The field `{name}` has the character {other:?}, which is no text."));
        }
        Ok(value)
    };
    let name = field("name", NAME_MAX, &[])?;
    Ok(Change::Add { post: post.to_owned(), name, text: field("text", TEXT_MAX, &['\n', '\t'])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "https://notes.example";

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn only_forms_of_the_own_pages_are_accepted() {
        let (origin, site) = ("origin", "sec-fetch-site");
        for own in [&[(origin, ORIGIN)][..], &[(origin, ORIGIN), (site, "same-origin")]] {
            assert!(check_origin(&fields(own), ORIGIN).is_ok(), "{own:?}");
        }
        for other in [
            &[][..],
            &[(origin, "null")],
            &[(origin, "")],
            &[(origin, "https://evil.example")],
            &[(origin, "http://notes.example")],
            &[(origin, "https://notes.example:8443")],
            &[(origin, "https://notes.example.evil.example")],
            &[(origin, "https://notes.example/")],
            &[(origin, "https://notes.example https://evil.example")],
            &[(origin, ORIGIN), (origin, "https://evil.example")],
            &[(origin, "https://evil.example"), (origin, ORIGIN)],
            &[(site, "same-origin")],
            &[(origin, ORIGIN), (site, "cross-site")],
            &[(origin, ORIGIN), (site, "same-site")],
            &[(origin, ORIGIN), (site, "none")],
            &[(origin, ORIGIN), (site, "Same-Origin")],
            &[(origin, ORIGIN), (site, "same-origin, cross-site")],
            &[(origin, ORIGIN), (site, "same-origin"), (site, "cross-site")],
        ] {
            assert!(check_origin(&fields(other), ORIGIN).is_err(), "{other:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        for own in ["author=12", "a=b; author=12", "author=1; author=12"] {
            assert!(check_cookie(&fields(&[("cookie", own)]), "12").is_ok(), "{own}");
        }
        for other in ["", "author=", "author=1", "author=123", "xauthor=12", "author = 12"] {
            assert!(check_cookie(&fields(&[("cookie", other)]), "12").is_err(), "{other}");
        }
        assert_eq!(cookie("12", true), "author=12; Path=/admin; HttpOnly; SameSite=Strict; Secure");
    }

    #[test]
    fn a_comment_has_a_name_and_a_text_of_limited_length() {
        let Ok(Change::Add { name, text, .. }) = parse("p", b"text=+a%0D%0Ab%3Cb%3E+&name=Ann+%C3%84") else {
            panic!("the form is valid")
        };
        assert_eq!((name.as_str(), text.as_str()), ("Ann Ä", "a\nb<b>"));
        let long = format!("name=a&text={}", "a".repeat(TEXT_MAX + 1));
        for (form, expected) in [
            ("name=a", "no field `text`"),
            ("text=a", "no field `name`"),
            ("name=+&text=a", "`name` has 0 characters"),
            (&long, "has 4001 characters; it needs 1 to 4000"),
            ("name=a%0Ab&text=a", "the character '\\n'"),
            ("name=a&text=a%00b", "the character '\\0'"),
        ] {
            let error = parse("p", form.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
