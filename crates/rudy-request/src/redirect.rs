//! The target and the method of a redirect (RFC 9110 §15.4).

use http::Method;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, EXPECT, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};

use crate::{Error, Template, Url};

/// Whether a status is that of a redirect. 300 needs a choice by the user, 304 has no target.
#[must_use]
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The request to the target of a redirect.
pub fn follow(
    status: u16,
    location: &[u8],
    url: &Url,
    template: &Template,
) -> Result<(Url, Template), Error> {
    let next = url.join(&String::from_utf8_lossy(location)).map_err(Error::Location)?;
    let mut template = template.clone();
    if becomes_get(status, &template.method) {
        template.method = Method::GET;
        template.body = None;
        // Remove fields that describe the omitted content (RFC 9110 §15.4, step 4.4).
        for name in [
            CONTENT_ENCODING,
            CONTENT_LANGUAGE,
            CONTENT_LENGTH,
            CONTENT_LOCATION,
            CONTENT_RANGE,
            CONTENT_TYPE,
            TRANSFER_ENCODING,
            EXPECT,
        ] {
            template.fields.remove(name);
        }
    }
    if !url.same_origin(&next) {
        // Credentials are only for the original server (RFC 9110 §15.4, step 4.2).
        for name in [AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION] {
            template.fields.remove(name);
        }
    }
    Ok((next, template))
}

/// 303 requires GET. After 301 and 302, clients change POST to GET, which RFC 9110 §15.4.2 allows.
fn becomes_get(status: u16, method: &Method) -> bool {
    match status {
        303 => *method != Method::HEAD,
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn template(method: Method) -> Template {
        let mut template = Template { method, body: Some(Bytes::from_static(b"x")), ..Template::default() };
        for name in [AUTHORIZATION, COOKIE, CONTENT_TYPE, HOST] {
            template.fields.insert(name, "a".parse().unwrap());
        }
        template
    }

    #[test]
    fn the_method_is_rewritten_as_in_rfc_9110_15_4() {
        let url: Url = "http://a/b".parse().unwrap();
        for (status, method, expected, keeps_body) in [
            (301, Method::POST, Method::GET, false),
            (302, Method::POST, Method::GET, false),
            (301, Method::PUT, Method::PUT, true),
            (303, Method::PUT, Method::GET, false),
            (303, Method::HEAD, Method::HEAD, true),
            (307, Method::POST, Method::POST, true),
            (308, Method::POST, Method::POST, true),
        ] {
            let (_, next) = follow(status, b"/c", &url, &template(method)).unwrap();
            assert_eq!((next.method, next.body.is_some()), (expected, keeps_body), "{status}");
            assert_eq!(next.fields.contains_key(CONTENT_TYPE), keeps_body, "{status}");
            assert!(next.fields.contains_key(AUTHORIZATION), "the origin is the same");
        }
    }

    #[test]
    fn credentials_are_removed_for_other_origins() {
        let url: Url = "https://a/b".parse().unwrap();
        for (location, are_kept) in [
            ("/c", true),
            ("https://a:443/c", true),
            ("http://a/c", false),
            ("https://b/c", false),
            ("https://a:1/", false),
        ] {
            let (_, next) = follow(307, location.as_bytes(), &url, &template(Method::GET)).unwrap();
            for name in [AUTHORIZATION, COOKIE, HOST] {
                assert_eq!(next.fields.contains_key(&name), are_kept, "{location} {name}");
            }
            assert!(next.fields.contains_key(CONTENT_TYPE), "the content is sent, so its type is too");
        }
    }

    #[test]
    fn a_redirect_to_an_invalid_url_is_an_error() {
        let url: Url = "https://a/b".parse().unwrap();
        assert!(matches!(follow(302, b"ftp://a/", &url, &Template::default()), Err(Error::Location(_))));
    }
}
