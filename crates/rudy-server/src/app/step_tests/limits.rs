//! Tests of limits on whole configurations.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use http::{HeaderValue, header};
use rudy_guard::Limits;
use rudy_http::h1::{Event, ServerConnection};
use rudy_message::LazyHead;
use rudy_pipeline::Resources;
use rudy_service::{Body, Client, Peer, Reply, Request, RequestBody, Response, Service};
use tempfile::TempDir;

use crate::App;
use crate::config::Config;

/// A configuration that is ready, and what a reload keeps.
pub(super) struct Site {
    pub(super) app: App,
    pub(super) resources: Resources,
    pub(super) folder: TempDir,
}

impl Site {
    pub(super) fn new(text: &str) -> Self {
        Self::try_new(text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    pub(super) fn try_new(text: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("www")).unwrap();
        std::fs::write(folder.path().join("www/a.txt"), "text").unwrap();
        std::fs::write(folder.path().join("htpasswd"), format!("ann:{HASH}\nbob:{HASH}\n")).unwrap();
        let large = folder.path().join("www/large.txt");
        std::fs::write(&large, vec![b'x'; 100_000]).unwrap();
        // Only files that have not changed for a while are served from the head.
        let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
        std::fs::File::options().write(true).open(&large).unwrap().set_modified(an_hour_ago).unwrap();
        let resources = Resources::default();
        let app = load(&folder, text, &resources)?;
        Ok(Self { app, resources, folder })
    }

    /// Replaces the configuration.
    pub(super) fn reload(&mut self, text: &str) {
        self.app = load(&self.folder, text, &self.resources).unwrap();
    }

    /// Sends a request as the client at this address.
    pub(super) fn begin(&self, address: &str, target: &str, fields: &[(&str, &str)]) -> Reply {
        let mut request = http::Request::get(target);
        if !fields.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "a.org");
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        self.app.call(request.body(RequestBody::empty()).map(Request::from).unwrap(), &client(address))
    }

    pub(super) fn send(&self, address: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { self.begin(address, target, fields).response().await })
    }

    pub(super) fn status(&self, address: &str, target: &str) -> u16 {
        self.send(address, target, &[]).status().as_u16()
    }

    /// Sends a GET as it is received by a connection. The response does not wait.
    pub(super) fn send_received(&self, address: &str, target: &str, fields: &str) -> Response {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n{fields}\r\n");
        let now = std::time::Instant::now();
        match ServerConnection::new(now).receive(text.as_bytes(), now, &rudy_http::Limits::default()) {
            Ok(Some(Event::Request(head))) => {
                let request = Request::new(LazyHead::new(&head), RequestBody::empty());
                match self.app.call(request, &client(address)) {
                    Reply::Now(response) => response,
                    Reply::Later(_) => panic!("the response waits"),
                }
            }
            _ => panic!("not a head"),
        }
    }

    /// The numbers of requests over each limit: rejected, and passed in a dry run.
    pub(super) fn over(&self) -> Vec<(u64, u64)> {
        self.resources
            .of::<Limits>()
            .status()
            .iter()
            .map(|status| (status.rejected, status.dry_run))
            .collect()
    }
}

pub(super) fn load(folder: &TempDir, text: &str, resources: &Resources) -> Result<App, String> {
    let file = folder.path().join("rudy.toml");
    std::fs::write(&file, text).unwrap();
    let app = Config::load(&file).and_then(|config| App::new(&config, resources));
    app.map_err(|errors| errors.to_string())
}

pub(super) fn client(address: &str) -> Client<'static> {
    let peer = match address {
        "unix" => Peer::Unix,
        address => Peer::Ip(SocketAddr::new(address.parse::<IpAddr>().unwrap(), 7)),
    };
    Client::new(peer, 1, 1)
}

/// A site with this limit and two routes.
pub(super) fn site(limit: &str) -> Site {
    Site::new(&format!(
        "[[site]]\n{limit}\n[[site.route]]\npath = '/fixed'\nrespond = {{ body = 'fixed' }}\n\
         [[site.route]]\npath = '/again'\nrewrite = '/fixed'\n\
         [[site.route]]\npath = '/*'\nfiles = 'www'\n"
    ))
}

/// `secret`, hashed with bcrypt (cost 5).
const HASH: &str = "$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS";

/// `ann:secret`, `bob:secret`, `ann:wrong`, and a user whose name is no field value.
pub(super) const ANN: &[(&str, &str)] = &[("authorization", "Basic YW5uOnNlY3JldA==")];
pub(super) const BOB: &[(&str, &str)] = &[("authorization", "Basic Ym9iOnNlY3JldA==")];
pub(super) const WRONG: &[(&str, &str)] = &[("authorization", "Basic YW5uOndyb25n")];
pub(super) const INVALID: &[(&str, &str)] = &[("authorization", "Basic YQpiOmM=")];

pub(super) const A: &str = "192.0.2.7";
pub(super) const B: &str = "192.0.2.8";

#[test]
fn a_request_over_the_rate_gets_429_and_the_time_to_wait() {
    let site = site("rate_limit = '2/h'");
    assert_eq!((site.status(A, "/fixed"), site.status(A, "/a.txt")), (200, 200), "all routes count together");
    let over = site.send(A, "/fixed", &[]);
    assert_eq!(over.status(), 429);
    let wait: u64 = over.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1700..=1800).contains(&wait), "{wait}");
    assert!(
        matches!(&over.body, Body::Bytes(text) if text.starts_with(b"429 Too Many Requests\nToo many requests. Try again in 1,"))
    );
    assert_eq!(site.status(B, "/fixed"), 200);
    assert_eq!(site.over(), [(1, 0)]);
    let status = &site.resources.of::<Limits>().status()[0];
    assert_eq!((status.top[0].key.as_str(), status.top[0].count), (A, 1));
    assert_eq!((status.name.as_str(), status.max.as_str()), ("the default site", "2/h, 2 at once"));
}

#[test]
fn a_burst_has_its_own_size() {
    let site = site("rate_limit = { rate = '1/h', burst = 3, status = 503 }");
    let statuses: Vec<_> = (0..4).map(|_| site.status(A, "/fixed")).collect();
    assert_eq!(statuses, [200, 200, 200, 503]);
}

#[test]
fn each_spelling_of_a_key_is_the_same_key() {
    for (by, requests) in [
        ("'address'", [("192.0.2.7", "/fixed", ""), ("::ffff:192.0.2.7", "/fixed", "")]),
        ("'address'", [("2001:db8::1", "/fixed", ""), ("2001:db8::ffff:2", "/fixed", "")]),
        ("'address'", [("unix", "/fixed", ""), ("unix", "/a.txt", "")]),
        ("'path'", [(A, "/fixed", ""), (B, "/x/..//%66ixed?query", "")]),
        ("'host'", [(A, "/fixed", "host=a.org"), (B, "/fixed", "host=A.ORG.:80")]),
        ("'header.X-Key'", [(A, "/fixed", "x-key=a"), (B, "/fixed", "x-key=a")]),
        ("'header.x-key'", [(A, "/fixed", "x-key=a, b"), (B, "/fixed", "x-key=a;x-key=b")]),
        ("'header.x-key'", [(A, "/fixed", ""), (B, "/fixed", "other=a")]),
        // A further line does not change what a client is counted by.
        ("'header.x-key'", [(A, "/fixed", "x-key=a"), (B, "/fixed", "x-key=a;x-key=b")]),
        ("'header.x-key'", [(A, "/fixed", "x-key=a"), (B, "/fixed", "x-key=b;x-key=c;x-key=a")]),
        ("'header.x-key'", [(A, "/fixed", "x-key=b;x-key=a"), (B, "/fixed", "x-key=a;x-key=c")]),
        ("['path', 'header.x-key']", [(A, "/fixed", "x-key=a"), (B, "/fixed", "x-key=;x-key=a")]),
        ("['address', 'header.x-key']", [(A, "/fixed", "x-key=a"), (A, "/a.txt", "x-key=a")]),
        ("'all'", [(A, "/fixed", ""), (B, "/a.txt", "x-key=a")]),
    ] {
        let site = site(&format!("rate_limit = {{ rate = '1/h', by = {by} }}"));
        let statuses = requests.map(|(address, target, fields)| {
            let fields: Vec<_> = fields.split(';').filter_map(|field| field.split_once('=')).collect();
            site.send(address, target, &fields).status().as_u16()
        });
        assert_eq!(statuses, [200, 429], "{by}: {requests:?}");
    }
}

#[test]
fn other_keys_have_another_allowance() {
    for (by, requests) in [
        ("'address'", [("2001:db8::1", "/fixed", ""), ("2001:db8:0:1::1", "/fixed", "")]),
        ("'path'", [(A, "/fixed", ""), (A, "/a.txt", "")]),
        ("'header.x-key'", [(A, "/fixed", "x-key=a"), (A, "/fixed", "x-key=b")]),
        ("['address', 'path']", [(A, "/fixed", ""), (B, "/fixed", "")]),
        ("['address', 'path']", [(A, "/fixed", ""), (A, "/a.txt", "")]),
    ] {
        let site = site(&format!("rate_limit = {{ rate = '1/h', by = {by} }}"));
        let statuses = requests.map(|(address, target, fields)| {
            let fields: Vec<_> = fields.split_once('=').into_iter().collect();
            site.send(address, target, &fields).status().as_u16()
        });
        assert_eq!(statuses, [200, 200], "{by}: {requests:?}");
    }
}

#[test]
fn a_request_that_is_over_the_limit_by_one_line_is_not_counted_by_the_others() {
    let site = site("rate_limit = { rate = '1/h', by = ['header.x-key', 'header.cookie'] }");
    let status = |name: &str, lines: &[&str]| {
        let fields: Vec<_> = lines.iter().map(|line| (name, *line)).collect();
        site.send(A, "/fixed", &fields).status().as_u16()
    };
    let keys = [&["a"][..], &["b", "a"], &["b"], &["c", "c"], &["c"]].map(|lines| status("x-key", lines));
    assert_eq!(keys, [200, 429, 200, 200, 429]);
    // HTTP/2 splits this field at any semicolon.
    let cookies = [&["d=1; e=2"][..], &["d=1", "e=2"], &["d=1"]].map(|lines| status("cookie", lines));
    assert_eq!(cookies, [200, 429, 200]);
}

#[test]
fn a_received_request_has_the_same_key() {
    for (by, fields) in
        [("address", ""), ("path", ""), ("host", ""), ("header.x-key", "X-KEY:  a\r\nx-key: b\r\n")]
    {
        let site = site(&format!("rate_limit = {{ rate = '3/h', by = '{by}' }}"));
        assert_eq!(site.send_received(A, "/fixed", fields).status(), 200, "{by}");
        let whole: &[(&str, &str)] = if fields.is_empty() { &[] } else { &[("x-key", "a, b")] };
        assert_eq!(site.send(A, "/fixed", whole).status(), 200, "{by}");
        assert_eq!(site.send_received(A, "/fixed", fields).status(), 200, "{by}");
        assert_eq!(site.send_received(A, "/fixed", fields).status(), 429, "{by}");
        assert_eq!(site.over(), [(1, 0)]);
        assert_eq!(site.send(A, "/fixed", whole).status(), 429, "{by}");
        assert_eq!(site.over(), [(2, 0)]);
    }
}

#[test]
fn an_internal_redirect_counts_as_one_request() {
    let site = site("rate_limit = '2/h'\nconcurrent_requests = 1");
    assert_eq!(
        (site.status(A, "/again"), site.status(A, "/again"), site.status(A, "/again")),
        (200, 200, 429)
    );
    assert_eq!(site.status(B, "/fixed"), 200);
}

#[test]
fn an_error_page_of_the_site_is_not_limited() {
    let site = Site::new(
        "[[site]]\nrate_limit = '1/h'\nconcurrent_requests = 1\nerror_pages = { 429 = '/sorry' }\n\
         [[site.route]]\npath = '/sorry'\nrespond = { body = 'sorry' }\n\
         [[site.route]]\npath = '/*'\nrespond = { body = 'fine' }\n",
    );
    assert_eq!(site.status(A, "/"), 200);
    let over = site.send(A, "/", &[]);
    assert!(over.status() == 429 && matches!(&over.body, Body::Bytes(text) if text == "sorry"));
    assert!(over.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(site.status(A, "/sorry"), 429, "the page itself is limited");
}

#[test]
fn an_error_page_is_limited_if_the_request_was_not() {
    let site = Site::new(
        "[[site]]\nrate_limit = '1/h'\nerror_pages = { 404 = '/lost' }\n\
         [[site.route]]\npath = '/lost'\nrespond = { body = 'lost' }\n",
    );
    let is_page = |response: &Response| matches!(&response.body, Body::Bytes(text) if text == "lost");
    let [first, second] = ["/one", "/two"].map(|target| site.send(A, target, &[]));
    assert!(first.status() == 404 && is_page(&first));
    assert!(second.status() == 404 && !is_page(&second));
}

#[test]
fn an_error_page_does_not_show_whether_a_password_is_correct() {
    let site = Site::new(
        "[[site]]\nbasic_auth = 'htpasswd'\nrate_limit = { rate = '1/h', counts = 'failed-logins' }\n\
         error_pages = { 404 = '/page', 429 = '/page' }\n\
         [[site.route]]\npath = ['/page', '/app']\nrespond = { body = 'page' }\n",
    );
    let is_page = |response: &Response| matches!(&response.body, Body::Bytes(text) if text == "page");
    // A path without a route has no login.
    assert!(!is_page(&site.send(A, "/none", ANN)), "the password of its page is not verified");
    assert_eq!([WRONG, WRONG].map(|fields| site.send(A, "/app", fields).status().as_u16()), [401, 429]);
    let correct = site.send(A, "/app", ANN);
    assert!(correct.status() == 429 && !is_page(&correct));
    assert_eq!(site.send(A, "/app", ANN).status(), 429, "it was not verified, and is not remembered");
    assert_eq!(site.send(B, "/app", ANN).status(), 200);
    for address in [A, B] {
        assert!(
            !is_page(&site.send(address, "/none", ANN)),
            "it is remembered, and was not sent for the page"
        );
        assert!(!is_page(&site.send(address, "/none", WRONG)));
    }
}

#[test]
fn a_user_sees_the_error_page_of_a_route_with_the_same_login() {
    for (file, is_page) in [("htpasswd", true), ("www/../htpasswd", false)] {
        let site = Site::new(&format!(
            "[[site]]\nbasic_auth = 'htpasswd'\nerror_pages = {{ 401 = '/page', 404 = '/page' }}\n\
             [[site.route]]\npath = '/page'\nrewrite = '/text'\n\
             [[site.route]]\npath = '/text'\nbasic_auth = '{file}'\nrespond = {{ body = 'page' }}\n\
             [[site.route]]\npath = '/*'\nfiles = 'www'\n",
        ));
        for (fields, status, is_page) in [(ANN, 404, is_page), (WRONG, 401, false), (&[], 401, false)] {
            // Verified first, and then remembered.
            for _ in 0..2 {
                let response = site.send(A, "/missing", fields);
                let shown = matches!(&response.body, Body::Bytes(text) if text == "page");
                assert_eq!((response.status().as_u16(), shown), (status, is_page), "{file} {fields:?}");
            }
        }
    }
}

#[test]
fn a_dry_run_lets_requests_pass_and_keeps_its_counts_when_it_ends() {
    let text = |dry_run: bool| {
        format!(
            "[[site]]\nrate_limit = {{ rate = '1/h', dry_run = {dry_run} }}\n[[site.route]]\npath = '/*'\nrespond = 200\n"
        )
    };
    let mut site = Site::new(&text(true));
    assert_eq!((site.status(A, "/"), site.status(A, "/")), (200, 200));
    assert_eq!(site.send_received(A, "/", "").status(), 200);
    assert_eq!(site.over(), [(0, 2)]);
    site.reload(&text(false));
    assert_eq!(site.status(A, "/"), 429);
    assert_eq!(site.over(), [(1, 2)]);
}

#[test]
fn a_request_over_one_limit_uses_no_allowance_of_the_others() {
    let site =
        site("rate_limit = [{ rate = '2/h', by = 'address' }, { rate = '1/h', by = ['address', 'path'] }]");
    let statuses =
        ["/fixed", "/fixed", "/fixed", "/a.txt", "/large.txt"].map(|target| site.status(A, target));
    assert_eq!(statuses, [200, 429, 429, 200, 429]);
    assert_eq!(site.over(), [(1, 0), (2, 0)]);
}

#[test]
fn a_route_has_its_own_limits_and_a_name_shares_them() {
    let route = |path: &str, more: &str| format!("[[site.route]]\npath = '{path}'\nrespond = 200\n{more}\n");
    let site = Site::new(&format!(
        "[[site]]\nrate_limit = '1/h'\n{}{}{}{}{}",
        route("/own", "rate_limit = '1/h'"),
        route("/login", "rate_limit = { rate = '1/h', name = 'login' }"),
        route("/reset", "rate_limit = { rate = '1/h', name = 'login', dry_run = true }"),
        route("/one", ""),
        route("/two", ""),
    ));
    let statuses =
        ["/own", "/own", "/one", "/two", "/login", "/login", "/reset"].map(|target| site.status(A, target));
    assert_eq!(statuses, [200, 429, 200, 429, 200, 429, 200]);
    let errors = Site::try_new(&format!(
        "[[site]]\n{}{}",
        route("/login", "rate_limit = { rate = '1/h', name = 'login' }"),
        route("/reset", "rate_limit = { rate = '2/h', name = 'login' }"),
    ));
    assert!(errors.is_err_and(|errors| errors.contains("two limits named \"login\" differ")));
}

#[test]
fn false_switches_off_the_limits_of_the_site() {
    let off = "rate_limit = false\nconcurrent_requests = false\nbandwidth = false\n";
    let site = Site::new(&format!(
        "[[site]]\nrate_limit = '1/h'\nconcurrent_requests = 1\nbandwidth = '1'\n\
         [[site.route]]\npath = '/free'\nrespond = {{ body = 'free' }}\n{off}\
         [[site.route]]\npath = '/*'\nrespond = 204\n",
    ));
    assert_eq!((site.status(A, "/"), site.status(A, "/")), (204, 429));
    let free: Vec<_> = (0..3).map(|_| site.send(A, "/free", &[])).collect();
    assert!(free.iter().all(|response| matches!(&response.body, Body::Bytes(text) if text == "free")));
}

#[test]
fn invalid_limits_are_reported() {
    for (limit, error) in [
        ("rate_limit = '10'", "\"10\" is not a rate"),
        ("rate_limit = { rate = '10/s', by = 'adress' }", "\"adress\" is not a part of a request"),
        ("rate_limit = { rate = '10/s', by = 'header.a b' }", "is not the name of a header field"),
        ("rate_limit = { rate = '10/s', burst = 0 }", "0 is out of range"),
        ("rate_limit = { rate = '10/s', status = 200 }", "200 is out of range"),
        ("rate_limit = { burst = 3 }", "rate"),
        ("concurrent_requests = 0", "0 is out of range"),
        ("bandwidth = '0'", "is out of range"),
        ("bandwidth = 'fast'", "fast"),
    ] {
        let text = format!("[[site]]\n{limit}\n[[site.route]]\npath = '/*'\nrespond = 200\n");
        let errors = Site::try_new(&text).err().unwrap_or_else(|| panic!("{limit} is valid"));
        assert!(errors.contains(error), "{limit}: {errors}");
    }
    let list = vec!["'1/s'"; 17].join(", ");
    let text = format!("[[site]]\nrate_limit = [{list}]\n[[site.route]]\npath = '/*'\nrespond = 200\n");
    assert!(Site::try_new(&text).is_err_and(|errors| errors.contains("more than 16 limits")));
}

#[test]
fn fields_show_what_is_left() {
    let site = site(
        "rate_limit = [{ rate = '2/m', burst = 3, name = 'a', send_fields = true }, \
         { rate = '10/h', by = 'path', name = 'b \"', send_fields = true }]",
    );
    let lines = |response: &Response, name: &str| {
        let values = response.headers().get_all(name).iter().map(HeaderValue::to_str);
        let mut values: Vec<_> = values.map(|value| value.unwrap().to_owned()).collect();
        values.sort();
        values
    };
    let response = site.send(A, "/fixed", &[]);
    assert_eq!(lines(&response, "ratelimit-policy"), ["\"a\";q=3;w=90", "\"b \\\"\";q=10;w=3600"]);
    let begins = |response: &Response, expected: &[&str]| {
        let lines = lines(response, "ratelimit");
        lines.len() == expected.len()
            && lines.iter().zip(expected).all(|(line, begin)| line.starts_with(begin))
    };
    assert!(begins(&response, &["\"a\";r=2;t=", "\"b \\\"\";r=9;t="]));
    site.status(A, "/fixed");
    site.status(A, "/fixed");
    let over = site.send(A, "/fixed", &[]);
    assert!(over.status() == 429 && begins(&over, &["\"a\";r=0;t="]));
}

#[test]
fn a_reload_keeps_the_counts_of_limits_that_do_not_change() {
    let text = |rate: &str, more: &str| {
        format!(
            "[[site]]\nrate_limit = '{rate}'\nconcurrent_requests = 1\n{more}[[site.route]]\npath = '/*'\nrespond = 200\n"
        )
    };
    let mut site = Site::new(&text("1/h", ""));
    assert_eq!((site.status(A, "/"), site.status(A, "/")), (200, 429));
    site.reload(&text("1/h", "response_headers = { X-New = 'yes' }\n"));
    let over = site.send(A, "/", &[]);
    assert!(over.status() == 429 && over.headers().contains_key("x-new"));
    site.reload(&text("2/h", ""));
    assert_eq!((site.status(A, "/"), site.status(A, "/"), site.status(A, "/")), (200, 200, 429));
    assert_eq!(site.resources.of::<Limits>().status().len(), 2, "the former limit is gone");
}
