//! Tests of settings at the top of the main file, which are for all sites.

use rudy_config::Location;

use super::{app, lines, load, send};
use crate::config::Config;

/// The status of a GET by a client at 192.0.2.7.
fn status(text: &str, target: &str, fields: &[(&str, &str)]) -> u16 {
    send(&app(text), "http", target, fields).status().as_u16()
}

/// `ann:secret`.
const ANN: (&str, &str) = ("authorization", "Basic YW5uOnNlY3JldA==");

#[test]
fn a_site_has_the_settings_for_all_sites_unless_it_has_its_own() {
    let text = |of_site: &str| {
        format!(
            "response_headers = {{ X-All = 'all', X-Both = 'all' }}
             security_headers = true
             error_pages = 'errors'
             [[site]]\nroot = 'www'\nresponse_headers = {{ X-Site = 'site', X-Both = 'site' }}\n{of_site}"
        )
    };
    for (of_site, target, page) in [
        ("", "/none", "<p>404"),
        ("error_pages = { 404 = { file = 'www/a.txt' } }", "/none", "text"),
        ("error_pages = { 5xx = { file = 'www/a.txt' } }", "/none", "<p>404"),
    ] {
        let response = send(&app(&text(of_site)), "http", target, &[]);
        let of = |name| lines(response.headers(), name).join(",");
        assert_eq!((of("x-all"), of("x-both"), of("x-site")), ("all".into(), "site".into(), "site".into()));
        assert_eq!(of("x-frame-options"), "SAMEORIGIN");
        let rudy_service::Body::Bytes(body) = &response.body else { panic!("a page") };
        assert_eq!(body, page, "{of_site}");
    }
    let own = app(&text("security_headers = false"));
    let response = send(&own, "http", "/a.txt", &[]);
    assert!(response.headers().get("x-frame-options").is_none());
}

#[test]
fn access_rules_logins_and_limits_apply_besides_those_of_a_site_until_false_switches_them_off() {
    let text = |of_all: &str, of_site: &str, of_route: &str| {
        format!(
            "{of_all}\n[[site]]\nroot = 'www'\n{of_site}\n[[site.route]]\npath = '/r/*'\nfiles = 'www'\n{of_route}\n"
        )
    };
    let (denied, allowed) = ("deny = '192.0.2.7'", "allow = 'anyone'");
    for (of_all, of_site, of_route, of_path, expected) in [
        (denied, "", "", "/a.txt", 403),
        (denied, allowed, "", "/a.txt", 403),
        (denied, "", allowed, "/r/a.txt", 403),
        (denied, "access = false", "", "/a.txt", 200),
        (denied, "", "access = false", "/r/a.txt", 200),
        (denied, "", "access = false", "/a.txt", 403),
        (allowed, denied, "", "/a.txt", 403),
        ("basic_auth = 'htpasswd'", "", "", "/a.txt", 401),
        ("basic_auth = 'htpasswd'", "", "basic_auth = false", "/r/a.txt", 200),
        ("basic_auth = 'htpasswd'", "basic_auth = false", "", "/r/a.txt", 200),
        ("maintenance = 'www'", "", "", "/a.txt", 503),
        ("maintenance = 'www'", "maintenance = false", "", "/a.txt", 200),
    ] {
        let text = text(of_all, of_site, of_route);
        assert_eq!(status(&text, of_path, &[]), expected, "{text}");
    }
    let both = text("basic_auth = 'htpasswd'", "basic_auth = { file = 'htpasswd', realm = 'own' }", "");
    assert_eq!(status(&both, "/a.txt", &[ANN]), 200, "ann is in both files");
    assert_eq!(status(&both, "/a.txt", &[]), 401);
}

#[test]
fn a_limit_for_all_sites_counts_the_requests_of_all_and_besides_their_own() {
    let text = |of_site: &str| {
        format!(
            "rate_limit = {{ rate = '2/h', burst = 2 }}
             [[site]]\nhosts = 'a.org'\nroot = 'www'\n{of_site}
             [[site]]\nroot = 'www'\n"
        )
    };
    let server = app(&text(""));
    let other = [("host", "b.org")];
    let codes: Vec<_> = [&[][..], &other, &[]]
        .iter()
        .map(|fields| send(&server, "http", "/a.txt", fields).status().as_u16())
        .collect();
    assert_eq!(codes, [200, 200, 429], "both sites count together");
    let server = app(&text("rate_limit = '1/h'"));
    let codes: Vec<_> = (0..2).map(|_| send(&server, "http", "/a.txt", &[]).status().as_u16()).collect();
    assert_eq!(codes, [200, 429], "its own is lower");
    let route = "rate_limit = false\nroute = [{ path = '/r/*', files = 'www', rate_limit = { rate = '3/h', burst = 3 } }]";
    let server = app(&text(route));
    let codes: Vec<_> = (0..4).map(|_| send(&server, "http", "/r/a.txt", &[]).status().as_u16()).collect();
    assert_eq!(codes, [200, 200, 200, 429], "its site switches off the one for all sites");
    let server = app(&text("rate_limit = false"));
    assert!((0..5).all(|_| send(&server, "http", "/a.txt", &[]).status() == 200));
}

#[test]
fn tls_for_all_sites_leaves_out_those_that_cannot_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = |text: &str| {
        let file = folder.path().join("rudy.toml");
        std::fs::write(&file, text).unwrap();
        Config::load_with(&file, |_| Vec::new()).map_err(|errors| errors.to_string()).unwrap()
    };
    let loaded = config(
        "tls = 'auto'\nhsts = '365d'
         [[site]]\nhosts = 'a.org'\nroot = '.'
         [[site]]\nhosts = 'intranet'\nroot = '.'
         [[site]]\nroot = '.'
         [[site]]\nhosts = 'b.org'\nlisten = '127.0.0.1:9000'\nroot = '.'
         [[site]]\nhosts = 'c.org'\ntls = 'self-signed'\nhsts = false\nroot = '.'\n",
    );
    let with = |has: fn(&crate::config::Site) -> bool| loaded.sites.iter().map(has).collect::<Vec<_>>();
    assert_eq!(with(|site| site.tls.is_some()), [true, false, false, false, true]);
    assert_eq!(with(crate::config::Site::is_auto), [true, false, false, false, false]);
    assert_eq!(
        with(|site| site.hsts.as_ref().is_some_and(|hsts| hsts.on().is_some())),
        [true, false, false, false, false]
    );
    assert!(loaded.addresses().iter().any(|address| address.tls), "the addresses of an authority");
    assert_eq!(loaded.location, Location::file(0));
}

#[test]
fn mistakes_in_settings_for_all_sites_are_reported_once() {
    for (setting, problem) in [
        ("response_headers = { Date = 'now' }", "Date cannot be changed"),
        ("basic_auth = 'missing'", "cannot use the users of"),
        ("authorize = { params = { A = 'a' } }", "the key `address` is missing"),
        ("error_pages = 'missing'", "cannot use the error pages in"),
        ("rate_limit = { rate = '1/s', by = 'user' }", "without"),
    ] {
        let sites = "[[site]]\nhosts = 'a.org'\nroot = 'www'\n[[site]]\nroot = 'www'\n";
        let error = load(&format!("{setting}\n{sites}")).err().unwrap_or_default();
        assert_eq!(error.matches(problem).count(), 1, "{setting}: {error}");
        assert!(error.ends_with("1 error in the configuration\n"), "{setting}: {error}");
    }
}
