//! An app that is asked who may come in: only a 200 that it has ended lets a request in, on every engine.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use rudy_fastcgi::pairs::Params;
use rudy_fastcgi::{ProtocolStatus, Role};
use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, Peer, variable};
use rudy_tests::{PATIENCE, Response, Server, engines};
use tempfile::TempDir;

use crate::site::{SHORT_HALF_CLOSE, answer_with, wait_for_end};

/// What the field `X-Do` of a request has the authorizer do, and the status that its client gets.
const CASES: &[(&str, u16)] = &[
    ("allow", 200),
    ("allow-with-a-body", 200),
    ("allow-without-a-status", 200),
    ("allow-without-a-status-and-fail", 502),
    ("allow-and-fail", 502),
    ("allow-without-a-status-and-close", 502),
    ("say-an-empty-line", 502),
    ("end-in-the-head", 502),
    ("refuse", 403),
    ("ask-for-a-password", 401),
    ("send-to-log-in", 302),
    ("lead-to-log-in", 302),
    ("say-that-there-is-no-content", 204),
    ("close-before-reading", 502),
    ("close-in-the-head", 502),
    ("close-after-the-head", 502),
    ("close-in-the-body", 502),
    ("close-before-the-end", 502),
    ("hang-before-the-head", 504),
    ("hang-in-the-head", 504),
    ("hang-after-the-head", 504),
    ("hang-before-the-end", 502),
    ("speak-http", 502),
    ("send-garbage-behind-the-head", 502),
    ("say-nothing", 502),
    ("have-no-head", 502),
    ("be-overloaded", 503),
    ("know-no-such-role", 502),
    ("know-no-such-role-behind-the-head", 502),
    ("allow-with-too-much-of-a-body", 502),
    ("name-a-script", 502),
    ("name-a-file", 502),
];

const ALLOW: &[u8] = b"Status: 200 OK\r\nVariable-REMOTE_USER: ann\r\nSet-Cookie: lost=1\r\n\r\n";

/// Does what the request says. Whether the connection lives on.
fn decide(params: &Params, peer: &mut Peer, tell: &Sender<String>) -> bool {
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
        return wait_for_end(peer, tell);
    }
    match what {
        "allow" => peer.respond(ALLOW),
        "allow-without-a-status" => peer.respond(b"Variable-REMOTE_USER: ann\r\n\r\n"),
        "allow-without-a-status-and-fail" => {
            peer.stdout(b"Variable-REMOTE_USER: ann\r\n\r\n");
            peer.stdout_end();
            peer.exit(1);
        }
        "allow-and-fail" => {
            peer.stdout(ALLOW);
            peer.stdout_end();
            peer.exit(1);
        }
        "allow-without-a-status-and-close" => {
            peer.stdout(b"Variable-REMOTE_USER: ann\r\n\r\n");
            peer.stdout_end();
            return false;
        }
        "say-an-empty-line" => peer.respond(b"\r\n"),
        "end-in-the-head" => peer.respond(b"Variable-REMOTE_USER: ann\r\n"),
        "allow-with-a-body" => peer.respond(&[ALLOW, b"nobody sees this"].concat()),
        "allow-with-too-much-of-a-body" => peer.respond(&[ALLOW.to_vec(), vec![b'a'; 1_000_000]].concat()),
        "refuse" => peer.respond(b"Status: 403 No\r\nVariable-REMOTE_USER: eve\r\n\r\nnot you"),
        "ask-for-a-password" => peer.respond(b"Status: 401\r\nWWW-Authenticate: Basic realm=x\r\n\r\n"),
        "send-to-log-in" => peer.respond(b"Status: 302\r\nLocation: /login\r\nSet-Cookie: back=1\r\n\r\n"),
        "lead-to-log-in" => peer.respond(b"Location: /login\r\n\r\n"),
        "say-that-there-is-no-content" => peer.respond(b"Status: 204\r\n\r\n"),
        "speak-http" => peer.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "send-garbage-behind-the-head" => {
            peer.stdout(ALLOW);
            peer.send_raw(b"garbage that is no record");
        }
        "say-nothing" => peer.respond(b""),
        "have-no-head" => peer.respond(b"hello\r\n"),
        "be-overloaded" => peer.end(ProtocolStatus::Overloaded),
        "know-no-such-role" => peer.end(ProtocolStatus::UnknownRole),
        "know-no-such-role-behind-the-head" => {
            peer.stdout(ALLOW);
            peer.end(ProtocolStatus::UnknownRole);
        }
        "name-a-script" => peer.respond(b"Status: 200\r\nVariable-SCRIPT_FILENAME: /tmp/x.php\r\n\r\n"),
        "name-a-file" => peer.respond(b"Status: 403\r\nX-Sendfile: /etc/passwd\r\n\r\n"),
        "complain" => {
            peer.stderr(b"who is this?\n");
            peer.respond(ALLOW);
        }
        _ => panic!("{what} is not known"),
    }
    true
}

/// A server that asks an authorizer, which tells of each request what it was, and an app behind it.
struct Guarded {
    // The server goes first: the apps' threads end with its connections.
    server: Server,
    authorizer: App,
    _app: App,
    _files: TempDir,
    told: Receiver<String>,
}

impl Guarded {
    fn start(model: Model, decide: fn(&Params, &mut Peer, &Sender<String>) -> bool) -> Self {
        let (tell, told) = mpsc::channel();
        let authorizer = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                for absent in ["CONTENT_LENGTH", "PATH_INFO", "PATH_TRANSLATED", "SCRIPT_NAME"] {
                    assert_eq!(params.get(absent), None, "{absent}");
                }
                let said = ["REQUEST_METHOD", "REQUEST_URI"].map(|name| variable(&params, name)).join(" ");
                // Nobody listens where the test looks at the answers alone.
                let _ = tell.send(said);
                if !decide(&params, &mut peer, &tell) {
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
        let files = tempfile::tempdir().expect("a temp folder can be made");
        fs::create_dir(files.path().join("folder")).expect("the folder is ours");
        fs::write(files.path().join("folder/a.txt"), "0123456789").expect("the folder is ours");
        let server = Self::server(model, &authorizer, &app, files.path());
        Self { server, authorizer, _app: app, _files: files, told }
    }

    fn server(model: Model, authorizer: &App, app: &App, files: &Path) -> Server {
        let (asks, app) = (authorizer.address(), app.address());
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\n{SHORT_HALF_CLOSE}[[site]]\n\
             authorize = {{ address = \"{asks}\", connections = 2, response_timeout = \"2s\" }}\n\
             [[site.route]]\npath = \"/page\"\nrespond = {{ body = \"in\" }}\n\
             [[site.route]]\npath = \"/open\"\nauthorize = false\nrespond = {{ body = \"open\" }}\n\
             [[site.route]]\npath = \"/patient\"\nrespond = {{ body = \"in\" }}\n\
             authorize = {{ address = \"{asks}\", params = {{ HTTP_X_DO = \"hang-before-the-head\" }} }}\n\
             [[site.route]]\npath = \"/app/*\"\nfastcgi = {{ address = \"{app}\" }}\n\
             [[site.route]]\npath = \"/open-app/*\"\nauthorize = false\nfastcgi = {{ address = \"{app}\" }}\n\
             [[site.route]]\npath = \"/*\"\nfiles = {{ root = '{}', browse = true }}\n",
            files.display()
        );
        Server::build().config(&config).args(["--engine", &model.to_string()]).start()
    }

    /// The answer to a request without a body, with these fields in addition.
    fn ask(&self, line: &str, fields: &str) -> Response {
        let mut connection = self.server.connect();
        let request = format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
        connection.send(request.as_bytes());
        if line.starts_with("HEAD") { connection.head_response() } else { connection.response() }
    }

    fn told(&self) -> Vec<String> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }
}

fn does(what: &str) -> String {
    format!("X-Do: {what}\r\n")
}

fn on_every_engine(test: fn(Model)) {
    std::thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || test(model));
        }
    });
}

#[test]
fn only_a_200_that_was_ended_lets_a_request_in_and_the_next_is_served() {
    let guarded = Guarded::start(Model::PerCore, decide);
    for (what, status) in CASES {
        let answer = guarded.ask("GET /page", &does(what));
        assert_eq!(answer.status, *status, "{what}: {}", answer.text());
        assert_eq!(answer.text() == "in", *status == 200, "{what}");
        assert_eq!(guarded.ask("GET /page", &does("allow")).text(), "in", "after {what}");
    }
    guarded.told();
    assert_eq!(guarded.ask("GET /open", "").text(), "open");
    assert_eq!(guarded.told(), [""; 0], "the authorizer is not asked");
}

#[test]
fn fields_without_a_status_are_a_200_with_its_variables() {
    on_every_engine(|model| {
        let guarded = Guarded::start(model, decide);
        let answer = guarded.ask("GET /app/x", &does("allow-without-a-status"));
        assert_eq!(answer.text(), "Some(\"ann\") with 0 bytes", "{model}");
    });
}

#[test]
fn a_refusal_goes_to_the_client_as_it_is() {
    let guarded = Guarded::start(Model::PerCore, decide);
    let refused = guarded.ask("GET /page", &does("refuse"));
    assert_eq!((refused.text(), refused.field("variable-remote_user")), ("not you", None));
    let asked = guarded.ask("GET /page", &does("ask-for-a-password"));
    assert_eq!(asked.field("www-authenticate"), Some("Basic realm=x"));
    for what in ["send-to-log-in", "lead-to-log-in"] {
        let sent = guarded.ask("GET /page", &does(what));
        assert_eq!(sent.field("location"), Some("/login"), "{what}");
    }
    let sent = guarded.ask("GET /page", &does("send-to-log-in"));
    assert_eq!(sent.field("set-cookie"), Some("back=1"));
    let let_in = guarded.ask("GET /page", &does("allow"));
    assert_eq!(let_in.field("set-cookie"), None, "nothing of a 200 is the client's");
    assert_eq!(guarded.ask("HEAD /page", &does("refuse")).status, 403);
}

#[test]
fn a_file_its_conditions_ranges_listing_and_redirect_come_after_the_authorizer() {
    on_every_engine(|model| {
        let guarded = Guarded::start(model, decide);
        let etag =
            guarded.ask("GET /folder/a.txt", &does("allow")).field("etag").expect("it has one").to_owned();
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
            let refused = guarded.ask(line, &(does("refuse") + &fields));
            assert_eq!(refused.status, 403, "{model}: {line} {fields}");
            let let_in = guarded.ask(line, &(does("allow") + &fields));
            assert_eq!(let_in.status, status, "{model}: {line} {fields}");
        }
    });
}

#[test]
fn the_app_hears_of_the_user_from_the_authorizer_and_from_nobody_else() {
    let guarded = Guarded::start(Model::PerCore, decide);
    let forged = "Remote-User: root\r\nVariable-REMOTE_USER: root\r\nVariable-Remote-User: root\r\n";
    let answer = guarded.ask("GET /app/x", &(does("allow") + forged));
    assert_eq!(answer.text(), "Some(\"ann\") with 0 bytes");
    let answer = guarded.ask("GET /open-app/x", forged);
    assert_eq!(answer.text(), "None with 0 bytes");
}

#[test]
fn a_body_waits_for_the_authorizer_and_goes_to_the_app_whole_or_to_nobody() {
    let guarded = Guarded::start(Model::PerCore, decide);
    let post = |what: &str, more: &str| {
        let mut connection = guarded.server.connect();
        let head = format!(
            "POST /app/x HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 1048576\r\n{more}{}\r\n",
            does(what)
        );
        connection.send(head.as_bytes());
        connection
    };
    for (what, status) in [("allow", 200), ("refuse", 403)] {
        let mut connection = post(what, "");
        connection.send(&vec![b'a'; 1 << 20]);
        let answer = connection.response();
        assert_eq!(answer.status, status, "{what}");
        assert!(status == 403 || answer.text() == "Some(\"ann\") with 1048576 bytes");
    }
    let mut refused = post("refuse", "Expect: 100-continue\r\n");
    assert_eq!(refused.next_response().status, 403, "the body is not wanted");
    drop(refused);
    let mut let_in = post("allow", "Expect: 100-continue\r\n");
    assert_eq!(let_in.next_response().status, 100);
    let_in.send(&vec![b'a'; 1 << 20]);
    assert_eq!(let_in.response().text(), "Some(\"ann\") with 1048576 bytes");
}

#[test]
fn an_authorizer_is_told_that_its_client_has_left() {
    let guarded = Guarded::start(Model::PerCore, decide);
    let mut client = guarded.server.connect();
    client.send(b"GET /patient HTTP/1.1\r\nHost: test\r\n\r\n");
    let next = || guarded.told.recv_timeout(PATIENCE).expect("the authorizer says something");
    assert_eq!(next(), "GET /patient");
    drop(client);
    assert_eq!(next(), "cancelled");
    assert_eq!(guarded.ask("GET /page", &does("allow")).text(), "in");
}

#[test]
fn an_authorizer_whose_kept_connection_has_died_is_asked_again_on_a_new_one() {
    let guarded = Guarded::start(Model::PerCore, |_, peer, _| {
        peer.respond(ALLOW);
        // Closes what it is asked on again, having read the request.
        peer.request();
        false
    });
    for line in ["GET /page", "POST /app/x", "POST /app/x"] {
        assert_eq!(guarded.ask(line, "Content-Length: 0\r\n").status, 200, "{line}");
    }
    assert!(guarded.authorizer.accepted() >= 3);
}

#[test]
fn where_an_app_leads_to_another_path_its_authorizer_is_asked_of_that() {
    let guarded = Guarded::start(Model::PerCore, decide);
    assert_eq!(guarded.ask("POST /app/redirect", &does("allow")).text(), "in");
    assert_eq!(guarded.told(), ["POST /app/redirect", "GET /page"]);
    assert_eq!(guarded.ask("GET /open-app/redirect", &does("refuse")).status, 403);
}

#[test]
fn an_authorizer_that_is_gone_lets_nobody_in() {
    let mut guarded = Guarded::start(Model::PerCore, decide);
    assert_eq!(guarded.ask("GET /page", &does("allow")).text(), "in");
    guarded.authorizer.stop_listening();
    assert_eq!(guarded.ask("GET /page", &does("allow")).status, 502);
    guarded.server.wait_for_line("app.sock: No such file or directory (os error 2); does the app run?");
    guarded.authorizer.listen();
    assert_eq!(guarded.ask("GET /page", &does("allow")).text(), "in");
}

#[test]
fn the_log_names_the_authorizer_and_what_is_wrong_with_it() {
    for (what, says) in [
        ("hang-before-the-head", "authorizer unix:"),
        ("hang-before-the-head", "GET /page from 127.0.0.1"),
        ("know-no-such-role", "`authorize` needs an app that was written for that role"),
        ("close-before-the-end", "the authorizer sent 200 but did not end the request"),
        ("allow-and-fail", "the authorizer ended its 200 response with application status 1, expected 0"),
        ("name-a-script", "the app set Variable-SCRIPT_FILENAME, which only the server may set"),
        ("name-a-file", "an authorizer cannot send files"),
        ("allow-with-too-much-of-a-body", "longer than 65536 bytes: is this the right app?"),
        ("complain", "GET /page from 127.0.0.1"),
        ("complain", "stderr: who is this?"),
    ] {
        // What is said once is counted from then on, so each is asked of a server of its own.
        let mut guarded = Guarded::start(Model::PerCore, decide);
        guarded.ask("GET /page", &does(what));
        guarded.server.wait_for_line(says);
    }
}

#[test]
fn an_app_may_be_the_authorizer_of_its_own_route_over_the_same_connection() {
    let app = App::start(|mut peer| {
        while peer.request().is_some() {
            if peer.role() == Role::Authorizer {
                peer.respond(ALLOW);
            } else if !answer_with(&mut peer, "fine") {
                return;
            }
        }
    });
    let table = format!("{{ address = \"{}\", connections = 1 }}", app.address());
    let server = Server::build()
        .config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\nauthorize = {table}\n\
             fastcgi = {table}\n"
        ))
        .start();
    for _ in 0..3 {
        assert_eq!(server.get("/app/x").text(), "fine");
    }
    drop(server);
    assert_eq!(app.accepted(), 1, "they share one connection");
}
