//! The settings of `cache`.

use rudy_tests::prelude::*;

use crate::cache::{Origin, config, get, handled, hit, request, server};

#[test]
fn cookies_bypass_the_cache() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60|{number}"));
    let server = server(&origin.upstream, "{ bypass_cookies = [\"session*\"] }");
    let own = get(&server, "/a", &["Cookie: a=b; session_id=1"]);
    assert_eq!((own.text(), handled(&own).as_str()), ("1", "bypass"));
    assert_eq!(get(&server, "/a", &["Cookie: a=b"]).text(), "2");
    hit(&server, "/a", &[]);
    assert_eq!(get(&server, "/a", &["Cookie: a=b; session_id=1"]).text(), "3");
    assert_eq!(handled(&get(&server, "/a", &["Cookie: a=b; Session.id=1"])), "bypass");
}

#[test]
fn parts_of_the_request_are_added_to_the_key_or_removed() {
    let origin = Origin::start(|request, _| format!("Cache-Control: max-age=60|{}", request.target()));
    let settings = "{ ignore_query = [\"utm_*\"], sort_query = true, key_cookies = [\"lang\"] }";
    let server = server(&origin.upstream, settings);
    let first = get(&server, "/a?b=1&utm_x=2&a=0", &["Cookie: lang=de; id=1"]);
    assert_eq!(first.text(), "/a?b=1&utm_x=2&a=0", "the origin receives all of it");
    assert_eq!(first.field("vary"), Some("Cookie"));
    hit(&server, "/a?a=0&b=1", &["Cookie: id=2; lang=de"]);
    assert_eq!(handled(&get(&server, "/a?a=0&b=1", &["Cookie: lang=en"])), "vary-miss");
    assert_eq!(handled(&get(&server, "/a?a=0&b=2", &["Cookie: lang=de"])), "uri-miss");
}

#[test]
fn listed_parameters_alone_are_part_of_the_key_in_every_spelling() {
    let origin = Origin::start(|request, _| format!("Cache-Control: max-age=60|{}", request.target()));
    let server = server(&origin.upstream, "{ key_query = [\"page\"] }");
    assert_eq!(get(&server, "/a?x=1&page=2", &[]).text(), "/a?x=1&page=2", "the origin receives all of it");
    for target in ["/a?x=1&page=2", "/a?page=2&y", "/a?page=2&y"] {
        assert_eq!(hit(&server, target, &[]).text(), "/a?x=1&page=2");
    }
    for target in ["/a", "/a?page=3&y", "/a?%70age=2", "/a?y;page=2", "/a?page[]=2"] {
        assert_eq!(get(&server, target, &[]).text(), target);
    }
    assert_eq!(hit(&server, "/a?z", &[]).text(), "/a");
    let purged = server.rudy(&["cache", "purge", "http://a.example/a?q=1&page=2"]);
    assert!(purged.is_success(), "{purged:?}");
    assert_eq!(get(&server, "/a?page=2&y", &[]).text(), "/a?page=2&y");
}

#[test]
fn an_empty_list_of_parameters_makes_the_query_no_part_of_the_key() {
    let origin = Origin::start(|request, _| format!("Cache-Control: max-age=60|{}", request.target()));
    let server = server(&origin.upstream, "{ key_query = [] }");
    assert_eq!(hit(&server, "/a?x=1", &[]).text(), "/a?x=1");
    assert_eq!(hit(&server, "/a", &[]).text(), "/a?x=1");
}

#[test]
fn requests_with_a_query_in_their_key_bypass_the_cache() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60|{number}"));
    let server = server(&origin.upstream, "{ bypass_query = true, ignore_query = [\"utm_*\"] }");
    assert_eq!(hit(&server, "/a", &[]).text(), "1");
    assert_eq!(hit(&server, "/a?utm_x=1", &[]).text(), "1");
    for expected in ["2", "3"] {
        let passed = get(&server, "/a?utm_x=1&q=1", &[]);
        assert_eq!((passed.text(), handled(&passed).as_str()), (expected, "bypass"));
    }
}

#[test]
fn set_cookie_is_removed_from_responses_that_are_stored() {
    let origin = Origin::start(|request, number| match request.target() {
        "/own" => "Cache-Control: private\nSet-Cookie: a=1|own".to_owned(),
        "/login" => "302 Location: /\nSet-Cookie: a=1|".to_owned(),
        "/part" => {
            "206 Cache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 0-1/5\nSet-Cookie: a=1|pa"
                .to_owned()
        }
        "/stale" if number > 1 => "304 ETag: \"a\"\nSet-Cookie: a=1|".to_owned(),
        "/stale" => "Cache-Control: max-age=0\nETag: \"a\"\nSet-Cookie: a=1|body".to_owned(),
        _ => format!("Cache-Control: max-age=60\nSet-Cookie: a=1|{number}"),
    });
    let server = server(&origin.upstream, "{ remove_set_cookie = true }");
    let cookie = |response: &Response| response.field("set-cookie").map(str::to_owned);
    let first = get(&server, "/stale", &[]);
    assert_eq!((first.text(), cookie(&first)), ("body", None));
    stored_stale(&server);
    let validated = get(&server, "/stale", &[]);
    assert_eq!((validated.text(), handled(&validated).as_str(), cookie(&validated)), ("body", "stale", None));
    assert_eq!(cookie(&get(&server, "/a", &[])), None);
    for _ in 0..2 {
        assert_eq!(cookie(&hit(&server, "/a", &[])), None);
    }
    let part = get(&server, "/part", &["Range: bytes=0-1"]);
    assert_eq!((part.status, cookie(&part)), (206, None));
    // A response to HEAD is never stored, but has the fields of that to GET.
    assert_eq!(cookie(&request(&server, "HEAD", "/b", &[])), None);
    // What is not stored is for one client, who may log in.
    for (method, target) in [("GET", "/own"), ("HEAD", "/own"), ("GET", "/login"), ("POST", "/a")] {
        assert_eq!(
            cookie(&request(&server, method, target, &[])).as_deref(),
            Some("a=1"),
            "{method} {target}"
        );
    }
}

/// Waits until `/stale` is stored.
fn stored_stale(server: &Server) {
    let fields = ["Cache-Control: only-if-cached, max-stale"];
    wait_until("it is stored", || get(server, "/stale", &fields).status == 200);
}

#[test]
fn a_response_is_stored_after_a_number_of_requests() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60\nSet-Cookie: a=1|{number}"));
    let server = server(&origin.upstream, "{ min_uses = 3, remove_set_cookie = true }");
    for (target, text, how) in
        [("/a", "1", "bypass"), ("/b", "2", "bypass"), ("/a", "3", "bypass"), ("/a", "4", "uri-miss")]
    {
        let response = get(&server, target, &[]);
        assert_eq!((response.text(), handled(&response).as_str()), (text, how), "{target}");
        assert_eq!(response.field("set-cookie"), None, "all clients receive the same");
    }
    assert_eq!(hit(&server, "/a", &[]).text(), "4");
    assert_eq!(handled(&get(&server, "/b", &[])), "bypass");
}

#[test]
fn ignored_parameters_are_no_part_of_the_key_after_a_rewrite() {
    let origin = Origin::start(|request, _| format!("Cache-Control: max-age=60|{}", request.target()));
    let rewrite = "[[site]]\n[[site.route]]\npath = \"/shop/*\"\nrewrite = \"/c/{rest}\"\n";
    let config = config(&origin.upstream, "{ ignore_query = [\"utm_*\"] }").replace("[[site]]\n", rewrite);
    let server = Server::config(&config);
    assert_eq!(get(&server, "/shop/x?utm_source=1", &[]).text(), "/c/x?utm_source=1");
    hit(&server, "/shop/x?utm_source=1", &[]);
    assert_eq!(handled(&get(&server, "/shop/x?utm_source=2", &[])), "hit");
    assert_ne!(handled(&get(&server, "/shop/x?page=2", &[])), "hit");
}

#[test]
fn accepted_languages_are_reduced_to_those_of_a_list() {
    let origin = Origin::start(|request, number| {
        let language = request.field("accept-language").unwrap_or("none").to_owned();
        format!("Cache-Control: max-age=60\nVary: Accept-Language\n|{language} {number}")
    });
    let reduced = server(&origin.upstream, "{ languages = [\"en\", \"pt-BR\"] }");
    for (accept, expected) in [
        ("en", "en 1"),
        ("de, pt-br;q=0.5, en;q=0.1", "pt-BR 2"),
        ("EN-gb, de;q=0.9", "en 1"),
        ("pt-BR", "pt-BR 2"),
        ("de", "none 3"),
        ("fr;q=0.3", "none 3"),
    ] {
        assert_eq!(
            hit(&reduced, "/a", &[&format!("Accept-Language: {accept}")]).text(),
            expected,
            "{accept}"
        );
    }
    let plain = server(&origin.upstream, "true");
    for (accept, expected) in [("de, en", "de, en 4"), ("de,en", "de,en 5")] {
        assert_eq!(get(&plain, "/a", &[&format!("Accept-Language: {accept}")]).text(), expected);
    }
}

/// Text that shrinks well, for a target.
fn text_at(target: &str) -> String {
    "some words that shrink well\n".repeat(if target.contains("small") { 200 } else { 10_000 })
}

const FIELDS: &str = "Cache-Control: max-age=60\nContent-Type: text/plain\nETag: \"a\"";

#[test]
fn a_compressed_copy_is_kept_for_each_coding() {
    let origin = Origin::start(|request, _| format!("{FIELDS}|{}", text_at(request.target())));
    for settings in ["compression = true", "compression = true\nconcurrent_requests = 10"] {
        copies_are_kept(&Server::config(&config(&origin.upstream, &format!("true\n{settings}"))));
    }
}

#[test]
fn a_compressed_copy_of_a_response_of_an_app_is_kept_for_each_coding() {
    let app = App::serve(|peer, params| {
        peer.body();
        peer.respond(format!("{FIELDS}\n\n{}", text_at(variable(&params, "REQUEST_URI"))).as_bytes());
    });
    let root = Folder::with(&[("small.php", ""), ("large.php", "")]);
    // The responses of `php` from the head alone may also be files, which are compressed elsewhere.
    let php = format!("php = {{ root = \"{root}\", address = \"{app}\" }}");
    for handler in [format!("fastcgi = {{ address = \"{app}\" }}"), php] {
        copies_are_kept(&Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
             {handler}\ncache = true\ncompression = true\n"
        )));
    }
}

/// Tests the copies of the responses at `/small.php` and `/large.php`, also of those that are sent from the head of a request alone.
fn copies_are_kept(server: &Server) {
    let compressed = || -> u64 {
        let stats = server.rudy(&["cache", "stats", "--json"]).json();
        stats["caches"][0]["compressed_bytes"].as_u64().expect("a number")
    };
    for target in ["/small.php", "/large.php"] {
        for coding in ["gzip", "br", "zstd"] {
            let accept = format!("Accept-Encoding: {coding}");
            hit(server, target, &[&accept]);
            let before = compressed();
            let copies: Vec<_> = (0..4).map(|_| get(server, target, &[&accept])).collect();
            for copy in &copies {
                assert_eq!(copy.field("content-encoding"), Some(coding), "{target}: {}", copy.head);
                let (tag, vary) = (copy.field("etag"), copy.field("vary"));
                assert_eq!((tag, vary), (Some("W/\"a\""), Some("Accept-Encoding")));
                assert_eq!(copy.body, copies[0].body);
                assert!(copy.field("content-length").is_some(), "{target}: {}", copy.head);
            }
            assert_eq!(compressed(), before, "the results are used again");
            assert!(before > copies[0].body.len() as u64);
            let conditional = get(server, target, &[&accept, "If-None-Match: W/\"a\""]);
            assert_eq!((conditional.status, conditional.field("vary")), (304, Some("Accept-Encoding")));
        }
        let plain = get(server, target, &[]);
        assert_eq!((plain.field("content-encoding"), plain.field("etag")), (None, Some("\"a\"")));
        let part = get(server, target, &["Accept-Encoding: gzip", "Range: bytes=0-3"]);
        assert_eq!((part.status, part.text()), (206, "some"));
    }
}

#[test]
fn freshness_is_set_by_status() {
    let origin = Origin::start(|request, _| match request.target() {
        "/none" => "404 X-A: 1|none".to_owned(),
        "/long" => "Cache-Control: max-age=3600|long".to_owned(),
        _ => "X-A: 1|body".to_owned(),
    });
    let settings = "{ default_freshness = { 200 = \"1h\", 404 = \"5m\" }, max_freshness = \"30m\" }";
    let server = server(&origin.upstream, settings);
    for (target, ttl) in [("/a", 1800), ("/none", 300), ("/long", 1800)] {
        let hit = hit(&server, target, &[]);
        let status = hit.field("cache-status").unwrap_or_default().to_owned();
        let left: u32 = status.rsplit("ttl=").next().and_then(|ttl| ttl.parse().ok()).unwrap_or(0);
        assert!((ttl - 30..=ttl).contains(&left), "{target}: {status}");
    }
}

#[test]
fn a_reload_of_the_client_validates_or_is_ignored() {
    for (settings, expected) in [("true", "request"), ("{ ignore_client_cache_control = true }", "hit")] {
        let origin =
            Origin::start(|_, number| format!("Cache-Control: max-age=600\nAge: 100\nETag: \"a\"|{number}"));
        let server = server(&origin.upstream, settings);
        hit(&server, "/a", &[]);
        wait_until("more than a second has passed", || {
            handled(&get(&server, "/a", &["Cache-Control: no-cache"])) == expected
        });
    }
}

#[test]
fn the_application_receives_the_port_of_the_url() {
    let app = App::serve(|peer, params| {
        peer.body();
        let [host, port] = ["HTTP_HOST", "SERVER_PORT"].map(|name| variable(&params, name));
        let head = "Cache-Control: max-age=60\nContent-Type: text/plain";
        peer.respond(format!("{head}\n\n{host} {port}").as_bytes());
    });
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         fastcgi = {{ address = \"{app}\" }}\ncache = true\n"
    ));
    let cases = [("/0", "A.example:80", "a.example 80"), ("/1", "a.example:8080", "a.example:8080 8080")];
    for (target, host, expected) in cases {
        assert_eq!(server.get_with(target, &[&format!("Host: {host}")]).text(), expected, "{host}");
    }
}

#[test]
fn a_route_disables_the_cache_of_its_site() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60|{number}"));
    let url = origin.upstream.url();
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\nname = \"edge\"\n[[site]]\ncache = true\n\
         [[site.route]]\npath = \"/own/*\"\nproxy = \"{url}\"\ncache = false\n\
         [[site.route]]\npath = \"/pong\"\nrespond = {{ body = \"pong\" }}\n\
         [[site.route]]\npath = \"/*\"\nproxy = \"{url}\"\n"
    ));
    assert_eq!(get(&server, "/own/a", &[]).field("cache-status"), None);
    assert_eq!(get(&server, "/pong", &[]).field("cache-status"), None);
    let first = get(&server, "/a", &[]);
    assert_eq!(first.field("cache-status"), Some("edge; fwd=uri-miss; fwd-status=200; stored"));
}

#[test]
fn settings_without_an_effect_are_errors() {
    let origin = Origin::start(|_, _| String::new());
    for (settings, expected) in [
        ("{ default_freshness = { 999 = \"1s\" } }", "\"999\" is not a status"),
        ("{ key_headers = [\"Cookie\"] }", "a key with all cookies"),
        ("{ heuristic_percent = 101 }", "101"),
        ("{ min_uses = 0 }", "min_uses"),
        ("{ key_query = \"a\", ignore_query = \"b\" }", "has both `key_query` and `ignore_query`"),
        ("\"yes\"", "`true`, `false` or a table"),
    ] {
        let output = Rudy::check(&config(&origin.upstream, settings));
        assert!(!output.is_success() && output.stderr.contains(expected), "{settings}: {output:?}");
    }
}

#[test]
fn a_reload_keeps_what_is_stored() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60|{number}"));
    let mut server = server(&origin.upstream, "true");
    hit(&server, "/a", &[]);
    reload_with(&mut server, "cache = true", "cache = { sort_query = true }");
    assert_eq!(handled(&get(&server, "/a", &[])), "hit");
    assert_eq!(handled(&request(&server, "HEAD", "/a", &[])), "hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_reload_with_another_size_continues_to_store() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=60|{number}"));
    let mut server = server(&origin.upstream, "true");
    hit(&server, "/a", &[]);
    reload_with(&mut server, "path = \"cache\"", "path = \"cache\"\nsize = \"1G\"");
    hit(&server, "/b", &[]);
}

/// Changes the configuration of a server, and reloads it.
fn reload_with(server: &mut Server, old: &str, new: &str) {
    server.reload_changed(|text| text.replace(old, new), "the configuration was reloaded");
}
