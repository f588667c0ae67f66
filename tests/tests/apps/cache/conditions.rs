//! Routes that conditions choose for the same URLs never share a stored response.

use rudy_tests::prelude::*;

use crate::cache::{Origin, get, handled, request};

/// Each condition, and a request that meets it.
const CONDITIONS: [(&str, &str, &[&str]); 7] = [
    ("headers = { X-Env = 'beta' }", "/a?l=1", &["X-Env: beta"]),
    ("cookies = { beta = '1' }", "/a?l=1", &["Cookie: beta=1"]),
    ("scheme = 'https'", "/a?l=1", &["X-Forwarded-Proto: https"]),
    ("clients = '192.0.2.7'", "/a?l=1", &["X-Forwarded-For: 192.0.2.7"]),
    // The key has no parameter that `ignore_query` names.
    ("query = { utm_source = 'x' }", "/a?l=1&utm_source=x", &[]),
    ("methods = 'HEAD'", "/a?l=1", &[]),
    ("not = { cookies = { all = '*' } }", "/a?l=1", &["X-Other: 1"]),
];

#[test]
fn a_cache_never_mixes_responses_of_routes_that_conditions_choose() {
    for (condition, target, fields) in CONDITIONS {
        let respond = |name: &'static str| {
            Origin::start(move |_, _| format!("Cache-Control: max-age=600\nX-Route: {name}|{name}"))
        };
        let (chosen, others) = (respond("chosen"), respond("others"));
        let cache = "cache = { ignore_query = ['utm_*'] }";
        let server = Server::config(&format!(
            "listen = ['127.0.0.1:0']\ntrusted_proxies = ['127.0.0.0/8']\n[cache]\npath = 'cache'\n[[site]]\n\
             [[site.route]]\npath = '/*'\nwhen = {{ {condition} }}\nproxy = '{}'\n{cache}\n\
             [[site.route]]\npath = '/*'\nproxy = '{}'\n{cache}\n",
            chosen.upstream, others.upstream
        ));
        let method = if condition.contains("HEAD") { "HEAD" } else { "GET" };
        let plain = if condition.starts_with("not") { &["Cookie: all=1"][..] } else { &[] };
        for _ in 0..3 {
            let route = |response: Response| response.field("x-route").map(str::to_owned);
            assert_eq!(
                route(request(&server, method, target, fields)).as_deref(),
                Some("chosen"),
                "{condition}"
            );
            assert_eq!(route(get(&server, "/a?l=1", plain)).as_deref(), Some("others"), "{condition}");
        }
        // Only GET is stored.
        if method == "GET" {
            eventually("both are stored", || {
                let chosen = handled(&request(&server, method, target, fields)) == "hit";
                (chosen && handled(&get(&server, "/a?l=1", plain)) == "hit").then_some(())
            });
        }
        for scheme in ["http", "https"] {
            server.rudy(&["cache", "purge", &format!("{scheme}://a.example/a?l=1")]).with_code(0);
        }
        let before = (chosen.count(), others.count());
        request(&server, method, target, fields);
        get(&server, "/a?l=1", plain);
        assert_eq!(
            (chosen.count(), others.count()),
            (before.0 + 1, before.1 + 1),
            "{condition}: both are purged"
        );
    }
}
