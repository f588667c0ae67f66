//! Every step × every kind of response, over real connections: no kind bypasses a step. The steps are those of the reference, which is
//! generated from the list that determines their order.

use rudy_tests::prelude::*;

/// The kinds of responses of routes: a target, and the status without a step that rejects it.
const KINDS: [(&str, u16); 10] = [
    ("/prepared", 200),
    ("/gone", 410),
    ("/www/a.txt", 200),
    ("/www/", 200),
    ("/www/none", 404),
    ("/moved", 307),
    ("/rewritten", 200),
    ("/stream", 200),
    ("/proxied", 200),
    ("/stored", 200),
];

/// The kinds of responses that the server makes without a route: the target and a field of the request, and the status. Only steps that
/// change responses apply to them.
const WITHOUT_ROUTE: [(&str, &str, u16); 2] = [("/no/route", "X: x", 404), ("/prepared", "Expect: x", 417)];

/// What shows that a response has passed a step.
enum Sign {
    /// It has this status, if it is that of a route.
    Status(u16),
    /// It has this field.
    Field(&'static str),
    /// Its `Cache-Control` has this value, if it is successful and may be stored.
    OfSuccess(&'static str),
    /// An error has the page.
    Page,
    /// It has this field, if its body is a long text of a handler.
    LongText(&'static str),
    /// The upstream gets the request without this field.
    Removed(&'static str),
    /// The upstream gets the request with this field.
    Added(&'static str),
    /// The upstream at this target gets no further time.
    Late(&'static str),
    /// Other tests show it, because it has no such sign.
    None,
}

/// A step: a setting of the site, and a request that shows it.
struct Case {
    setting: &'static str,
    method: &'static str,
    fields: &'static [&'static str],
    /// Sent before: a request that uses up a limit. Its response is not awaited.
    first: Option<&'static str>,
    sign: Sign,
}

const PLAIN: Case = Case { setting: "", method: "GET", fields: &[], first: None, sign: Sign::None };

/// The credentials of `ann`, whose password is `secret`.
const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==";

/// Returns the case of the step with this name in the reference.
fn case(name: &str) -> Case {
    let rejects = |setting, status| Case { setting, sign: Sign::Status(status), ..PLAIN };
    match name {
        "`bandwidth`" | "`mirror`" => PLAIN,
        "`compression`" => Case {
            setting: "compression = true",
            fields: &["Accept-Encoding: gzip"],
            sign: Sign::LongText("content-encoding"),
            ..PLAIN
        },
        "`response_headers`, `security_headers` and HSTS" => {
            Case { setting: "response_headers = { X-Site = 'site' }", sign: Sign::Field("x-site"), ..PLAIN }
        }
        "`cors`: the fields of responses" => Case {
            setting: "cors = { origins = 'https://b.test' }",
            fields: &["Origin: https://b.test"],
            sign: Sign::Field("access-control-allow-origin"),
            ..PLAIN
        },
        "`when`: the fields that choose a route, in `Vary`" => Case {
            setting: "[[site.route]]\npath = '/*'\nwhen = { headers = { X-Not = '*' } }\nrespond = 500",
            sign: Sign::Field("vary"),
            ..PLAIN
        },
        "`cache_control`" => {
            Case { setting: "cache_control = 'max-age=7'", sign: Sign::OfSuccess("max-age=7"), ..PLAIN }
        }
        "`error_pages`" => {
            Case { setting: "error_pages = { 4xx = { file = 'page.html' } }", sign: Sign::Page, ..PLAIN }
        }
        "`maintenance`" => rejects("maintenance = 'htpasswd'", 503),
        "`allow`, `deny` and `access`" => rejects("allow = '203.0.113.1'", 403),
        "`cors`: preflight requests" => Case {
            setting: "cors = { origins = 'https://b.test', methods = 'PUT' }",
            method: "OPTIONS",
            fields: &["Origin: https://b.test", "Access-Control-Request-Method: PUT"],
            sign: Sign::Status(204),
            ..PLAIN
        },
        "`concurrent_requests`" => {
            Case { first: Some("/hang"), ..rejects("concurrent_requests = { max = 1, by = 'host' }", 429) }
        }
        "`rate_limit`" => {
            Case { first: Some("/prepared"), ..rejects("rate_limit = { rate = '1/h', by = 'host' }", 429) }
        }
        "removal of fields in which a login names users" => Case {
            setting: "basic_auth = 'htpasswd'",
            fields: &[ANN, "Remote-User: eve"],
            sign: Sign::Removed("remote-user: eve"),
            ..PLAIN
        },
        "removal of fields that only proxies set" => {
            Case { fields: &["X-Real-Ip: 203.0.113.1"], sign: Sign::Removed("x-real-ip"), ..PLAIN }
        }
        "`basic_auth`" => rejects("basic_auth = 'htpasswd'", 401),
        "`forward_auth`" => rejects("forward_auth = 'http://127.0.0.1:1/'", 502),
        "`concurrent_requests` by user" => Case {
            fields: &[ANN],
            first: Some("/hang"),
            ..rejects("basic_auth = 'htpasswd'\nconcurrent_requests = { max = 1, by = 'user' }", 429)
        },
        "`rate_limit` by user" => Case {
            fields: &[ANN],
            first: Some("/prepared"),
            ..rejects("basic_auth = 'htpasswd'\nrate_limit = { rate = '1/h', by = 'user' }", 429)
        },
        "`authorize`" => rejects("authorize = { address = '127.0.0.1:1' }", 502),
        "`body_bytes`" => {
            Case { method: "POST", fields: &["Content-Length: 11"], ..rejects("body_bytes = 10", 413) }
        }
        "`request_timeout`" => {
            Case { setting: "request_timeout = '1ms'", sign: Sign::Late("/hang"), ..PLAIN }
        }
        "`request_headers`" => {
            Case { setting: "request_headers = { X-Set = 'set' }", sign: Sign::Added("x-set: set"), ..PLAIN }
        }
        "`cache`" => Case { setting: "cache = true", sign: Sign::None, ..PLAIN },
        unknown => panic!("there is no case for the step {unknown}"),
    }
}

/// The names of the steps in the reference.
fn names() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference.md");
    let reference = fs::read_to_string(file).expect("the reference");
    let (_, list) = reference.split_once("\n## Order of steps\n").expect("the list");
    let (list, _) = list.split_once("\n## ").expect("another section");
    let names =
        list.lines().filter_map(|line| line.split_once(". ").filter(|(n, _)| n.parse::<u8>().is_ok()));
    names.map(|(_, name)| name.to_owned()).collect()
}

/// An upstream that reports the heads of requests. It does not respond at `/hang`.
fn upstream() -> (Upstream, Receiver<String>) {
    let (sender, heads) = channel();
    let upstream = Upstream::serve(move |peer, request| {
        let is_hanging = request.target() == "/hang";
        // Fails if the test has ended.
        let _ = sender.send(request.head);
        if !is_hanging {
            let body = "long text ".repeat(500);
            peer.send(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .as_bytes(),
            );
        }
    });
    (upstream, heads)
}

fn config(setting: &str, upstream: &Upstream) -> String {
    let text = "long text ".repeat(500);
    format!(
        "listen = '127.0.0.1:0'\n[[site]]\n{setting}\n\
         [[site.route]]\npath = '/prepared'\nrespond = {{ body = '{text}' }}\n\
         [[site.route]]\npath = '/gone'\nrespond = 410\n\
         [[site.route]]\npath = '/www/*'\nfiles = 'public/www'\n\
         [[site.route]]\npath = '/moved'\nredirect = '/prepared'\n\
         [[site.route]]\npath = '/rewritten'\nrewrite = '/prepared'\n\
         [[site.route]]\npath = '/stream'\nstream = {{ count = 1, interval = '10ms', welcome = '{text}' }}\n\
         [[site.route]]\npath = ['/proxied', '/hang']\nproxy = '{upstream}'\n\
         [[site.route]]\npath = '/stored'\nproxy = '{upstream}'\ncache = true\n"
    )
}

/// A server with a site whose responses of all kinds were sent once.
fn server(case: &Case, upstream: &Upstream) -> Server {
    let page = format!("<p>page{}", "x".repeat(5000));
    let hash = "ann:$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS\n";
    let text = "long text ".repeat(500);
    let config_before = config("", upstream);
    let files: [(&str, &[u8]); 5] = [
        ("rudy.toml", config_before.as_bytes()),
        ("public/www/a.txt", text.as_bytes()),
        ("public/www/index.html", page.as_bytes()),
        ("page.html", page.as_bytes()),
        ("htpasswd", hash.as_bytes()),
    ];
    let mut server = Server::build().config_of(Folder::with(&files)).start();
    for (target, status) in KINDS {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    server.reload_with(&config(case.setting, upstream), "reloaded");
    server
}

#[test]
fn no_kind_of_response_bypasses_a_step() {
    let (upstream, heads) = upstream();
    for name in names() {
        let case = case(&name);
        let server = server(&case, &upstream);
        let fields = [case.fields, &["Host: a.test"]].concat();
        let _first = case.first.map(|target| {
            let request = format!("GET {target} HTTP/1.1\r\n{}\r\n\r\n", fields.join("\r\n"));
            let mut connection = server.send(request);
            match target {
                "/hang" => assert!(heads.iter().any(|head| head.starts_with("GET /hang "))),
                _ => assert_eq!(connection.response().status, 200, "{name}"),
            }
            connection
        });
        for (target, status) in KINDS {
            let response = server.connect().exchange(case.method, target, &fields);
            check(&case.sign, status, &response, &format!("{name} {target}"));
        }
        for (target, field, status) in WITHOUT_ROUTE {
            let response = server.connect().exchange(case.method, target, &[&fields[..], &[field]].concat());
            assert_eq!(response.status, status, "{name} {target}");
            if let Sign::Field(_) | Sign::Page = case.sign {
                check(&case.sign, status, &response, &format!("{name} {target}"));
            }
        }
        check_upstream(&case, &server, &heads, &name);
    }
}

/// Checks the response to a request that has `status` without the step.
fn check(sign: &Sign, status: u16, response: &Response, place: &str) {
    match *sign {
        Sign::Status(expected) => assert_eq!(response.status, expected, "{place}"),
        Sign::Field(name) => assert!(response.field(name).is_some(), "{place}"),
        Sign::Page if status >= 400 => assert!(response.text().starts_with("<p>page"), "{place}"),
        Sign::OfSuccess(value) => {
            let found = response.field("cache-control").unwrap_or_default();
            assert_eq!(found == value, status == 200 && !found.starts_with("no-"), "{place}: {found}");
        }
        Sign::LongText(name) if status == 200 => assert!(response.field(name).is_some(), "{place}"),
        _ => assert_eq!(response.status, status, "{place}"),
    }
}

/// Checks what an upstream gets, for steps that change requests.
fn check_upstream(case: &Case, server: &Server, heads: &Receiver<String>, name: &str) {
    while heads.try_recv().is_ok() {}
    let fields = [case.fields, &["Host: a.test"]].concat();
    match case.sign {
        Sign::Late(target) => {
            assert_eq!(server.connect().exchange(case.method, target, &fields).status, 504, "{name}");
        }
        Sign::Removed(part) | Sign::Added(part) => {
            assert_eq!(server.connect().exchange(case.method, "/proxied", &fields).status, 200, "{name}");
            let head = heads.recv_timeout(PATIENCE).expect("the request").to_lowercase();
            assert_eq!(head.contains(part), matches!(case.sign, Sign::Added(_)), "{name}: {head}");
        }
        _ => {}
    }
}
