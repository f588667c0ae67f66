//! `rudy cache`, and PURGE requests.

use rudy_tests::prelude::*;

use crate::cache::{Origin, config, config_with_host, get, handled, hit, request, server};

fn cache(server: &Server, arguments: &[&str]) -> Output {
    server.rudy(&[&["cache"], arguments].concat())
}

/// An origin whose responses have tags.
fn tagged() -> Origin {
    Origin::start(|request, number| {
        let tag = if request.target().starts_with("/news") { "news" } else { "other" };
        format!("Cache-Control: max-age=600\nETag: \"{number}\"\nSurrogate-Key: all {tag}|{number}")
    })
}

fn store(server: &Server, target: &str) {
    let response = hit(server, target, &[]);
    assert_eq!(response.field("surrogate-key"), None, "tags are for the cache only");
}

#[test]
fn responses_are_purged_by_url_prefix_and_tag() {
    let origin = tagged();
    let server = server(&origin.upstream, "{ ignore_query = \"utm_*\" }");
    let url = |target: &str| format!("http://a.example{target}");
    for (arguments, purged, kept) in [
        (&["purge", &url("/news/1?utm_x=1")][..], "/news/1", "/news/2"),
        (&["purge", "--prefix", &url("/news/")], "/news/2", "/other"),
        (&["purge", "--prefix", "http://A.example:80/news/"], "/news/3", "/other"),
        (&["purge", "--tag", "news"], "/news/4", "/other"),
    ] {
        for target in [purged, kept] {
            store(&server, target);
        }
        assert_eq!(cache(&server, arguments).with_code(0).text(), "purged\n", "{arguments:?}");
        assert_eq!(handled(&get(&server, purged, &[])), "uri-miss", "{arguments:?}");
        assert_eq!(handled(&get(&server, kept, &[])), "hit", "{arguments:?}");
    }
    for target in ["/news/5", "/news/6", "/other"] {
        store(&server, target);
    }
    let swept = cache(&server, &["purge", "--tag", "news", "--wait"]).with_code(0);
    assert_contains!(swept.text(), "purged: ");
    let listed = cache(&server, &["list"]).with_code(0);
    assert!(!listed.text().contains("/news/") && listed.text().contains("/other"), "{}", listed.text());
    let again = cache(&server, &["purge", "--tag", "news", "--wait", "--json"]).with_code(0).json();
    assert_eq!(again, serde_json::json!({ "purged": true, "objects": 0 }));
    store(&server, "/news/1");
    cache(&server, &["purge", &url("/news/1"), "--soft"]).with_code(0);
    assert_eq!(handled(&get(&server, "/news/1", &[])), "stale");
    let purged = cache(&server, &["purge", "a.example/x"]).with_code(1);
    assert_contains!(purged.text(), "it begins with https:// or http://");
    cache(&server, &["purge"]).with_code(2);
}

#[test]
fn stored_responses_are_listed_and_counted() {
    let origin = tagged();
    let server = server(&origin.upstream, "true");
    for target in ["/news/1", "/other"] {
        store(&server, target);
    }
    let json = |arguments: &[&str]| cache(&server, &[arguments, &["--json"]].concat()).with_code(0).json();
    let urls = |arguments: &[&str]| -> Vec<String> {
        let objects = json(arguments)["objects"].as_array().expect("a list").clone();
        objects.iter().map(|object| object["url"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(urls(&["list"]), ["http://a.example/news/1", "http://a.example/other"]);
    assert_eq!(urls(&["list", "--prefix", "http://a.example/n"]), ["http://a.example/news/1"]);
    assert_eq!(urls(&["list", "--limit", "1"]).len(), 1);
    assert_eq!(urls(&["get", "http://a.example/other"]), ["http://a.example/other"]);
    assert_contains!(cache(&server, &["get", "http://a.example/other"]).text(), "surrogate-key: all other");
    let stats = &json(&["stats"])["caches"][0];
    assert_eq!((stats["objects"].as_u64(), stats["is_writer"].as_bool()), (Some(2), Some(true)));
    let plain =
        Server::config("listen = [\"127.0.0.1:0\"]\n[[site]]\nroute = [{ path = \"/\", respond = 204 }]\n");
    assert_contains!(cache(&plain, &["stats"]).with_code(1).text(), "no route of this server has a cache");
}

#[test]
fn listed_addresses_purge_over_http() {
    let origin = tagged();
    let server = Server::config(&config_with_host(&origin.upstream, "{ purge_from = \"loopback\" }"));
    for (target, fields, purged) in [
        ("/news/1", &[][..], "/news/1"),
        ("/news/*", &[], "/news/2"),
        ("/", &["Surrogate-Key: x news"], "/news/3"),
    ] {
        store(&server, purged);
        assert_eq!(request(&server, "PURGE", target, fields).status, 200, "{target}");
        assert_eq!(handled(&get(&server, purged, &[])), "uri-miss", "{target}");
    }
    store(&server, "/other");
    assert_eq!(request(&server, "PURGE", "/other", &["Purge-Soft: 1"]).status, 200);
    assert_eq!(handled(&get(&server, "/other", &[])), "stale");
    let proxied = request(&server, "PURGE", "/other", &["X-Forwarded-For: 127.0.0.1"]);
    assert_eq!(proxied.status, 403, "it came through a proxy");
    // A field that is removed before the cache is remembered.
    assert_eq!(request(&server, "PURGE", "/other", &["X-Real-IP: 127.0.0.1"]).status, 403);
    let open = Server::config(&config(&origin.upstream, "{ purge_from = \"loopback\" }"));
    assert_eq!(request(&open, "PURGE", "/other", &[]).status, 403, "a web page could have this host");
}

#[test]
fn a_purge_by_tag_over_http_is_for_its_site() {
    let origin = tagged();
    let text = config(&origin.upstream, "{ purge_from = \"loopback\" }");
    let (top, site) = text.split_once("[[site]]\n").expect("it has a site");
    let server = Server::config(&format!(
        "{top}[[site]]\nhosts = [\"a.example\", \"www.a.example\"]\n{site}[[site]]\nhosts = [\"b.example\"]\n{site}"
    ));
    let send = |method: &str, host: &str, fields: &str| {
        server.send(format!("{method} /news/1 HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")).response()
    };
    let hosts = ["a.example", "www.a.example", "b.example"];
    for host in hosts {
        wait_until("it is stored", || handled(&send("GET", host, "")) == "hit");
    }
    assert_eq!(send("PURGE", "www.a.example", "Surrogate-Key: news\r\n").status, 200);
    let response = send("GET", "b.example", "");
    assert_eq!((handled(&response).as_str(), response.field("rudy-cache-site")), ("hit", None));
    assert_eq!(hosts.map(|host| handled(&send("GET", host, ""))), ["uri-miss", "uri-miss", "hit"]);
    for host in hosts {
        wait_until("it is stored", || handled(&send("GET", host, "")) == "hit");
    }
    cache(&server, &["purge", "--tag", "news"]).with_code(0);
    let after = hosts.map(|host| handled(&send("GET", host, "")));
    assert_eq!(after, ["uri-miss"; 3], "the operator purges all sites");
}

#[test]
fn without_a_setting_no_client_can_purge() {
    let origin = tagged();
    let server = server(&origin.upstream, "true");
    store(&server, "/other");
    let count = origin.count();
    assert!(matches!(request(&server, "PURGE", "/other", &[]).status, 405 | 501));
    assert_eq!(handled(&get(&server, "/other", &[])), "hit");
    assert_eq!(origin.count(), count, "the application does not see it");
}

#[test]
fn a_folder_is_verified_without_a_server() {
    let origin = tagged();
    let server = server(&origin.upstream, "true");
    store(&server, "/other");
    let output = Rudy::command(["cache", "verify", "--json"]).arg(server.path().join("rudy.toml")).output();
    let found = output.with_code(0).json();
    assert_eq!(found["objects"], 1, "{found}");
}

#[test]
fn the_log_and_the_metrics_say_how_the_cache_has_handled_a_request() {
    let origin = Origin::start(|_, _| "Cache-Control: max-age=600|body".to_owned());
    let log = "access_log = { path = \"access.log\", format = \"{path} {cache}\" }\nmetrics = true\n";
    let server = Server::config(&format!("{log}{}", config(&origin.upstream, "true")));
    hit(&server, "/a", &[]);
    get(&server, "/b", &["Cache-Control: only-if-cached"]);
    request(&server, "POST", "/c", &["Content-Length: 0"]);
    let is_complete = |log: &str| ["hit", "/b", "/c"].iter().all(|part| log.contains(part));
    let log = server.path().wait_until("access.log", is_complete);
    // Workers write their lines in any order.
    for line in ["/a uri-miss", "/a hit", "/b only-if-cached", "/c method"] {
        assert!(log.lines().any(|written| written == line), "{line}: {log}");
    }
    let output = server.rudy(&["metrics"]).text();
    assert_contains!(output, "rudy_cache_disk_errors_total{operation=\"read\"} 0\n");
    for word in ["hit", "uri-miss", "only-if-cached", "method"] {
        let count = log.lines().filter(|line| line.ends_with(&format!(" {word}"))).count();
        let line = format!("rudy_cache_requests_total{{result=\"{word}\"}} {count}\n");
        assert!(output.contains(&line), "{line}: {output}");
    }
}
