//! Reloads that change the steps of a server.

use rudy_tests::prelude::*;

const KEPT: &str = "the configuration is unchanged";
const TAKEN_OVER: &str = "the configuration was reloaded";

/// Starts a server with these files next to its configuration.
fn start(files: &[(&str, &str)], text: &str) -> Server {
    let folder = Folder::with(files);
    folder.write("rudy.toml", text);
    Server::build().config_of(folder).start()
}

/// A configuration in which each step depends on its version.
fn text(version: &str) -> String {
    let (limit, timeout) = if version == "a" { ("1k", "1m") } else { ("2k", "2m") };
    format!(
        "listen = '127.0.0.1:0'\n[[site]]\nresponse_headers = {{ X-Version = '{version}', X-Path = '{{path}}' }}\n\
         error_pages = {{ 404 = '/page-{version}' }}\nbody_bytes = '{limit}'\nrequest_timeout = '{timeout}'\n\
         security_headers = {}\nredirects = 'redirects-{version}.txt'\n\
         [[site.route]]\npath = '/page-{version}'\nrespond = {{ body = 'page {version}' }}\n\
         [[site.route]]\npath = '/fixed'\nrespond = {{ body = 'fixed {version}' }}\n\
         [[site.route]]\npath = 'regex:^/again(.*)$'\nrewrite = '/fixed?{version}={{1}}'\n\
         [[site.route]]\npath = '/delayed'\ndelay = {{ time = '2ms', body = 'delayed {version}' }}\n",
        version == "a"
    )
}

/// Every part of a response is from the same version.
fn check(target: &str, response: &Response) {
    let version = response.field("x-version").unwrap_or_else(|| panic!("{target}: {}", response.head));
    assert_eq!(response.field("x-frame-options").is_some(), version == "a", "{target}: {}", response.head);
    let (status, body) = match target {
        "/fixed" | "/again/x" => (200, format!("fixed {version}")),
        "/delayed" => (200, format!("delayed {version}")),
        "/none" => (404, format!("page {version}")),
        _ => {
            assert_eq!(response.field("location"), Some(&*format!("/new-{version}")), "{}", response.head);
            return assert_eq!(response.status, 301);
        }
    };
    assert_eq!((response.status, response.text()), (status, &*body), "{target}");
}

#[test]
fn reloads_that_change_the_steps_fail_no_request() {
    let files = [("redirects-a.txt", "/old /new-a 301\n"), ("redirects-b.txt", "/old /new-b 301\n")];
    let mut server = start(&files, &text("a"));
    let targets = &["/fixed", "/none", "/old", "/delayed", "/again/x"];
    let load = Load::start(server.address(), &[1, 3, 1000], targets, check);
    for version in ["b", "a"].repeat(20) {
        server.reload_with(&text(version), TAKEN_OVER);
        let response = server.get("/fixed");
        check("/fixed", &response);
        assert_eq!(response.field("x-version"), Some(version));
    }
    assert!(load.stop().responses > 100);
}

#[test]
fn a_reload_without_one_of_its_files_changes_nothing() {
    let text = "listen = '127.0.0.1:0'\n[[site]]\nredirects = 'redirects.txt'\n\
                error_pages = { folder = 'errors', 403 = { file = '403.html' } }\n\
                [[site.route]]\npath = '/secret'\nrespond = 403\n";
    let files = [
        ("redirects.txt", "/old /new\n"),
        ("errors/404.html", "<p>missing"),
        ("errors/5xx.html.j2", "<p>{{ status }}"),
        ("403.html", "<p>secret"),
    ];
    let mut server = start(&files, text);
    let stays = |server: &Server| {
        let sent = ["/old", "/none", "/secret"].map(|target| server.get(target));
        let sent: Vec<_> = sent.iter().map(|response| (response.status, response.text())).collect();
        assert_eq!(sent[1..], [(404, "<p>missing"), (403, "<p>secret")]);
        assert_eq!(sent[0].0, 301);
    };
    stays(&server);
    for (name, broken, why) in [
        ("403.html", None, "cannot use the error page for 403"),
        ("redirects.txt", None, "cannot read the redirects in"),
        ("redirects.txt", Some("/old\n"), "line 1: expected a path, a target"),
        ("errors/5xx.html.j2", Some("<p>{{ stauts }}"), "cannot use the error pages in"),
    ] {
        match broken {
            None => fs::remove_file(server.path().join(name)).unwrap(),
            Some(text) => server.path().add(&[(name, text)]),
        }
        server.reload(KEPT);
        server.wait_for_line(why);
        let errors = Rudy::command(["check"]).arg(server.path().join("rudy.toml")).output().failed_with(2);
        assert!(errors.contains(why) && errors.contains("rudy.toml"), "{why}: {errors}");
        stays(&server);
        server.path().add(&files);
    }
    server.path().add(&[("errors/404.html", "<p>changed"), ("redirects.txt", "/older /new\n")]);
    stays(&server);
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/none").text(), "<p>changed");
    assert_eq!((server.get("/old").status, server.get("/older").status), (404, 301));
}
