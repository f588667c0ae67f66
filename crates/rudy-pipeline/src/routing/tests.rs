use rudy_service::{Peer, RequestBody};

use super::*;

fn router(sites: &[(&[&str], &[&str])]) -> Router<String> {
    let mut hosts = Hosts::default();
    let mut all = Vec::new();
    for (site, (names, paths)) in sites.iter().enumerate() {
        for name in *names {
            hosts.add(&name.parse().unwrap(), site);
        }
        if names.is_empty() {
            hosts.set_default(site);
        }
        let route = |path: &&str| Route {
            paths: vec![path.parse().unwrap()],
            script_suffix: path.ends_with(['*', 't']).then(|| ".php".to_owned()),
            condition: None,
            is_internal: false,
            handler: format!("{site}{path}"),
        };
        all.push(Site {
            routes: paths.iter().map(route).collect(),
            outer: route(&"/*"),
            redirects: None,
            conditions: SiteConditions::default(),
            tls: None,
            takes_connections: false,
            is_auto: false,
            https_port: None,
        });
    }
    Router::new(Listeners::Alike(hosts), all)
}

/// A request for a host.
fn request(host: &str) -> Request<'static> {
    let request = http::Request::get("/").header("host", host).body(RequestBody::empty());
    request.unwrap().into()
}

fn client() -> Client<'static> {
    Client::new(Peer::Unix, 1, 1)
}

#[test]
fn the_first_matching_route_wins() {
    let client = client();
    let router = router(&[
        (&["a.org"], &["/x", "/x/*", "*.php", "/q%2F*", "/*"]),
        (&[], &["/x"]),
        (&["c.org"], &["/x/*"]),
    ]);
    for (host, path, handler) in [
        ("a.org", "/x", Ok("0/x")),
        ("a.org", "/%78", Ok("0/x")),
        ("a.org", "//x", Ok("0/x")),
        ("a.org", "/x/y.php", Ok("0/x/*")),
        ("a.org", "/y.ph%70", Ok("0*.php")),
        ("a.org", "/y", Ok("0/*")),
        ("a.org", "/y/../x", Ok("0/x")),
        ("a.org", "/y%2Fz", Ok("0/*")),
        ("a.org", "/x/y%2Fz", Ok("0/x/*")),
        ("a.org", "/q%2Fz", Ok("0/q%2F*")),
        ("a.org", "/x%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
        ("a.org", "/y%2F..%2Fx%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
        ("a.org", "/x/..%2F..%2F..%2Fy", Err(NotFound::Ambiguous(PathError::AboveRoot))),
        ("c.org", "/x/y%2Fz", Ok("2/x/*")),
        ("c.org", "/x/..%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
        ("b.org", "/x", Ok("1/x")),
        ("b.org", "/y", Err(NotFound::Path)),
    ] {
        let path = RequestPath::parse(path).unwrap();
        let found = router.find(&request(host), &path, &client);
        // What waits keeps the route and the pattern.
        if let Ok(found) = &found {
            let later = router.at(found.id);
            assert!(std::ptr::eq(later.handler, found.handler) && std::ptr::eq(later.pattern, found.pattern));
        }
        let found = found.map(|found| found.handler.as_str()).map_err(|missing| missing.reason);
        assert_eq!(found, handler, "{host} {path:?}");
    }
}

#[test]
fn parameters_of_segments_do_not_lead_to_another_route() {
    let paths: &[_] = &["/admin/*", "/files/*", "/a;b/*", "/p*", "/app/*"];
    let (router, client) = (router(&[(&[], paths)]), client());
    for (path, expected) in [
        ("/app/a;jsessionid=1", Ok(())),
        ("/app/;/a", Ok(())),
        ("/p;x", Ok(())),
        ("/a;b/c;d", Ok(())),
        ("/app/..;/admin/", Err(PathError::Parameters)),
        ("/app/..;/files/a", Ok(())),
        // To none at all.
        ("/app/..;/none", Err(PathError::Parameters)),
        ("/app/..;/..;/a", Err(PathError::AboveRoot)),
    ] {
        let path = RequestPath::parse(path).unwrap();
        let Ok(found) = router.find(&request(""), &path, &client) else { panic!("{path:?} has a route") };
        assert_eq!(found.check_parameters(&path, |handler| handler == "0/files/*"), expected, "{path:?}");
    }
}

#[test]
fn an_unknown_host_is_not_found_without_a_default_site() {
    let root = RequestPath::parse("/").unwrap();
    assert_eq!(
        router(&[(&["a.org"], &["/*"])]).find(&request("b.org"), &root, &client()).unwrap_err().reason,
        NotFound::Host
    );
}

#[test]
fn the_route_of_a_script_also_has_its_path_info() {
    let (client, missing) = (client(), Err(NotFound::Path));
    // The routes whose paths end with `*` or `t` run scripts.
    let router = router(&[
        (
            &["a.org"],
            &[
                "/x.php",
                "/u/*.php",
                "/blog/x.php",
                "/y.php/ok",
                "/y.php",
                "/z.php/t",
                "/a*.t",
                "/z.php",
                "/*",
            ],
        ),
        (&["b.org"], &["*.php", "/*"]),
        (&["c.org"], &["*.txt", "/*"]),
        (&["d.org"], &["/*/t", "/x.php"]),
        (&["e.org"], &["/x.php/*", "/x.php", "/*"]),
    ]);
    for (host, path, handler) in [
        ("a.org", "/x.php", Ok("0/x.php")),
        ("a.org", "/x.php/", Ok("0/x.php")),
        ("a.org", "/x.php/y", Ok("0/x.php")),
        ("a.org", "/%78.ph%70//y/", Ok("0/x.php")),
        ("a.org", "/x.php/y.php/z", Ok("0/x.php")),
        ("a.org", "/x.php/a%2Fb", Ok("0/x.php")),
        ("a.org", "/x.php%2Fy", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
        ("a.org", "/a/..%2Fx.php/y", Err(NotFound::Ambiguous(PathError::EncodedSlash))),
        ("a.org", "/x.php;a/y", Ok("0/*")),
        ("a.org", "/X.php/y", Ok("0/*")),
        ("a.org", "/x.phpx/y", Ok("0/*")),
        ("a.org", "/a/x.php/y", Ok("0/*")),
        ("a.org", "/u/x.php/y", Ok("0/u/*.php")),
        ("a.org", "/u/x.jpg/y.php/z", Ok("0/*")),
        ("a.org", "/blog/x.php/y", Ok("0/blog/x.php")),
        ("a.org", "/y.php/ok", Ok("0/y.php/ok")),
        ("a.org", "/y.php/no", Ok("0/y.php")),
        ("a.org", "/z.php/t", Ok("0/z.php/t")),
        ("a.org", "/other.php/y", Ok("0/*")),
        ("b.org", "/x.php/y", Ok("1*.php")),
        ("b.org", "/x/y", Ok("1/*")),
        // An earlier route for other names, within that of the script.
        ("c.org", "/x.php/y.txt", Ok("2*.txt")),
        // Neither rule includes the other.
        ("d.org", "/x.php/t", missing),
        ("e.org", "/x.php/y", Ok("4/x.php/*")),
    ] {
        let path = RequestPath::parse(path).unwrap();
        let found = router.find(&request(host), &path, &client);
        let found = found.map(|found| found.handler.as_str()).map_err(|missing| missing.reason);
        assert_eq!(found, handler, "{host} {path:?}");
    }
    let many = RequestPath::from_decoded("/a.php".repeat(SCRIPTS_MAX + 2));
    assert_eq!(router.find(&request("a.org"), &many, &client).unwrap_err().reason, NotFound::Path);
}

proptest::proptest! {
    /// A script runs only by a route that may have it, whatever follows its name.
    #[test]
    fn no_path_info_bypasses_the_rule_of_a_script(
        path in "(/{1,2}(x|%78|u|y)([.]php|[.]ph%70|[.]txt|;|)(%2f|/[.])?){1,4}/?",
    ) {
        let (router, client) = (router(&[(&[], &["/x.php", "/u/*.php", "*.txt", "/*"])]), client());
        let Ok(path) = RequestPath::parse(&path) else { return Ok(()) };
        let Ok(found) = router.find(&request(""), &path, &client) else { return Ok(()) };
        let bytes = path.as_bytes();
        let ends = (1..=bytes.len()).filter(|end| bytes.get(*end).is_none_or(|byte| *byte == b'/'));
        for script in ends.map(|end| &bytes[..end]).filter(|script| script.ends_with(b".php")) {
            let is_upload = script.strip_prefix(b"/u/").is_some_and(|name| !name.contains(&b'/'));
            if script == b"/x.php" || is_upload {
                let passes_by = ["0/*", "0*.txt"].contains(&found.handler.as_str());
                proptest::prop_assert!(!passes_by, "{:?}: {}", path, found.handler);
            }
        }
    }

    /// The route for a file matches all spellings of its path.
    #[test]
    fn no_spelling_bypasses_a_route(path in "/{1,2}(p|%70|P|q)(a|%61|/|//|%2e|\\.|%2f|\\\\|%00|%|p){0,5}") {
        let (router, client) = (router(&[(&[], &["/p/*", "/pa", "/*"])]), client());
        let Ok(path) = RequestPath::parse(&path) else { return Ok(()) };
        let Ok(found) = router.find(&request(""), &path, &client) else { return Ok(()) };
        // The file that the `files` handler would open.
        let Ok(file) = path.below(0).in_folder() else { return Ok(()) };
        let expected = match file {
            "/pa" => "0/pa",
            inside if inside == "/p" || inside.starts_with("/p/") => "0/p/*",
            _ => "0/*",
        };
        proptest::prop_assert_eq!(found.handler, expected, "{:?}", path);
    }
}

/// A site of routes with paths, each with a method as its condition if there is one.
fn with_conditions(routes: &[(&str, Option<&str>)]) -> Router<String> {
    let paths: Vec<_> = routes.iter().map(|(path, _)| *path).collect();
    let mut router = router(&[(&[], &paths)]);
    let site = &mut router.sites[0];
    for (route, (_, method)) in site.routes.iter_mut().zip(routes) {
        let toml = method.map(|method| format!("methods = '{method}'\nheaders = {{ X-{method} = '*' }}"));
        let when = toml.map(|toml| [rudy_config::from_text(&toml).unwrap()].into_iter().collect());
        route.condition = when.and_then(|when| site.conditions.add(&when));
        route.handler += method.unwrap_or_default();
    }
    router
}

#[test]
fn a_route_with_unmet_conditions_leaves_the_request_to_the_next() {
    let router =
        with_conditions(&[("/a", Some("PUT")), ("/a", Some("GET")), ("/x.php", Some("PUT")), ("/*", None)]);
    let client = client();
    for (method, path, expected, passed, fields) in [
        ("PUT", "/a", "0/aPUT", &[][..], &["x-put"][..]),
        ("GET", "/a", "0/aGET", &[0], &["x-put", "x-get"]),
        ("POST", "/a", "0/*", &[0, 1], &["x-put", "x-get"]),
        ("GET", "/b", "0/*", &[], &[]),
        // The route of a script, which its path info must not pass by.
        ("PUT", "/x.php/y", "0/x.phpPUT", &[], &["x-put", "x-get", "x-put"]),
        ("GET", "/x.php/y", "0/*", &[], &["x-put", "x-get", "x-put"]),
    ] {
        let mut request = http::Request::builder().method(method).uri(path);
        for name in ["X-PUT", "X-GET"] {
            request = request.header(name, "");
        }
        let request = Request::from(request.body(RequestBody::empty()).unwrap());
        let path = RequestPath::parse(path).unwrap();
        let found = router.find(&request, &path, &client).unwrap();
        assert_eq!(found.handler, expected, "{method} {path:?}");
        assert!(found.passed_over(&path).eq(passed.iter().copied()), "{method} {path:?}");
        let mut read = Vec::new();
        found.choosing_fields(&path, &mut |name| read.push(name.to_string()));
        assert_eq!(read, fields, "{method} {path:?}");
    }
}

#[test]
fn the_parameters_of_a_path_lead_to_the_route_of_the_same_request() {
    let router = with_conditions(&[("/a/*", Some("PUT")), ("/*", None)]);
    let path = RequestPath::parse("/b/..;/a/x").unwrap();
    for (method, expected) in [("PUT", Err(PathError::Parameters)), ("GET", Ok(()))] {
        let request = http::Request::builder().method(method).header("X-PUT", "").body(RequestBody::empty());
        let request = Request::from(request.unwrap());
        let found = router.find(&request, &path, &client()).unwrap();
        assert_eq!(found.check_parameters(&path, |_| false), expected, "{method}");
    }
}
