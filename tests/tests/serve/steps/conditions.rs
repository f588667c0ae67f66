//! Routes that conditions choose: by method, field, cookie, parameter and client, and what `Vary` and `rudy check --explain` say of them.

use rudy_tests::prelude::*;

/// One route for each condition, and a last one for all others.
const ROUTES: &str = r#"
listen = "127.0.0.1:0"
[[site]]
[[site.route]]
path = "/page"
when = { methods = "POST" }
redirect = { to = "/posted", status = 303 }
[[site.route]]
path = "/page"
when = [{ headers = { X-Env = "beta*" } }, { cookies = { beta = "1" } }]
respond = { body = "beta" }
[[site.route]]
path = "/*"
when = { query = { lang = ["de", "at"] }, not = { headers = { X-Api = "*" } } }
respond = { body = "german" }
[[site.route]]
path = "/page"
when = { clients = "192.0.2.0/24" }
respond = { body = "not for this client" }
[[site.route]]
path = "/*"
when = { not = { path = "/none" } }
respond = { body = "others" }
"#;

#[test]
fn a_request_gets_the_first_route_with_conditions_that_it_meets() {
    let server = Server::config(ROUTES);
    for (method, target, fields, expected, vary) in [
        ("POST", "/page", &[][..], "/posted", None),
        ("GET", "/page", &[], "others", Some("x-env, cookie, x-api")),
        ("GET", "/page", &["X-Env: beta-2"], "beta", Some("x-env, cookie")),
        ("GET", "/page", &["Cookie: a=b; beta=1"], "beta", Some("x-env, cookie")),
        ("GET", "/page?lang=de", &["Cookie: a=b; beta=0"], "german", Some("x-env, cookie, x-api")),
        ("GET", "/x?a&lan%67=at", &[], "german", Some("x-api")),
        ("GET", "/x?lang=de", &["X-Api: 1"], "others", Some("x-api")),
    ] {
        let response = server.request(method, target, fields);
        let lines: Vec<_> = response.fields("vary").collect();
        assert_eq!(
            response.field("location").unwrap_or(response.text()),
            expected,
            "{method} {target} {fields:?}"
        );
        assert_eq!(
            (!lines.is_empty()).then(|| lines.join(", ")).as_deref(),
            vary,
            "{method} {target} {fields:?}"
        );
    }
    let missing = server.get("/none");
    assert!(missing.status == 404 && missing.fields("vary").any(|name| name == "x-api"), "{}", missing.head);
}

#[test]
fn conditions_are_explained() {
    let folder = Folder::with(&[("rudy.toml", ROUTES)]);
    let explain = |arguments: &[&str]| {
        let output =
            Rudy::command(["check", "--explain", "/page"]).args(arguments).folder(folder.path()).output();
        output
            .stdout
            .lines()
            .filter(|line| ["Not", "Route", "Handler"].contains(&line.split(' ').next().unwrap()))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(explain(&["--method", "POST"]).len(), 2);
    let lines = explain(&["--from", "198.51.100.1"]);
    assert_eq!(lines[0], "Not       route (rudy.toml:4), which is for: method POST");
    assert_eq!(
        lines[1],
        "Not       route (rudy.toml:8), which is for: field x-env: beta*; or cookie beta: 1"
    );
    assert_eq!(
        lines[2],
        "Not       route (rudy.toml:12), which is for: parameter lang: de or at, not (field x-api: *)"
    );
    assert_eq!(lines[3], "Not       route (rudy.toml:16), which is for: client 192.0.2.0/24");
    assert_eq!(&lines[4..], ["Route     /* (rudy.toml:20)", "Handler   respond: 200 with 6 bytes of text"]);
    let lines = explain(&["--from", "192.0.2.1"]);
    assert_eq!(lines.last().map(String::as_str), Some("Handler   respond: 200 with 19 bytes of text"));
}

#[test]
fn a_condition_that_no_request_can_meet_is_reported() {
    let route = "[[site]]\n[[site.route]]\npath = '/*'\nwhen = { certificate = '*' }\nrespond = 404\n";
    let (_, error) = Rudy::check(route).error();
    assert!(error.contains("the site asks for no client certificates"), "{error}");
}
