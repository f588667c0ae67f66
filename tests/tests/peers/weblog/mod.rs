//! The example app `weblog`: one process behind each web server, and its pages in Chromium.

mod browser;

use rudy_tests::prelude::*;

use crate::fastcgi_app::Info;
use crate::fastcgi_app::web_server::WebServer;

/// The number of requests through each web server. `RUDY_TEST_REQUESTS` overrides it.
const REQUESTS: u64 = 2000;

/// What the requests are for, in turn.
const PATHS: [&str; 5] = ["/", "/?page=2", "/posts/one-process", "/search?q=process", "/feed.atom"];

/// How much more memory the app may use after the first requests, in bytes.
const GROWTH_MAX: u64 = 32 * 1024 * 1024;

#[test]
fn one_process_serves_all_requests_behind_each_web_server() {
    needs!(long());
    let weblog_folder = Weblog::new("https://notes.example", None);
    let mut command = Command::new(weblog());
    let app = Info::start_command(command.arg(weblog_folder.path()));
    let reused = "fastcgi_pass app; fastcgi_keep_conn on;";
    if let Some(nginx) = WebServer::nginx(app.address(), reused) {
        check("nginx", &app, &nginx.url(""));
    }
    let (host, port) = app.address().split_once(':').expect("an address with a port");
    if let Some(lighttpd) = WebServer::lighttpd(|_| format!("\"host\" => \"{host}\", \"port\" => {port}")) {
        check("lighttpd", &app, &lighttpd.url(""));
    }
    let pass = format!("ProxyPass / fcgi://{}/ enablereuse=on", app.address());
    if let Some(apache) = WebServer::apache(&["proxy", "proxy_fcgi"], |_| pass.clone()) {
        check("Apache", &app, &apache.url(""));
    }
    let rudy = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\n[[site.route]]\npath = '/*'\nfastcgi = {{ address = '{}' }}\n",
        app.address()
    ));
    check("Rudy", &app, &rudy.url(""));
}

/// Sends the requests. Each must succeed, and the app must be the same process, without more descriptors or memory.
#[expect(clippy::print_stderr, reason = "the figures are for the documentation")]
fn check(name: &str, app: &Info, site: &str) {
    let requests = std::env::var("RUDY_TEST_REQUESTS").ok().and_then(|number| number.parse().ok());
    let requests = requests.unwrap_or(REQUESTS);
    send(site, REQUESTS.min(requests));
    let (memory, descriptors) = (memory_of(app.pid(), "VmRSS"), descriptors_of(app.pid()));
    let report = send(site, requests);
    let (after, open) = (memory_of(app.pid(), "VmRSS"), descriptors_of(app.pid()));
    eprintln!(
        "{name}: {requests} requests, {:.0}/s; the app has {} kB (before: {}), {open} descriptors (before: {descriptors})",
        report["achieved_rate"].as_f64().unwrap_or_default(),
        after / 1024,
        memory / 1024,
    );
    assert!(after < memory + GROWTH_MAX, "{name}: the memory grows from {memory} to {after}");
    assert!(open <= descriptors + 32, "{name}: the descriptors grow from {descriptors} to {open}");
}

/// Sends this number of requests on eight connections, and returns the report.
fn send(site: &str, requests: u64) -> Value {
    let urls = PATHS.map(|path| format!("{site}{path}"));
    let output = Rudy::command(["bench"])
        .args(urls)
        .args(["--connections", "8", "--json", "-", "--requests"])
        .arg(requests.to_string())
        .output();
    let errors = &output.stderr;
    let report = output.json();
    assert_eq!(
        (&report["requests"], &report["error_rate"]),
        (&requests.into(), &0.0.into()),
        "{site}: {errors}"
    );
    report
}
