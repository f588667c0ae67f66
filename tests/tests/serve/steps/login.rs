//! Basic authentication over real connections: users in apps, changed files, and guesses that must not slow other requests down.

use rudy_tests::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::steps::spoofed::{SPELLINGS, app};

/// `secret`, hashed with bcrypt (cost 5) by `htpasswd`.
const HASH: &str = "$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS";

/// The same with sha512-crypt, which takes longer.
const SLOW: &str =
    "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.";

/// `ann:secret`, `ann:wrong` and `eve:secret`.
const ANN: &str = "Basic YW5uOnNlY3JldA==";
const WRONG: &str = "Basic YW5uOndyb25n";
const EVE: &str = "Basic ZXZlOnNlY3JldA==";

fn get(address: SocketAddr, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    Connection::send_to(address, request).response()
}

/// Starts a server with these users, whose file is in the folder.
fn server(text: &str, users: &str) -> (Server, Folder) {
    let folder = Folder::new();
    let path = folder.write("htpasswd", users);
    (Server::config(&text.replace("'htpasswd'", &format!("'{}'", path.display()))), folder)
}

#[test]
fn an_app_gets_the_user_and_no_other_spelling() {
    let app = app();
    let text = format!(
        "listen = '127.0.0.1:0,h2c'\n[[site]]\nbasic_auth = 'htpasswd'\n\
         [[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n"
    );
    let (server, _folder) = server(&text, &format!("ann:{HASH}\n"));
    let users = |variables: &str| {
        let is_user = |line: &&str| line.contains("USER") || line.starts_with("AUTH");
        let mut lines: Vec<_> = variables.lines().filter(is_user).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = ["AUTH_TYPE=Basic", "HTTP_REMOTE_USER=ann", "REMOTE_USER=ann"];
    let spoofed = SPELLINGS.map(|name| format!("{name}: root\r\n")).concat();
    for round in 0..2 {
        let fields = format!("{spoofed}Authorization: {ANN}\r\nConnection: remote-user\r\n");
        let response = get(server.address(), "/", &fields);
        assert_eq!(users(response.text()), expected, "{round}: {}", response.text());
        let mut connection = Http2Connection::open(server.address(), &[]);
        let names = SPELLINGS.map(str::to_lowercase);
        let fields = names.iter().map(|name| (name.as_str(), "root")).chain([("authorization", ANN)]);
        connection.request(1, "GET", "/", &fields.collect::<Vec<_>>(), true);
        assert_eq!(users(connection.response(1).text()), expected);
    }
    let mut rejected =
        vec![String::new(), "Authorization: Basic\r\n".to_owned(), "Authorization: Bearer x\r\n".to_owned()];
    rejected.extend([WRONG, EVE].map(|credentials| format!("Authorization: {credentials}\r\n")));
    rejected.push(format!("Authorization: {ANN}\r\nAuthorization: {ANN}\r\n"));
    for fields in rejected {
        let response = get(server.address(), "/", &fields);
        assert_eq!(response.status, 401, "{fields}");
        assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"restricted\", charset=\"UTF-8\""));
    }
}

#[test]
fn a_changed_file_is_used_and_an_invalid_one_is_not() {
    let text = "listen = '127.0.0.1:0'\n[[site]]\nbasic_auth = 'htpasswd'\n\
                [[site.route]]\npath = '/*'\nrespond = { body = 'x' }\n";
    let (mut server, folder) = server(text, "");
    let path = folder.join("htpasswd");
    let status = |server: &Server| get(server.address(), "/", &format!("Authorization: {ANN}\r\n")).status;
    assert_eq!(status(&server), 401);
    let hash = |user: &str, password: &str| {
        let arguments = ["hash-password", "--algorithm", "bcrypt", "--user", user, "--file"];
        let mut child = Rudy::command(arguments).arg(&path).stdin(Stdio::piped()).spawn();
        Write::write_all(child.stdin.as_mut().expect("it is piped"), password.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success());
    };
    hash("ann", "secret");
    wait_until("the new user can sign in", || status(&server) == 200);
    fs::write(&path, "ann:plain\n").expect("the folder can be written");
    server.wait_for_line("its old users stay valid");
    assert_eq!(status(&server), 200);
    hash("ann", "other");
    wait_until("the old password is invalid, though it was remembered", || status(&server) == 401);
}

#[test]
fn a_changed_file_that_cannot_be_read_for_a_while_is_used_later() {
    let text = "listen = '127.0.0.1:0'\n[[site]]\nbasic_auth = 'htpasswd'\n\
                [[site.route]]\npath = '/*'\nrespond = { body = 'x' }\n";
    let (mut server, folder) = server(text, "");
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    // No further descriptor can be opened.
    let none = Rlimit { current: Some(3), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(pid, Resource::Nofile, none).unwrap();
    folder.write("htpasswd", format!("ann:{HASH}\n"));
    server.wait_for_line("Too many open files (os error 24); its old users stay valid");
    prlimit(pid, Resource::Nofile, before).unwrap();
    server.wait_for_line("it has 1 users now");
    assert_eq!(get(server.address(), "/", &format!("Authorization: {ANN}\r\n")).status, 200);
}

/// One thread verifies passwords, and more are sent than it can verify. All other requests are served meanwhile.
#[test]
fn a_flood_of_passwords_does_not_keep_other_routes_waiting() {
    let text = "listen = '127.0.0.1:0'\npassword_threads = 1\n[[site]]\n\
                [[site.route]]\npath = '/secret'\nrespond = { body = 'secret' }\nbasic_auth = 'htpasswd'\n\
                [[site.route]]\npath = '/*'\nrespond = { body = 'open' }\n";
    let (server, _folder) = server(text, &format!("ann:{SLOW}\n"));
    let (address, stop) = (server.address(), AtomicBool::new(false));
    thread::scope(|scope| {
        let guess = || {
            let mut statuses = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                statuses.push(get(address, "/secret", &format!("Authorization: {WRONG}\r\n")));
            }
            statuses
        };
        let guesses: Vec<_> = (0..40).map(|_| scope.spawn(guess)).collect();
        wait_until("the queue is full", || {
            let response = get(address, "/secret", &format!("Authorization: {WRONG}\r\n"));
            response.status == 503 && response.field("retry-after").is_some()
        });
        let served = (0..200).filter(|_| get(address, "/", "").status == 200).count();
        stop.store(true, Ordering::Relaxed);
        let guesses: Vec<_> =
            guesses.into_iter().flat_map(|guess| guess.join().expect("it does not panic")).collect();
        assert_eq!(served, 200);
        let count = |status| guesses.iter().filter(|response| response.status == status).count();
        assert_eq!(count(401) + count(503), guesses.len());
        assert!(count(503) > 0, "more guesses than can be verified were sent");
    });
}

#[test]
fn clients_name_no_user_on_routes_without_a_login_and_in_trailers() {
    let upstream =
        Upstream::serve(|peer, request| peer.respond(&format!("{}{:?}", request.head, request.trailers)));
    let text = format!(
        "listen = '127.0.0.1:0'\n[[site]]\nbasic_auth = 'htpasswd'\n\
         [[site.route]]\npath = '/open'\nbasic_auth = false\nproxy = '{upstream}'\n\
         [[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    );
    let (server, _folder) = server(&text, &format!("ann:{HASH}\n"));
    let spoofed = SPELLINGS.map(|name| format!("{name}: root\r\n")).concat();
    for (target, fields, expected) in
        [("/open", String::new(), &[][..]), ("/", format!("Authorization: {ANN}\r\n"), &["remote-user: ann"])]
    {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}{spoofed}Trailer: Remote-User\r\n");
        let request = format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n{spoofed}\r\n");
        let mut connection = server.send(request);
        let response = connection.response();
        let is_user = |line: &&str| line.to_lowercase().replace('_', "-").contains("remote-user");
        let users: Vec<_> = response.text().lines().filter(is_user).collect();
        assert_eq!(users, expected, "{target}: {}", response.text());
    }
}

#[test]
fn the_credentials_of_clients_are_those_of_a_route_also_if_an_authorizer_of_another_one_sets_them() {
    let upstream = Upstream::serve(|peer, request| peer.respond(&request.head));
    let text = format!(
        "listen = '127.0.0.1:0'\n[[site]]\n\
         [[site.route]]\npath = '/sso'\nforward_auth = {{ url = '{upstream}', copy = 'Authorization' }}\nproxy = '{upstream}'\n\
         [[site.route]]\npath = '/*'\nbasic_auth = 'htpasswd'\nproxy = '{upstream}'\n"
    );
    let (server, _folder) = server(&text, &format!("ann:{HASH}\n"));
    let response = get(server.address(), "/", &format!("Authorization: {ANN}\r\nRemote-User: root\r\n"));
    assert_eq!(response.status, 200);
    assert!(response.text().contains(ANN) && !response.text().contains("root"), "{}", response.text());
}

#[test]
fn a_proxied_application_gets_the_user_in_a_field() {
    let upstream = Upstream::serve(|peer, request| peer.respond(&request.head));
    let logs = Folder::new();
    let text = format!(
        "listen = '127.0.0.1:0'\naccess_log = '{logs}/access.log'\n[[site]]\nbasic_auth = 'htpasswd'\n\
         [[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    );
    let (server, _folder) = server(&text, &format!("ann:{HASH}\n"));
    let spoofed = SPELLINGS.map(|name| format!("{name}: root\r\n")).concat();
    let fields = format!("{spoofed}Authorization: {ANN}\r\nConnection: Remote-User\r\n");
    let response = get(server.address(), "/", &fields);
    let is_user = |line: &&str| line.to_lowercase().replace('_', "-").contains("remote-user");
    let users: Vec<_> = response.text().lines().filter(is_user).collect();
    assert_eq!(users, ["remote-user: ann"], "{}", response.text());
    logs.wait_for("access.log", "127.0.0.1 - ann [");
}
