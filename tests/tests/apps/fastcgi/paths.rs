//! The normalized path that applications and authorizers receive, and that no spelling of it bypasses a route.
//!
//! `tests/src/bin/spellings.rs` sends the same requests to any server.

use rudy_fastcgi::Role;
use rudy_fastcgi::pairs::Params;
use rudy_tests::prelude::*;

/// Responds with all variables, one per line, and the length of the body. As an authorizer it rejects paths that begin with
/// `/secret`.
fn echo(peer: &mut Peer, params: &Params) {
    let pairs = params.iter().map(|(name, value)| [name, b"=", value, b"\n"].concat());
    let all = pairs.collect::<Vec<_>>().concat();
    if peer.role() == Role::Authorizer {
        let is_secret = variable(params, "REQUEST_URI").starts_with("/secret");
        let head = if is_secret { "Status: 403\r\n" } else { "Status: 200\r\nVariable-SEEN: yes\r\n" };
        // Pass the variables on to the application, where a test can read them.
        let names = ["REQUEST_URI", "DOCUMENT_URI", "ORIGINAL_URI"];
        let seen = names.map(|name| format!("Variable-SEEN_{name}: {}\r\n", variable(params, name))).concat();
        return peer.respond(format!("{head}{seen}\r\n").as_bytes());
    }
    let Some(bytes) = peer.body() else { return };
    // Like most error scripts, this one sets the status itself.
    let is_sorry = variable(params, "SCRIPT_NAME") == "/sorry.php";
    let status: &[u8] = if is_sorry { b"Status: 404\r\nETag: \"x\"\r\n" } else { b"" };
    let end = format!("BODY={bytes}\n");
    peer.respond(&[status, b"Content-Type: text/plain\r\n\r\n", &all, end.as_bytes()].concat());
}

struct Site {
    // Dropped first: the application's threads end when the server closes its connections.
    server: Server,
    _app: App,
    _folder: Folder,
}

impl Site {
    /// Replaces `{app}` and `{root}` in the routes by the application's address and a folder with these files.
    fn start(files: &[(&str, &str)], routes: &str) -> Self {
        let (app, folder) = (App::serve(|peer, params| echo(peer, &params)), Folder::with(files));
        let routes = routes.replace("{app}", &app.address()).replace("{root}", &folder.to_string());
        let server = Server::config(&format!("listen = ['127.0.0.1:0']\n[[site]]\n{routes}"));
        Self { server, _app: app, _folder: folder }
    }

    fn request(&self, line: &[u8], body: &str) -> Response {
        let head = " HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: ";
        let rest = format!("{head}{}\r\n\r\n{body}", body.len());
        self.server.send([line, rest.as_bytes()].concat()).response()
    }

    fn get(&self, target: &str) -> Response {
        self.request(format!("GET {target}").as_bytes(), "")
    }
}

/// Parses the variables in a response.
fn variables(response: &Response) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pair = |line: &[u8]| {
        let equals = line.iter().position(|byte| *byte == b'=')?;
        Some((line[..equals].to_vec(), line[equals + 1..].to_vec()))
    };
    response.body.split(|byte| *byte == b'\n').filter_map(pair).collect()
}

fn value<'a>(variables: &'a BTreeMap<Vec<u8>, Vec<u8>>, name: &str) -> Option<&'a [u8]> {
    variables.get(name.as_bytes()).map(Vec::as_slice)
}

#[test]
fn applications_receive_the_target_as_sent_and_path_info_decoded() {
    let site = Site::start(&[], "[[site.route]]\npath = '/app/*'\nfastcgi = { address = '{app}' }\n");
    for (target, path_info) in [
        ("/app/A%2FB", &b"/A/B"[..]),
        ("/app/A%2fB?c=%2F", b"/A/B"),
        ("/app/@scope%2fname", b"/@scope/name"),
        ("/app/a%5Cb", b"/a\\b"),
        ("/app/caf%E9", b"/caf\xE9"),
        ("/app/caf%C3%A9", "/café".as_bytes()),
        ("/app//x/./y/../z", b"/x/z"),
        ("/%61pp/x", b"/x"),
        ("/app/a%252Fb", b"/a%2Fb"),
        ("/app/\"<{|}>?q=<\"é>", b"/\"<{|}>"),
        ("/app/é", "/é".as_bytes()),
    ] {
        let response = site.get(target);
        assert_eq!(response.status, 200, "{target}");
        let variables = variables(&response);
        assert_eq!(value(&variables, "REQUEST_URI"), Some(target.as_bytes()), "{target}");
        assert_eq!(value(&variables, "SCRIPT_NAME"), Some(&b"/app"[..]), "{target}");
        assert_eq!(value(&variables, "PATH_INFO"), Some(path_info), "{target}");
    }
    for target in ["/app/..%2Fx", "/app/x%2F.", "/app/%00", "/app/%2", "/app/../../x"] {
        assert_eq!(site.get(target).status, 400, "{target}");
    }
}

#[test]
fn path_translated_is_omitted_if_no_file_can_have_the_path() {
    let handler = "fastcgi = { address = '{app}', root = '{root}', script_suffix = '.php' }";
    let site = Site::start(&[("x.php", "")], &format!("[[site.route]]\npath = '/*'\n{handler}\n"));
    for (target, has_path) in
        [("/x.php/a", true), ("/x.php/a%2Fb", false), ("/x.php/a%5Cb", false), ("/x.php", false)]
    {
        let variables = variables(&site.get(target));
        assert_eq!(value(&variables, "PATH_TRANSLATED").is_some(), has_path, "{target}");
    }
    for (target, status) in [("/a%2Fx.php", 400), ("/a%5Cx.php", 400), ("/y.php", 404), ("/caf%E9.php", 404)]
    {
        assert_eq!(site.get(target).status, status, "{target}");
    }
}

#[test]
fn an_authorizer_gets_the_path_that_selected_the_route() {
    let routes = "authorize = { address = '{app}' }\n\
                  [[site.route]]\npath = '/app/*'\nfastcgi = { address = '{app}' }\n\
                  [[site.route]]\npath = '/*'\nfiles = { root = '{root}' }\n";
    let site = Site::start(&[("secret/a.txt", "TOPSECRET"), ("open.txt", "open")], routes);
    let segments = "//secret/a.txt /./secret/a.txt /x/../secret/a.txt /%2e/secret//a.txt";
    let encoded =
        "/secret/a.txt /%73ecret/a.txt /%2e%2e%2Fsecret/a.txt /secret%2Fa.txt http://test//secret/a.txt";
    for target in segments.split(' ').chain(encoded.split(' ')) {
        let response = site.get(target);
        assert!(matches!(response.status, 400 | 403), "{target}: {}", response.status);
        assert!(!response.body.ends_with(b"TOPSECRET"), "{target}");
    }
    assert_eq!(site.get("//open.txt").text(), "open");
    let variables = variables(&site.get("/app//%61/../b%3Fc%2fd?e=%66"));
    for (name, expected) in [
        ("SEEN_REQUEST_URI", "/app/b%3Fc%2Fd?e=%66"),
        ("SEEN_DOCUMENT_URI", "/app/b?c%2Fd"),
        ("SEEN_ORIGINAL_URI", "/app//%61/../b%3Fc%2fd?e=%66"),
        ("REQUEST_URI", "/app//%61/../b%3Fc%2fd?e=%66"),
        ("SEEN", "yes"),
    ] {
        assert_eq!(value(&variables, name), Some(expected.as_bytes()), "{name}");
    }
}

#[test]
fn files_that_match_a_script_route_are_run_and_never_sent() {
    let routes = "[[site.route]]\npath = '*.php'\nfastcgi = { address = '{app}', root = '{root}' }\n\
                  [[site.route]]\npath = '/*'\n[site.route.files]\nroot = '{root}'\n\
                  index = ['index.php']\nfallback = 'index.php'\n[site.route.error_pages]\n404 = '/sorry.php'\n";
    let source = "<?php $password = 'hunter2';";
    let files = ["index.php", "sub/index.php", "sorry.php", "db.inc"].map(|name| (name, source));
    let files = [&files[..], &[("a.txt", "a")]].concat();
    let site = Site::start(&files, routes);
    for (line, script, status) in [
        ("GET /", "/index.php", 200),
        ("GET /sub/", "/sub/index.php", 200),
        ("GET /sub/?q=1", "/sub/index.php", 200),
        ("POST /", "/index.php", 200),
        ("GET /pretty/url", "/index.php", 200),
        ("PUT /pretty/url", "/index.php", 200),
        ("GET /missing.css", "/sorry.php", 404),
        ("GET /db.inc", "/sorry.php", 404),
        ("GET /index.php", "/index.php", 200),
    ] {
        // Twice, because the second lookup may come from the cache.
        for _ in 0..2 {
            let response = site.request(line.as_bytes(), "a=b");
            assert_eq!(response.status, status, "{line}");
            let variables = variables(&response);
            let (method, target) = line.split_once(' ').expect("a method and a target");
            assert_eq!(value(&variables, "SCRIPT_NAME"), Some(script.as_bytes()), "{line}");
            assert_eq!(value(&variables, "REQUEST_URI"), Some(target.as_bytes()), "{line}");
            assert_eq!(value(&variables, "REQUEST_METHOD"), Some(method.as_bytes()), "{line}");
            let expected = if status == 404 { ["404", "0"] } else { ["200", "3"] };
            let tag = response.field("etag");
            assert_eq!(tag, None, "{line}: a tag of the page is none of the missing resource");
            assert_eq!(value(&variables, "REDIRECT_STATUS"), Some(expected[0].as_bytes()), "{line}");
            assert_eq!(value(&variables, "BODY"), Some(expected[1].as_bytes()), "{line}");
        }
    }
    assert_eq!(site.get("/a.txt").text(), "a");
    for target in ["/index.PHP", "/x/../%69ndex.phP", "/index.php~", "/index.php%00", "/index.php%2F"] {
        let response = site.get(target);
        assert!(!response.body.windows(7).any(|word| word == b"hunter2"), "{target}");
    }
}

#[test]
fn an_index_of_a_php_site_is_served_by_the_route_that_matches_it() {
    let routes = "[[site.route]]\npath = ['/admin/index.php', '/pages/index.html']\nrespond = { status = 403 }\n\
                  [[site.route]]\npath = '/*'\nphp = { root = '{root}', address = '{app}' }\n";
    let files = [("admin/index.php", ""), ("open/index.php", "")];
    let pages = [("pages/index.html", "closed"), ("other/index.html", "open")];
    let site = Site::start(&[files, pages].concat(), routes);
    let open = ["/open/", "/other/"].map(|target| (target, 200));
    let closed = ["/admin/", "/admin/index.php", "/pages/", "/pages/"].map(|target| (target, 403));
    for (target, status) in open.into_iter().chain(closed) {
        assert_eq!(site.get(target).status, status, "{target}");
    }
}

#[test]
fn the_access_rules_of_the_route_that_matches_an_index_apply() {
    let routes = "[[site.route]]\npath = '/closed/index.html'\nauthorize = { address = '{app}', params = { REQUEST_URI = '/secret' } }\n\
                  files = { root = '{root}' }\n\
                  [[site.route]]\npath = '/*'\nfiles = { root = '{root}' }\n";
    let site = Site::start(&[("closed/index.html", "closed"), ("open/index.html", "open")], routes);
    assert_eq!(site.get("/open/").text(), "open");
    for target in ["/closed/", "/closed/", "/closed/index.html"] {
        assert_eq!(site.get(target).status, 403, "{target}");
    }
}

#[test]
fn trace_reaches_an_application_only_if_a_route_allows_it() {
    let routes = "[[site.route]]\npath = '/traced/*'\nallow_trace = true\nfastcgi = { address = '{app}' }\n\
                  [[site.route]]\npath = '/*'\nfastcgi = { address = '{app}' }\n";
    let site = Site::start(&[], routes);
    assert_eq!(site.request(b"TRACE /traced/x", "").status, 200);
    let rejected = site.request(b"TRACE /x", "");
    assert_eq!((rejected.status, rejected.field("allow").is_some()), (405, true));
}

#[test]
fn a_rule_for_a_script_also_decides_about_its_path_info() {
    let files = ["index.php", "xmlrpc.php", "login.php", "files/evil.php"].map(|file| (file, ""));
    for handler in [
        "php = { address = '{app}', root = '{root}' }",
        "fastcgi = { address = '{app}', root = '{root}', script_suffix = '.php' }",
    ] {
        let routes = format!(
            "[[site.route]]\npath = ['/xmlrpc.php', '/files/*.php']\nrespond = {{ status = 403 }}\n\
             [[site.route]]\npath = '/login.php'\nallow = '192.0.2.1'\n{handler}\n\
             [[site.route]]\npath = '/in/*'\nrewrite = '/xmlrpc.php/{{rest}}'\n\
             [[site.route]]\npath = '/*'\n{handler}\n"
        );
        let site = Site::start(&files, &routes);
        for (target, status) in [
            ("/xmlrpc.php", 403),
            ("/xmlrpc.php/", 403),
            ("/xmlrpc.php/x", 403),
            ("//xmlrpc%2ephp//x", 403),
            ("/x/../xmlrpc.php/x", 403),
            ("/xmlrpc.php/index.php/x", 403),
            ("/xmlrpc.php%2Fx", 400),
            ("/in/x", 403),
            ("/files/evil.php/x", 403),
            ("/login.php/x", 403),
            ("/login.php/a.php/b", 403),
            ("/index.php/xmlrpc.php/x", 200),
        ] {
            assert_eq!(site.get(target).status, status, "{handler} {target}");
        }
        let variables = variables(&site.get("/index.php/x"));
        assert_eq!(value(&variables, "PATH_INFO"), Some(&b"/x"[..]), "{handler}");
    }
}
