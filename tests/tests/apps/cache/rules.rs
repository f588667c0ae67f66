//! The rules of RFC 9111, end to end. `rudy-cache` has a case for each section.

use rudy_tests::prelude::*;

use crate::cache::{Origin, config, config_in, config_with_host, get, handled, hit, request, server, stored};

#[test]
fn a_fresh_response_is_sent_again_with_its_age() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60\nETag: \"a\"|body {number}"));
    let server = server(&origin.upstream, "true");
    let first = get(&server, "/a", &[]);
    assert_eq!((first.text(), first.field("age")), ("body 1", None));
    assert_eq!(first.field("cache-status"), Some("Rudy; fwd=uri-miss; fwd-status=200; stored"));
    for _ in 0..3 {
        let second = hit(&server, "/a", &[]);
        assert_eq!(second.text(), "body 1");
        assert!(second.field("age").is_some_and(|age| age.parse::<u32>().is_ok()), "{}", second.head);
    }
    assert_eq!(origin.count(), 1);
    assert_eq!(handled(&request(&server, "HEAD", "/a", &[])), "hit");
    let not_modified = get(&server, "/a", &["If-None-Match: W/\"a\""]);
    assert_eq!((not_modified.status, not_modified.field("etag")), (304, Some("\"a\"")));
    let part = get(&server, "/a", &["Range: bytes=1-3"]);
    assert_eq!((part.status, part.text(), part.field("content-range")), (206, "ody", Some("bytes 1-3/6")));
    assert_eq!(get(&server, "/a", &["Range: bytes=9-"]).status, 416);
    let parts = get(&server, "/a", &["Range: bytes=0-0,2-2"]);
    assert!(parts.status == 206 && parts.text().contains("bytes 2-2/6"), "{}", parts.text());
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_response_that_is_not_for_others_is_never_stored() {
    for fields in [
        "Cache-Control: no-store",
        "Cache-Control: private",
        "Cache-Control: max-age=60\nSet-Cookie: a=1",
        "Cache-Control: max-age=60\nVary: *",
        "Cache-Control: max-age=60\nVary: X-Forwarded-For",
        "X-Nothing: 1",
        "500 Cache-Control: no-store",
    ] {
        let origin = Origin::start(move |_, number| format!("{fields}|{number}"));
        let server = server(&origin.upstream, "true");
        assert_eq!(get(&server, "/a", &[]).text(), "1", "{fields}");
        let second = get(&server, "/a", &[]);
        assert_eq!(second.text(), "2", "{fields}");
        assert!(second.field("cache-status").is_some_and(|status| !status.contains("stored")));
    }
}

#[test]
fn fields_that_are_not_stored_are_for_the_first_client() {
    let origin = Origin::start(|request, number| {
        let status = if request.field("if-none-match").is_some() { "304 " } else { "" };
        let directives = match request.target() {
            "/no-cache" => "max-age=60, no-cache=\"Set-Cookie, X-User\"",
            "/private" => "max-age=60, private=\"set-cookie, x-user\"",
            _ => "max-age=0, private=\"x-user, set-cookie\"",
        };
        let fields = format!("Set-Cookie: a={number}\nSet-Cookie: b=1\nX-User: {number}\nX-All: 1");
        format!("{status}ETag: \"a\"\nCache-Control: {directives}\n{fields}|body")
    });
    let server = server(&origin.upstream, "true");
    for target in ["/no-cache", "/private", "/validated"] {
        let first = get(&server, target, &[]);
        let number = origin.count().to_string();
        let cookies = first.head.matches("\r\nset-cookie: ").count();
        assert_eq!((first.field("x-user"), cookies), (Some(&*number), 2), "{target}: {}", first.head);
        let (expected, second) = eventually("it is stored", || {
            let response = get(&server, target, &[]);
            let expected = if target == "/validated" { "stale" } else { "hit" };
            (handled(&response) == expected).then_some((expected, response))
        });
        let number = origin.count().to_string();
        let user = (expected == "stale").then_some(&*number);
        assert_eq!((second.status, second.text(), second.field("x-all")), (200, "body", Some("1")));
        assert_eq!(second.field("x-user"), user, "{target}: {}", second.head);
        assert_eq!(second.field("set-cookie").is_some(), user.is_some(), "{target}: {}", second.head);
    }
}

#[test]
fn a_page_that_an_authorizer_has_allowed_is_for_one_user() {
    let origin = Origin::start(|request, number| {
        let directives = if request.target() == "/shared" { "public, max-age=60" } else { "max-age=60" };
        format!("Cache-Control: {directives}|{} {number}", request.field("cookie").unwrap_or_default())
    });
    // It names no user.
    let authorizer = Origin::start(|request, _| {
        let status = if request.field("cookie").is_some() { "204 " } else { "403 " };
        format!("{status}X-Other: 1|")
    });
    let with = |cache: &str| {
        let auth = format!("forward_auth = \"{}\"\n", authorizer.upstream.url());
        Server::config(&(config(&origin.upstream, cache) + &auth))
    };
    let server = with("true");
    for target in ["/a", "/a", "/a"] {
        for user in ["u=ann", "u=bob"] {
            let page = get(&server, target, &[&format!("Cookie: {user}")]);
            assert!(page.text().starts_with(user), "{user}: {}", page.text());
        }
    }
    assert_eq!(get(&server, "/a", &[]).status, 403);
    hit(&server, "/shared", &["Cookie: u=bob"]);
    assert_eq!(get(&server, "/shared", &[]).status, 403);
    let server = with("{ ignore_authorization = true }");
    hit(&server, "/a", &["Cookie: u=bob"]);
}

#[test]
fn the_application_receives_one_spelling_of_the_host() {
    let origin = Origin::start(|request, _| {
        let host = request.field("host").unwrap_or_default();
        format!("301 Cache-Control: max-age=60\nLocation: http://{host}/|")
    });
    let server = server(&origin.upstream, "true");
    let location = |target: &str, host: &str| {
        let response = server.get_with(target, &[&format!("Host: {host}")]);
        response.field("location").map(str::to_owned)
    };
    let expected = Some("http://a.example/");
    for (number, host) in ["A.Example", "a.example:80", "a.example:", "a.EXAMPLE:80"].into_iter().enumerate()
    {
        for host in [host, "a.example"] {
            assert_eq!(location(&format!("/{number}"), host).as_deref(), expected, "{host}");
        }
    }
    assert_eq!(location("http://A.example:80/x", "b.example").as_deref(), expected);
    for name in ["host", "x-forwarded-host"] {
        assert_eq!(origin.last(name).as_deref(), Some("a.example"));
    }
}

#[test]
fn a_compressed_response_without_vary_is_not_for_clients_that_accept_no_compression() {
    let origin = Origin::start(|request, number| {
        let is_coded = request.field("accept-encoding").is_some_and(|accepted| accepted.contains("gzip"));
        let coding = if is_coded { "Content-Encoding: gzip\n" } else { "" };
        format!("{coding}Cache-Control: max-age=60|{number}")
    });
    let server = server(&origin.upstream, "true");
    let stored = |accepted: &str| hit(&server, "/a", &[&format!("Accept-Encoding: {accepted}")]);
    let coded = stored("gzip, deflate");
    assert_eq!(coded.field("content-encoding"), Some("gzip"));
    assert_eq!(coded.field("vary"), Some("Accept-Encoding"));
    for accepted in ["identity", "gzip;q=0", "deflate", ""] {
        assert_eq!(stored(accepted).field("content-encoding"), None, "{accepted}");
    }
    assert_eq!(stored("gzip;q=0.5").text(), coded.text());
    assert_eq!(origin.count(), 2);
}

#[test]
fn credentials_are_for_one_client_unless_the_response_allows_it() {
    let origin = Origin::start(|request, number| {
        let directives = if request.target() == "/shared" { "public, max-age=60" } else { "max-age=60" };
        format!("Cache-Control: {directives}|{number}")
    });
    let server = server(&origin.upstream, "true");
    let credentials = ["Authorization: Basic dTpw"];
    assert_eq!(get(&server, "/own", &credentials).text(), "1");
    assert_eq!(get(&server, "/own", &[]).text(), "2");
    assert_eq!(get(&server, "/shared", &credentials).text(), "3");
    assert_eq!(stored(&server, "/shared").text(), "3");
}

#[test]
fn a_stale_response_is_validated_and_updated() {
    let origin = Origin::start(|request, number| {
        if request.field("if-none-match") == Some("\"a\"") {
            return format!("304 ETag: \"a\"\nCache-Control: max-age=60\nX-Number: {number}|");
        }
        format!("ETag: \"a\"\nCache-Control: max-age=0\nX-Number: {number}|body")
    });
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/a", &[]).field("x-number"), Some("1"));
    wait_until("it is stored", || {
        let response = get(&server, "/a", &["Cache-Control: only-if-cached, max-stale"]);
        response.status == 200
    });
    let second = get(&server, "/a", &[]);
    assert_eq!((handled(&second).as_str(), second.status, second.text()), ("stale", 200, "body"));
    assert!(second.field("cache-status").is_some_and(|status| status.contains("fwd-status=304")));
    assert_eq!(second.field("x-number"), Some("2"));
    let third = get(&server, "/a", &[]);
    assert_eq!((handled(&third).as_str(), third.field("x-number")), ("hit", Some("2")));
}

/// Two processes on one folder, as during an upgrade: the second one cannot store what it validates.
#[test]
fn a_process_that_cannot_store_responds_with_the_fields_of_a_304() {
    let origin = Origin::start(|request, _| {
        if request.field("if-none-match").is_some() {
            return "304 ETag: \"a\"\nCache-Control: max-age=60\nX-From: 304|".into();
        }
        "ETag: \"a\"\nCache-Control: max-age=0\nX-From: 200|body".into()
    });
    let folder = Folder::new();
    let config = config_in(&origin.upstream, "true", &folder);
    let (writer, mut reader) = (Server::config(&config), Server::config(&config));
    reader.wait_for_line("another process uses the cache");
    assert_eq!(get(&writer, "/a", &[]).field("x-from"), Some("200"));
    wait_until("it is stored", || {
        let response = get(&writer, "/a", &["Cache-Control: only-if-cached, max-stale"]);
        response.status == 200
    });
    for _ in 0..2 {
        let response = get(&reader, "/a", &[]);
        assert_eq!((handled(&response).as_str(), response.text()), ("stale", "body"));
        assert_eq!(response.field("x-from"), Some("304"));
    }
    drop(writer);
    wait_until("it stores now", || handled(&get(&reader, "/a", &[])) == "hit");
}

#[test]
fn a_process_that_cannot_store_does_not_send_what_a_request_has_changed() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60\nCache-Tag: a|{number}"));
    let folder = Folder::new();
    let config = config_with_host(&origin.upstream, "{ purge_from = \"loopback\" }");
    let config = config.replace("\"cache\"", &format!("\"{folder}\""));
    let (writer, mut reader) = (Server::config(&config), Server::config(&config));
    reader.wait_for_line("another process uses the cache");
    hit(&writer, "/a", &[]);
    assert_eq!(handled(&get(&reader, "/a", &[])), "hit");
    assert_eq!(request(&reader, "POST", "/a", &["Content-Length: 0"]).status, 200);
    assert_eq!(handled(&get(&reader, "/a", &[])), "uri-miss");
    // The reader reads the list of purges again.
    assert_eq!(request(&writer, "PURGE", "/", &["Cache-Tag: b"]).status, 200);
    assert_eq!(handled(&get(&reader, "/a", &[])), "uri-miss");
}

#[test]
fn the_fields_in_vary_select_the_response() {
    let origin = Origin::start(|request, _| {
        let language = request.field("accept-language").unwrap_or("none");
        format!("Cache-Control: max-age=60\nVary: Accept-Language|{language}")
    });
    let server = server(&origin.upstream, "true");
    for language in ["de", "en", "de", "en"] {
        let field = format!("Accept-Language: {language}");
        assert_eq!(get(&server, "/a", &[&field]).text(), language);
    }
    for language in ["de", "en"] {
        hit(&server, "/a", &[&format!("Accept-Language: {language}")]);
    }
    assert_eq!(handled(&get(&server, "/a", &["Accept-Language: fr"])), "vary-miss");
}

#[test]
fn a_field_that_the_origin_does_not_receive_selects_no_response() {
    let origin = Origin::start(|request, _| {
        let language = request.field("accept-language").unwrap_or("none");
        format!("Cache-Control: max-age=60\nVary: Accept-Language|{language}")
    });
    let server = server(&origin.upstream, "true");
    let hidden = get(&server, "/a", &["Accept-Language: de", "Connection: Accept-Language"]);
    assert_eq!((hidden.text(), handled(&hidden).as_str()), ("none", "bypass"));
    assert_eq!(get(&server, "/a", &["Accept-Language: de"]).text(), "de");
    // What clients usually name there is no reason to pass the cache.
    let usual =
        ["Accept-Language: de", "Connection: keep-alive, TE", "TE: trailers", "Keep-Alive: timeout=5"];
    hit(&server, "/a", &usual);
}

#[test]
fn the_origin_sees_one_spelling_of_accepted_codings() {
    let origin = Origin::start(|request, _| {
        let accepted = request.field("accept-encoding").unwrap_or("-");
        format!("Cache-Control: max-age=60\nVary: Accept-Encoding|{accepted}")
    });
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/a", &["Accept-Encoding: gzip;q=0.5, deflate, br"]).text(), "br, gzip");
    hit(&server, "/a", &["Accept-Encoding: br, x-gzip"]);
    assert_eq!(get(&server, "/a", &[]).text(), "identity");
}

#[test]
fn a_response_to_a_condition_for_the_origin_changes_nothing_that_is_stored() {
    let origin = Origin::start(|request, number| {
        let is_head = request.head.starts_with("HEAD ");
        let coding = request.field("accept-encoding").filter(|_| !is_head).unwrap_or_default();
        format!("Cache-Control: max-age=60\nVary: Accept-Encoding\nETag: \"{number}\"|{coding}")
    });
    let server = server(&origin.upstream, "true");
    let conditional = ["If-Match: *", "Accept-Encoding: deflate"];
    let bypassed = get(&server, "/a", &conditional);
    assert_eq!((handled(&bypassed).as_str(), bypassed.text()), ("bypass", "deflate"));
    assert_eq!(bypassed.field("cache-status"), Some("Rudy; fwd=bypass; fwd-status=200"));
    assert_eq!(get(&server, "/a", &[]).text(), "identity");
    hit(&server, "/a", &[]);
    // Its response has another tag.
    assert_eq!(handled(&request(&server, "HEAD", "/a", &conditional)), "bypass");
    assert_eq!(handled(&get(&server, "/a", &[])), "hit");
}

#[test]
fn an_unsafe_request_invalidates_what_is_stored() {
    let origin = Origin::start(|request, number| match request.head.split(' ').next() {
        Some("GET") => format!("Cache-Control: max-age=60|{number}"),
        _ if request.target() == "/fails" => "500 X-A: 1|".to_owned(),
        _ => "204 Location: /other\nContent-Location: https://b.example/a|".to_owned(),
    });
    let server = server(&origin.upstream, "true");
    let is_hit = |target: &str| handled(&get(&server, target, &[])) == "hit";
    for target in ["/a", "/other", "/fails"] {
        hit(&server, target, &[]);
    }
    assert_eq!(request(&server, "POST", "/a", &["Content-Length: 0"]).status, 204);
    assert!(!is_hit("/a") && !is_hit("/other"));
    assert_eq!(request(&server, "DELETE", "/fails", &[]).status, 500);
    assert!(is_hit("/fails"), "the request has failed");
}

#[test]
fn only_if_cached_never_reaches_the_origin() {
    let origin = Origin::start(|_, _| "Cache-Control: max-age=60|body".to_owned());
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/a", &["Cache-Control: only-if-cached"]).status, 504);
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_stale_response_is_sent_while_it_is_validated_and_in_place_of_an_error() {
    let origin = Origin::start(|request, number| match request.target() {
        "/sie" if number > 1 => "503 X-A: 1|failed".to_owned(),
        "/sie" => "ETag: \"1\"\nCache-Control: max-age=0, stale-if-error=60|1".to_owned(),
        _ => format!("ETag: \"{number}\"\nCache-Control: max-age=0, stale-while-revalidate=60|{number}"),
    });
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/sie", &[]).text(), "1");
    let replaced = eventually("it is stored", || {
        Some(get(&server, "/sie", &[])).filter(|response| response.status == 200)
    });
    assert_eq!(replaced.text(), "1");
    let first = get(&server, "/swr", &[]).text().to_owned();
    assert_eq!(hit(&server, "/swr", &[]).text(), first);
    wait_until("it is validated in the background", || get(&server, "/swr", &[]).text() != first);
}

#[test]
fn a_validation_in_the_background_is_for_its_variant() {
    let origin = Origin::start(|request, number| {
        let language = request.field("accept-language").unwrap_or_default().to_owned();
        let stale = if language == "en" { "stale-while-revalidate=60" } else { "stale-if-error=60" };
        format!(
            "Cache-Control: max-age=0, {stale}\nVary: Accept-Language\nETag: \"{number}\"|{language} {number}"
        )
    });
    let server = server(&origin.upstream, "true");
    let with = |language: &str, more: &[&str]| {
        let language = format!("Accept-Language: {language}");
        get(&server, "/a", &[&[language.as_str()], more].concat())
    };
    for (language, expected) in [("en", "en 1"), ("de", "de 2")] {
        assert_eq!(with(language, &[]).text(), expected);
        wait_until("it is stored", || {
            let response = with(language, &["Cache-Control: only-if-cached, max-stale"]);
            response.status == 200
        });
    }
    assert_eq!(with("en", &[]).text(), "en 1", "it is validated in the background");
    let other = with("de", &[]);
    assert_eq!(handled(&other), "stale");
    assert_ne!(other.text(), "de 2");
}

/// An origin of a response that it also sends in parts.
fn in_parts(content: String) -> Origin {
    Origin::start(move |request, _| {
        let (fields, size) = ("ETag: \"a\"\nCache-Control: max-age=60", content.len());
        let range = request.field("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((first, last)) = range else { return format!("{fields}|{content}") };
        let start: usize = first.parse().expect("a position");
        let end = last.parse().unwrap_or(size - 1);
        format!("206 {fields}\nContent-Range: bytes {start}-{end}/{size}|{}", &content[start..=end])
    })
}

#[test]
fn parts_with_the_same_strong_tag_are_combined() {
    let origin = in_parts("0123456789".to_owned());
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/a", &["Range: bytes=0-3"]).text(), "0123");
    let part = hit(&server, "/a", &["Range: bytes=1-2"]);
    assert_eq!((part.status, part.text(), part.field("content-range")), (206, "12", Some("bytes 1-2/10")));
    let second = get(&server, "/a", &["Range: bytes=4-9"]);
    assert_eq!((second.status, second.text(), handled(&second).as_str()), (206, "456789", "partial"));
    assert_eq!(origin.last("if-range").as_deref(), Some("\"a\""));
    let whole = hit(&server, "/a", &[]);
    assert_eq!((whole.status, whole.text()), (200, "0123456789"));
}

#[test]
fn a_small_part_is_not_stored_with_a_large_one() {
    let origin = in_parts("0123456789".repeat(10));
    let server = server(&origin.upstream, "true");
    let part = |range: &str| get(&server, "/a", &[&format!("Range: bytes={range}")]);
    assert_eq!(part("0-79").body.len(), 80);
    hit(&server, "/a", &["Range: bytes=0-79"]);
    let small = part("90-90");
    assert_eq!((small.status, small.text()), (206, "0"));
    assert_eq!(small.field("cache-status"), Some("Rudy; fwd=partial; fwd-status=206"));
    assert_eq!(handled(&part("70-79")), "hit", "the large one remains");
    // An eighth, and the rest.
    for (range, both) in [("85-94", "0-79"), ("80-99", "0-99")] {
        assert!(part(range).field("cache-status").is_some_and(|status| status.ends_with("; stored")));
        hit(&server, "/a", &[&format!("Range: bytes={both}")]);
    }
    assert_eq!(hit(&server, "/a", &[]).text(), "0123456789".repeat(10));
}
