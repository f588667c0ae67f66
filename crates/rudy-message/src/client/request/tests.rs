//! Tests of the encoder of request heads.

use http::{HeaderName, HeaderValue};

use super::*;

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    map
}

fn encode(
    request: (&str, &str, Version),
    fields: &[(&str, &str)],
    body: BodyLength,
) -> Result<String, RequestError> {
    let (method, target, version) = request;
    let method = Method::try_from(method).unwrap();
    let mut out = BytesMut::new();
    let encoded = RequestHead { method: &method, target, version, fields: (&map(fields)).into(), body }
        .encode(&mut out);
    if encoded.is_err() {
        assert!(out.is_empty(), "nothing is appended");
    }
    encoded.map(|()| String::from_utf8(out.to_vec()).unwrap())
}

const HOST: (&str, &str) = ("host", "a");
const NONE: BodyLength = BodyLength::Known(0);

#[test]
fn host_is_the_first_field() {
    let fields = [("Accept", "*/*"), ("X-A", "1"), ("Host", "a:80"), ("X-A", "2")];
    assert_eq!(
        encode(("GET", "/b?c", Version::HTTP_11), &fields, NONE).unwrap(),
        "GET /b?c HTTP/1.1\r\nhost: a:80\r\naccept: */*\r\nx-a: 1\r\nx-a: 2\r\n\r\n"
    );
    assert_eq!(encode(("GET", "/", Version::HTTP_10), &[], NONE).unwrap(), "GET / HTTP/1.0\r\n\r\n");
}

#[test]
fn invalid_hosts_are_rejected() {
    let host = |fields: &[(&str, &str)]| encode(("GET", "/", Version::HTTP_11), fields, NONE).map(drop);
    assert_eq!(host(&[]), Err(RequestError::MissingHost));
    assert_eq!(host(&[HOST, HOST]), Err(RequestError::RepeatedHost));
    for wrong in ["a b", "u@a", "a/b", "a:x", "[::1", "a:65536", "", ":80"] {
        assert_eq!(host(&[("host", wrong)]), Err(RequestError::BadHost(wrong.to_owned())));
    }
    for (method, target) in [("OPTIONS", "*"), ("GET", "http://a/")] {
        let sent = encode((method, target, Version::HTTP_11), &[("host", "")], NONE).map(drop);
        assert_eq!(sent, Ok(()), "{target} needs no Host");
    }
}

#[test]
fn the_encoder_writes_the_framing() {
    let end = |method, fields: &[(&str, &str)], body| {
        let fields: Vec<_> = [HOST].iter().chain(fields).copied().collect();
        let head = encode((method, "/", Version::HTTP_11), &fields, body)?;
        Ok(head.split_once("host: a\r\n").unwrap().1.replace("\r\n", ";"))
    };
    assert_eq!(end("GET", &[], NONE).unwrap(), ";");
    assert_eq!(end("POST", &[], NONE).unwrap(), "content-length: 0;;", "RFC 9110 §8.6");
    assert_eq!(end("GET", &[], BodyLength::Known(3)).unwrap(), "content-length: 3;;");
    assert_eq!(end("PUT", &[], BodyLength::Chunked).unwrap(), "transfer-encoding: chunked;;");
    for (fields, body) in [
        (&[("content-length", "3")][..], BodyLength::Known(3)),
        (&[("content-length", "3"), ("content-length", "3")], BodyLength::Known(3)),
        // RFC 9110 §8.6: 1*DIGIT.
        (&[("content-length", "003")], BodyLength::Known(3)),
    ] {
        assert_eq!(end("PUT", fields, body).unwrap(), "content-length: 3;;");
    }
    let chunked = end("PUT", &[("transfer-encoding", "Chunked")], BodyLength::Chunked);
    assert_eq!(chunked.unwrap(), "transfer-encoding: chunked;;");
    for (fields, body) in [
        (&[("content-length", "4")][..], BodyLength::Known(3)),
        (&[("content-length", "+3")], BodyLength::Known(3)),
        (&[("content-length", "3, 3")], BodyLength::Known(3)),
        (&[("content-length", "3"), ("content-length", "4")], BodyLength::Known(3)),
        (&[("content-length", "3")], NONE),
        (&[("content-length", "3")], BodyLength::Chunked),
        (&[("transfer-encoding", "chunked")], BodyLength::Known(3)),
        (&[("transfer-encoding", "gzip, chunked")], BodyLength::Chunked),
        (&[("transfer-encoding", "chunked"), ("content-length", "3")], BodyLength::Chunked),
    ] {
        assert_eq!(end("PUT", fields, body), Err(RequestError::ConflictingLength(body)), "{fields:?}");
    }
}

#[test]
fn features_of_other_versions_are_rejected() {
    let put = |version, fields: &[(&str, &str)], body| encode(("PUT", "/", version), fields, body).map(drop);
    assert_eq!(put(Version::HTTP_10, &[], BodyLength::Chunked), Err(RequestError::ChunkedInHttp10));
    assert_eq!(put(Version::HTTP_2, &[HOST], NONE), Err(RequestError::UnsupportedVersion(Version::HTTP_2)));
    let expect = ("expect", "100-continue");
    assert_eq!(put(Version::HTTP_11, &[HOST, expect], NONE), Err(RequestError::ExpectWithoutContent));
    assert_eq!(put(Version::HTTP_11, &[HOST, expect], BodyLength::Known(1)), Ok(()));
}

#[test]
fn targets_have_one_of_four_forms_and_cannot_inject_fields() {
    let send = |method, target| encode((method, target, Version::HTTP_11), &[HOST], NONE).map(drop);
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/a%20b?c=d&e"),
        ("GET", "http://a/b"),
        ("OPTIONS", "*"),
        ("CONNECT", "a:443"),
        ("PURGE", "/a"),
    ] {
        assert_eq!(send(method, target), Ok(()), "{method} {target}");
    }
    for (method, target) in [
        ("GET", ""),
        ("GET", "*"),
        ("GET", "a"),
        ("GET", "/a b"),
        ("GET", "/a#b"),
        ("GET", "/\u{e4}"),
        ("GET", "/ HTTP/1.1\r\nX: y\r\n\r\nGET /"),
        ("GET", "/\r"),
        ("GET", "/\n"),
        ("GET", "/\0"),
        ("GET", "/\t"),
        ("GET", "http://u@a/"),
        ("CONNECT", "/"),
        ("CONNECT", "a"),
    ] {
        let error = RequestError::BadTarget(target.to_owned());
        assert_eq!(send(method, target), Err(error), "{method} {target:?}");
    }
}

#[test]
fn an_error_shows_no_query() {
    for (target, shown) in [("/\u{e4}?key=secret", "\"/\u{e4}\" and a query;"), ("/a b", "\"/a b\";")] {
        let error = RequestError::BadTarget(target.to_owned()).to_string();
        assert!(error.contains(shown) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn method_version_and_fields_give_the_request_info() {
    let info = |method, version, fields: &[(&str, &str)]| {
        let (fields, body) = (map(fields), NONE);
        RequestHead { method: &method, target: "/", version, fields: (&fields).into(), body }.info()
    };
    let get = RequestInfo::default();
    assert_eq!(info(Method::GET, Version::HTTP_11, &[]), get);
    assert_eq!(info(Method::HEAD, Version::HTTP_11, &[]), RequestInfo { is_head: true, ..get });
    assert_eq!(info(Method::CONNECT, Version::HTTP_11, &[]), RequestInfo { is_connect: true, ..get });
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(info(Method::GET, Version::HTTP_11, &upgrade), RequestInfo { offers_upgrade: true, ..get });
    let last = RequestInfo { is_last: true, ..get };
    assert_eq!(info(Method::GET, Version::HTTP_11, &[("connection", "a, Close")]), last);
    assert_eq!(info(Method::GET, Version::HTTP_10, &[]), last);
    assert_eq!(info(Method::GET, Version::HTTP_10, &[("connection", "Keep-Alive")]), get);
}

#[test]
fn a_plain_path_is_one_that_the_parser_accepts() {
    let fields = HeaderMap::new();
    let head = |target| RequestHead {
        method: &Method::GET,
        target,
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body: BodyLength::Known(0),
    };
    for target in ["/", "/a?b", "//x", "/%zz?%", "/a:b@c", "/?", "/a//..", "/!$&'()*+,;=~"] {
        assert!(
            is_plain_path(target) && head(target).parse_target().is_ok_and(|uri| needs_host(&uri)),
            "{target}"
        );
    }
    for target in ["", "a", "*", "/a#b", "/\u{fc}", "/a b", "/<", "http://a/", "/\"", "/{", "/\\"] {
        assert!(!is_plain_path(target), "{target}");
    }
}
