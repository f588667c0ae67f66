//! Authorizers: only a complete response of 200 allows a request, on every engine.

use rudy_fastcgi::pairs::Params;
use rudy_fastcgi::{ProtocolStatus, Role};
use rudy_tests::prelude::*;

use crate::fastcgi::site::{SHORT_HALF_CLOSE, respond_with, wait_for_end};

/// The statuses that a client gets, each with the values of the field `X-Do`, which selects the behavior of the authorizer.
const CASES: &[(u16, &str)] = &[
    (200, "allow allow-with-a-body allow-without-a-status"),
    (204, "respond-with-no-content"),
    (302, "redirect-to-log-in redirect-locally-to-log-in"),
    (401, "require-a-password"),
    (403, "reject"),
    (
        502,
        "allow-without-a-status-and-fail allow-and-fail allow-without-a-status-and-close allow-with-too-much-of-a-body",
    ),
    (
        502,
        "close-before-reading close-in-the-head close-after-the-head close-in-the-body close-before-the-end",
    ),
    (
        502,
        "send-an-empty-line end-in-the-head hang-before-the-end respond-in-http send-garbage-after-the-head",
    ),
    (
        502,
        "send-nothing send-no-head reject-the-role reject-the-role-after-the-head name-a-script name-a-file",
    ),
    (503, "be-overloaded"),
    (504, "hang-before-the-head hang-in-the-head hang-after-the-head"),
];

const ALLOW: &[u8] = b"Status: 200 OK\r\nVariable-REMOTE_USER: ann\r\nSet-Cookie: lost=1\r\n\r\n";

/// Behaves as the request demands. Returns whether the connection stays open.
fn authorize(params: &Params, peer: &mut Peer, sender: &Sender<String>) -> bool {
    assert_eq!(peer.role(), Role::Authorizer);
    let what = variable(params, "HTTP_X_DO");
    match what {
        "close-before-reading" => return false,
        "close-in-the-head" | "hang-in-the-head" => peer.stdout(b"Status: 200"),
        "close-after-the-head" | "hang-after-the-head" => peer.stdout(ALLOW),
        "close-in-the-body" => peer.stdout(&[ALLOW, b"half"].concat()),
        "close-before-the-end" | "hang-before-the-end" => {
            peer.stdout(ALLOW);
            peer.stdout_end();
        }
        _ => {}
    }
    if what.starts_with("close") {
        return false;
    }
    if what.starts_with("hang") {
        return wait_for_end(peer, sender);
    }
    match what {
        "allow" => peer.respond(ALLOW),
        "allow-without-a-status" => peer.respond(b"Variable-REMOTE_USER: ann\r\n\r\n"),
        "allow-without-a-status-and-fail" | "allow-and-fail" => {
            peer.stdout(if what == "allow-and-fail" { ALLOW } else { b"Variable-REMOTE_USER: ann\r\n\r\n" });
            peer.stdout_end();
            peer.exit(1);
        }
        "allow-without-a-status-and-close" => {
            peer.stdout(b"Variable-REMOTE_USER: ann\r\n\r\n");
            peer.stdout_end();
            return false;
        }
        "send-an-empty-line" => peer.respond(b"\r\n"),
        "end-in-the-head" => peer.respond(b"Variable-REMOTE_USER: ann\r\n"),
        "allow-with-a-body" => peer.respond(&[ALLOW, b"ignored"].concat()),
        "allow-with-too-much-of-a-body" => peer.respond(&[ALLOW.to_vec(), vec![b'a'; 1_000_000]].concat()),
        "reject" => peer.respond(b"Status: 403 No\r\nVariable-REMOTE_USER: eve\r\n\r\nnot you"),
        "require-a-password" => peer.respond(b"Status: 401\r\nWWW-Authenticate: Basic realm=x\r\n\r\n"),
        "redirect-to-log-in" => {
            peer.respond(b"Status: 302\r\nLocation: /login\r\nSet-Cookie: back=1\r\n\r\n");
        }
        "redirect-locally-to-log-in" => peer.respond(b"Location: /login\r\n\r\n"),
        "respond-with-no-content" => peer.respond(b"Status: 204\r\n\r\n"),
        "respond-in-http" => peer.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "send-garbage-after-the-head" => {
            peer.stdout(ALLOW);
            peer.send_raw(b"garbage that is not a record");
        }
        "send-nothing" => peer.respond(b""),
        "send-no-head" => peer.respond(b"hello\r\n"),
        "be-overloaded" => peer.end(ProtocolStatus::Overloaded),
        "reject-the-role" => peer.end(ProtocolStatus::UnknownRole),
        "reject-the-role-after-the-head" => {
            peer.stdout(ALLOW);
            peer.end(ProtocolStatus::UnknownRole);
        }
        "name-a-script" => peer.respond(b"Status: 200\r\nVariable-SCRIPT_FILENAME: /tmp/x.php\r\n\r\n"),
        "name-a-file" => peer.respond(b"Status: 403\r\nX-Sendfile: /etc/passwd\r\n\r\n"),
        "log-a-line" => {
            peer.stderr(b"who is this?\n");
            peer.respond(ALLOW);
        }
        _ => panic!("{what} is unknown"),
    }
    true
}

/// A server with an authorizer, which sends an event for each request, and an app.
struct ProtectedSite {
    // Dropped first: the apps' threads end when the server closes its connections.
    server: Server,
    authorizer: App,
    _app: App,
    _files: Folder,
    events: Receiver<String>,
}

impl ProtectedSite {
    fn start(model: Model, authorize: fn(&Params, &mut Peer, &Sender<String>) -> bool) -> Self {
        let (sender, events) = mpsc::channel();
        let authorizer = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                for absent in ["CONTENT_LENGTH", "PATH_INFO", "PATH_TRANSLATED", "SCRIPT_NAME"] {
                    assert_eq!(params.get(absent), None, "{absent}");
                }
                let request = ["REQUEST_METHOD", "REQUEST_URI"].map(|name| variable(&params, name)).join(" ");
                // It fails if the test does not read events.
                let _ = sender.send(request);
                if !authorize(&params, &mut peer, &sender) {
                    return;
                }
            }
        });
        let app = App::start(|mut peer| {
            while let Some(params) = peer.request() {
                assert_eq!(peer.role(), Role::Responder);
                let user = params.get("REMOTE_USER").map(|user| String::from_utf8_lossy(user).into_owned());
                if variable(&params, "PATH_INFO") == "/redirect" {
                    peer.body();
                    peer.respond(b"Location: /page\r\n\r\n");
                    continue;
                }
                let Some(bytes) = peer.body() else { return };
                let text = format!("Content-Type: text/plain\r\n\r\n{user:?} with {bytes} bytes");
                peer.respond(text.as_bytes());
            }
        });
        let files = Folder::with(&[("folder/a.txt", "0123456789")]);
        let server = Self::server(model, &authorizer, &app, &files);
        Self { server, authorizer, _app: app, _files: files, events }
    }

    fn server(model: Model, authorizer: &App, app: &App, files: &Folder) -> Server {
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\n{SHORT_HALF_CLOSE}[[site]]\n\
             authorize = {{ address = \"{authorizer}\", connections = 2, response_timeout = \"2s\" }}\n\
             [[site.route]]\npath = \"/page\"\nrespond = {{ body = \"in\" }}\n\
             [[site.route]]\npath = \"/open\"\nauthorize = false\nrespond = {{ body = \"open\" }}\n\
             [[site.route]]\npath = \"/patient\"\nrespond = {{ body = \"in\" }}\n\
             authorize = {{ address = \"{authorizer}\", params = {{ HTTP_X_DO = \"hang-before-the-head\" }} }}\n\
             [[site.route]]\npath = \"/app/*\"\nfastcgi = {{ address = \"{app}\" }}\n\
             [[site.route]]\npath = \"/open-app/*\"\nauthorize = false\nfastcgi = {{ address = \"{app}\" }}\n\
             [[site.route]]\npath = \"/*\"\nfiles = {{ root = '{files}', browse = true }}\n"
        );
        Server::build().config(&config).engine(model).start()
    }

    /// Sends a request without a body and with these additional fields.
    fn request(&self, line: &str, fields: &str) -> Response {
        let request = format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
        let mut connection = self.server.send(request);
        if line.starts_with("HEAD") { connection.head_response() } else { connection.response() }
    }

    fn received_events(&self) -> Vec<String> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}

fn behavior(what: &str) -> String {
    format!("X-Do: {what}\r\n")
}

fn on_every_engine(test: fn(Model)) {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || test(model));
        }
    });
}

#[test]
fn only_a_complete_200_allows_a_request_and_the_next_one_is_served() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    let each = |(status, names): &'static (u16, &str)| names.split(' ').map(move |what| (what, *status));
    for (what, status) in CASES.iter().flat_map(each) {
        let response = site.request("GET /page", &behavior(what));
        assert_eq!(response.status, status, "{what}: {}", response.text());
        assert_eq!(response.text() == "in", status == 200, "{what}");
        assert_eq!(site.request("GET /page", &behavior("allow")).text(), "in", "after {what}");
    }
    site.received_events();
    assert_eq!(site.request("GET /open", "").text(), "open");
    let mut events = site.received_events();
    // The end of one that hung may be noticed late.
    events.retain(|event| event != "cancelled");
    assert_eq!(events, [""; 0], "the authorizer gets no request");
}

#[test]
fn fields_without_a_status_are_a_200_with_variables() {
    on_every_engine(|model| {
        let site = ProtectedSite::start(model, authorize);
        let response = site.request("GET /app/x", &behavior("allow-without-a-status"));
        assert_eq!(response.text(), "Some(\"ann\") with 0 bytes", "{model}");
    });
}

#[test]
fn a_rejection_is_passed_on_to_the_client() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    let rejected = site.request("GET /page", &behavior("reject"));
    assert_eq!((rejected.text(), rejected.field("variable-remote_user")), ("not you", None));
    let response = site.request("GET /page", &behavior("require-a-password"));
    assert_eq!(response.field("www-authenticate"), Some("Basic realm=x"));
    for what in ["redirect-to-log-in", "redirect-locally-to-log-in"] {
        assert_eq!(site.request("GET /page", &behavior(what)).field("location"), Some("/login"), "{what}");
    }
    let sent = site.request("GET /page", &behavior("redirect-to-log-in"));
    assert_eq!(sent.field("set-cookie"), Some("back=1"));
    let allowed = site.request("GET /page", &behavior("allow"));
    assert_eq!(allowed.field("set-cookie"), None, "the client gets no field of a 200");
    assert_eq!(site.request("HEAD /page", &behavior("reject")).status, 403);
}

#[test]
fn a_file_its_conditions_ranges_listing_and_redirect_come_after_the_authorizer() {
    on_every_engine(|model| {
        let site = ProtectedSite::start(model, authorize);
        let first = site.request("GET /folder/a.txt", &behavior("allow"));
        let etag = first.field("etag").expect("the file has an ETag");
        for (line, fields, status) in [
            ("GET /folder/a.txt", String::new(), 200),
            ("HEAD /folder/a.txt", String::new(), 200),
            ("GET /folder/a.txt", format!("If-None-Match: {etag}\r\n"), 304),
            ("GET /folder/a.txt", "Range: bytes=2-3\r\n".to_owned(), 206),
            ("GET /folder", String::new(), 301),
            ("GET /folder/", String::new(), 200),
            ("GET /missing", String::new(), 404),
            ("DELETE /folder/a.txt", String::new(), 405),
        ] {
            let rejected = site.request(line, &(behavior("reject") + &fields));
            assert_eq!(rejected.status, 403, "{model}: {line} {fields}");
            let allowed = site.request(line, &(behavior("allow") + &fields));
            assert_eq!(allowed.status, status, "{model}: {line} {fields}");
        }
    });
}

#[test]
fn remote_user_comes_only_from_the_authorizer() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    let forged = "Remote-User: root\r\nVariable-REMOTE_USER: root\r\nVariable-Remote-User: root\r\n";
    let response = site.request("GET /app/x", &(behavior("allow") + forged));
    assert_eq!(response.text(), "Some(\"ann\") with 0 bytes");
    assert_eq!(site.request("GET /open-app/x", forged).text(), "None with 0 bytes");
}

#[test]
fn a_body_is_sent_to_the_app_only_after_the_authorizer_allows_the_request() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    let post = |what: &str, more: &str| {
        let fields = format!("Connection: close\r\nContent-Length: 1048576\r\n{more}{}", behavior(what));
        site.server.send(format!("POST /app/x HTTP/1.1\r\nHost: test\r\n{fields}\r\n"))
    };
    for (what, status) in [("allow", 200), ("reject", 403)] {
        let mut connection = post(what, "");
        connection.send(&vec![b'a'; 1 << 20]);
        let response = connection.response();
        assert_eq!(response.status, status, "{what}");
        assert!(status == 403 || response.text() == "Some(\"ann\") with 1048576 bytes");
    }
    let mut rejected = post("reject", "Expect: 100-continue\r\n");
    assert_eq!(rejected.next_response().status, 403, "the body is not requested");
    drop(rejected);
    let mut allowed = post("allow", "Expect: 100-continue\r\n");
    assert_eq!(allowed.next_response().status, 100);
    allowed.send(&vec![b'a'; 1 << 20]);
    assert_eq!(allowed.response().text(), "Some(\"ann\") with 1048576 bytes");
}

#[test]
fn a_disconnect_cancels_the_request_to_the_authorizer() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    let client = site.server.send(b"GET /patient HTTP/1.1\r\nHost: test\r\n\r\n");
    let next = || site.events.recv_timeout(PATIENCE).expect("the authorizer sends an event");
    assert_eq!(next(), "GET /patient");
    drop(client);
    assert_eq!(next(), "cancelled");
    assert_eq!(site.request("GET /page", &behavior("allow")).text(), "in");
}

#[test]
fn a_request_on_a_closed_connection_to_the_authorizer_is_repeated_on_a_new_one() {
    let site = ProtectedSite::start(Model::PerCore, |_, peer, _| {
        peer.respond(ALLOW);
        // Read the second request on the connection and close it without a response.
        peer.request();
        false
    });
    for line in ["GET /page", "POST /app/x", "POST /app/x"] {
        assert_eq!(site.request(line, "Content-Length: 0\r\n").status, 200, "{line}");
    }
    assert!(site.authorizer.accepted() >= 3);
}

#[test]
fn a_local_redirect_is_authorized_for_the_new_path() {
    let site = ProtectedSite::start(Model::PerCore, authorize);
    assert_eq!(site.request("POST /app/redirect", &behavior("allow")).text(), "in");
    assert_eq!(site.received_events(), ["POST /app/redirect", "GET /page"]);
    assert_eq!(site.request("GET /open-app/redirect", &behavior("reject")).status, 403);
}

#[test]
fn requests_fail_while_the_authorizer_is_not_running() {
    let mut site = ProtectedSite::start(Model::PerCore, authorize);
    assert_eq!(site.request("GET /page", &behavior("allow")).text(), "in");
    site.authorizer.stop_listening();
    assert_eq!(site.request("GET /page", &behavior("allow")).status, 502);
    site.server.wait_for_line("app.sock: No such file or directory (os error 2); is the app running?");
    site.authorizer.listen();
    assert_eq!(site.request("GET /page", &behavior("allow")).text(), "in");
}

#[test]
fn the_log_names_the_authorizer_and_its_failure() {
    for (what, expected) in [
        ("hang-before-the-head", "authorizer unix:"),
        ("hang-before-the-head", "GET /page from 127.0.0.1"),
        ("reject-the-role", "`authorize` needs an app that implements it"),
        ("close-before-the-end", "the authorizer sent 200 but did not end the request"),
        ("allow-and-fail", "the authorizer ended its 200 response with application status 1, expected 0"),
        ("name-a-script", "the app set Variable-SCRIPT_FILENAME, which only the server may set"),
        ("name-a-file", "an authorizer cannot send files"),
        ("allow-with-too-much-of-a-body", "a body of more than 65536 bytes, which no client sees"),
        ("log-a-line", "GET /page from 127.0.0.1"),
        ("log-a-line", "stderr: who is this?"),
    ] {
        // A repeated log line is only counted, so each case needs a new server.
        let mut site = ProtectedSite::start(Model::PerCore, authorize);
        site.request("GET /page", &behavior(what));
        site.server.wait_for_line(expected);
    }
}

#[test]
fn an_app_may_be_the_authorizer_of_its_own_route_over_the_same_connection() {
    let app = App::start(|mut peer| {
        while peer.request().is_some() {
            if peer.role() == Role::Authorizer {
                peer.respond(ALLOW);
            } else if !respond_with(&mut peer, "fine") {
                return;
            }
        }
    });
    let table = format!("{{ address = \"{app}\", connections = 1 }}");
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\nauthorize = {table}\n\
         fastcgi = {table}\n"
    ));
    for _ in 0..3 {
        assert_eq!(server.get("/app/x").text(), "fine");
    }
    drop(server);
    assert_eq!(app.accepted(), 1, "they share one connection");
}
