//! Conversion of CGI parameters (RFC 3875 §4.1) to a request of the `http` crate.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use rudy_fastcgi::Excerpt;
use rudy_fastcgi::pairs::Params;
use rudy_message::syntax::parse_digits;

/// A missing or invalid parameter, usually caused by the configuration of the web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadParam {
    #[error("the web server did not set {0}: nginx needs \"include fastcgi_params;\"")]
    Missing(&'static str),
    #[error("the web server set {0}={1}, which is invalid")]
    Invalid(&'static str, Excerpt),
}

/// Returns the request without its body, and the length of the body.
pub(super) fn from_params(params: &Params) -> Result<(Request<()>, Option<u64>), BadParam> {
    let method = params.get("REQUEST_METHOD").ok_or(BadParam::Missing("REQUEST_METHOD"))?;
    let length = match params.get("CONTENT_LENGTH") {
        // Section 6.2 and RFC 3875 §4.1.2: empty means no body.
        None | Some(b"") => None,
        Some(digits) => Some(parse_digits(digits).ok_or_else(|| invalid("CONTENT_LENGTH", digits))?),
    };
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).map_err(|_| invalid("REQUEST_METHOD", method))?;
    *request.uri_mut() = target(params)?;
    *request.version_mut() = match params.get("SERVER_PROTOCOL") {
        Some(b"HTTP/1.0") => Version::HTTP_10,
        Some(b"HTTP/2" | b"HTTP/2.0") => Version::HTTP_2,
        Some(b"HTTP/3" | b"HTTP/3.0") => Version::HTTP_3,
        _ => Version::HTTP_11,
    };
    *request.headers_mut() = fields(params);
    Ok((request, length))
}

/// Returns the request target. Web servers pass `REQUEST_URI`, the original target; RFC 3875 defines only its parts.
fn target(params: &Params) -> Result<Uri, BadParam> {
    let name = "REQUEST_URI";
    if let Some(target) = params.get(name).filter(|target| !target.is_empty()) {
        return uri(target).ok_or_else(|| invalid(name, target));
    }
    let mut target = Vec::new();
    for name in ["SCRIPT_NAME", "PATH_INFO"] {
        // They are percent-decoded (RFC 3875 §4.1.5).
        for byte in params.get(name).unwrap_or_default() {
            match byte {
                b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'Z' | b'_' | b'a'..=b'z' | b'~' => {
                    target.push(*byte);
                }
                _ => target.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
    }
    if target.is_empty() {
        target.push(b'/');
    }
    if let Some(query) = params.get("QUERY_STRING").filter(|query| !query.is_empty()) {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    uri(&target).ok_or_else(|| invalid("SCRIPT_NAME with PATH_INFO and QUERY_STRING", &target))
}

/// Parses a target. Web servers pass bytes that [`Uri`] rejects, such as `<` in a path. They are percent-encoded here, but
/// not in the parameters.
fn uri(target: &[u8]) -> Option<Uri> {
    let escaped = || {
        let mut escaped = Vec::with_capacity(target.len() + 32);
        for byte in target {
            match byte {
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                    escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
                }
                _ => escaped.push(*byte),
            }
        }
        escaped
    };
    Uri::try_from(target).or_else(|_| Uri::try_from(escaped())).ok()
}

/// Returns the header fields: `HTTP_ACCEPT_LANGUAGE` and similar parameters (RFC 3875 §4.1.18), `CONTENT_TYPE` and
/// `CONTENT_LENGTH`. Invalid fields are omitted.
fn fields(params: &Params) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let mut name_bytes = Vec::new();
    for (name, value) in params {
        let name = match name {
            b"CONTENT_TYPE" => Some(header::CONTENT_TYPE),
            b"CONTENT_LENGTH" => Some(header::CONTENT_LENGTH),
            [b'H', b'T', b'T', b'P', b'_', rest @ ..] => {
                name_bytes.clear();
                name_bytes.extend(rest.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }));
                HeaderName::from_bytes(&name_bytes).ok()
            }
            _ => None,
        };
        let is_set = |name: &HeaderName| {
            // nginx passes empty values if the request has no such field.
            !(value.is_empty() && [header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name))
        };
        if let (Some(name), Ok(value)) = (name.filter(is_set), HeaderValue::from_bytes(value)) {
            // Insert, because some servers pass both `CONTENT_LENGTH` and `HTTP_CONTENT_LENGTH`.
            fields.insert(name, value);
        }
    }
    fields
}

fn invalid(name: &'static str, value: &[u8]) -> BadParam {
    BadParam::Invalid(name, Excerpt::of(value))
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BytesMut};
    use rudy_fastcgi::application::{ApplicationConnection, Event};
    use rudy_fastcgi::pairs::ParamsEncoder;
    use rudy_fastcgi::record::encode_begin;
    use rudy_fastcgi::{Limits, RequestId, Role};

    use super::*;

    fn params(pairs: &[(&str, &str)]) -> Params {
        let mut bytes = BytesMut::new();
        encode_begin(RequestId::MIN, Role::Responder, false, &mut bytes);
        let mut encoder = ParamsEncoder::new(RequestId::MIN, &mut bytes);
        for (name, value) in pairs {
            encoder.push(name.as_bytes(), value.as_bytes());
        }
        encoder.finish();
        let mut connection = ApplicationConnection::new();
        loop {
            let (used, event) = connection.decode(&bytes, &Limits::default()).expect("the records are valid");
            match event {
                Event::Params { params, .. } => return params,
                event => assert!(matches!(event, Event::Begin { .. }), "{event:?}"),
            }
            bytes.advance(used);
        }
    }

    #[test]
    fn a_request_is_built_from_the_parameters_of_a_web_server() {
        let params = params(&[
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/a%20b?c=d"),
            ("SCRIPT_NAME", "/other"),
            ("SERVER_PROTOCOL", "HTTP/1.0"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "5"),
            ("HTTP_CONTENT_LENGTH", "5"),
            ("HTTP_ACCEPT_LANGUAGE", "de"),
            ("HTTP_BAD NAME", "x"),
            ("REMOTE_ADDR", "::1"),
        ]);
        let (request, length) = from_params(&params).expect("the parameters are valid");
        assert_eq!((request.method(), request.version(), length), (&Method::POST, Version::HTTP_10, Some(5)));
        assert_eq!(request.uri(), "/a%20b?c=d");
        let fields =
            ["content-type", "content-length", "accept-language"].map(|name| &request.headers()[name]);
        assert_eq!(fields, ["text/plain", "5", "de"]);
        assert_eq!(request.headers().len(), 3);
    }

    #[test]
    fn invalid_bytes_in_a_target_are_percent_encoded() {
        let params = params(&[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/<%3c>?\"\u{e4}\"")]);
        let (request, _) = from_params(&params).expect("web servers pass such targets");
        assert_eq!(request.uri(), "/%3C%3c%3E?%22%C3%A4%22");
        assert_eq!(params.get("REQUEST_URI"), Some("/<%3c>?\"\u{e4}\"".as_bytes()));
    }

    #[test]
    fn a_missing_target_is_built_from_its_parts() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs = [&[("REQUEST_METHOD", "GET")], pairs].concat();
            from_params(&params(&pairs)).map(|(request, _)| request.uri().to_string())
        };
        assert_eq!(
            with(&[("SCRIPT_NAME", "/a b"), ("PATH_INFO", "/c?ä")]).as_deref(),
            Ok("/a%20b/c%3F%C3%A4")
        );
        assert_eq!(with(&[("SCRIPT_NAME", "/a"), ("QUERY_STRING", "b=c%20d")]).as_deref(), Ok("/a?b=c%20d"));
        assert_eq!(with(&[("QUERY_STRING", "")]).as_deref(), Ok("/"));
    }

    #[test]
    fn an_empty_length_or_type_counts_as_missing() {
        let params = params(&[("REQUEST_METHOD", "GET"), ("CONTENT_LENGTH", ""), ("CONTENT_TYPE", "")]);
        let (request, length) = from_params(&params).expect("the parameters are valid");
        assert!(length.is_none() && request.headers().is_empty());
    }

    #[test]
    fn an_invalid_parameter_is_shown_in_the_error() {
        let error = |pairs: &[(&str, &str)]| {
            from_params(&params(pairs)).expect_err("the request is invalid").to_string()
        };
        assert!(error(&[]).contains("did not set REQUEST_METHOD"));
        assert!(error(&[("REQUEST_METHOD", "G E")]).contains("REQUEST_METHOD=\"G E\""));
        assert!(
            error(&[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/a b")]).contains("REQUEST_URI=\"/a b\"")
        );
        assert!(
            error(&[("REQUEST_METHOD", "GET"), ("CONTENT_LENGTH", "+5")]).contains("CONTENT_LENGTH=\"+5\"")
        );
    }
}
