//! The admin socket, and the commands that use it.

use rudy_tests::prelude::*;
use rustix::net::sockopt::socket_peercred;

/// A server with this admin socket, and a site with a self-signed certificate.
fn config(socket: &str) -> String {
    format!(
        "listen = '127.0.0.1:0,tls'\nadmin_socket = '{socket}'\n\
         [[site]]\nhosts = ['a.test']\ntls = 'self-signed'\n[[site.route]]\npath = '/*'\nrespond = 'a'\n"
    )
}

fn certificates(arguments: &[&str]) -> Output {
    Rudy::command(["certificates"]).args(arguments).output()
}

/// Sends bytes, and returns the lines of the response.
fn send(socket: &Path, bytes: &[u8]) -> Vec<String> {
    exchange_unix(socket, bytes).lines().map(str::to_owned).collect()
}

/// A server with this configuration, whose state is in the folder.
fn start(config: &str, state: &Path) -> Server {
    Server::build().config(config).env("STATE_DIRECTORY", state).start()
}

/// The process that listens on a socket.
fn listener(socket: &Path) -> u32 {
    let stream = UnixStream::connect(socket).expect("a process listens");
    let pid = socket_peercred(stream).expect("the kernel records the listener").pid;
    u32::try_from(pid.as_raw_pid()).expect("a process id is positive")
}

#[test]
fn certificates_are_listed_with_their_last_error() {
    let Some(authority) = Certificates::new() else { return };
    authority.signed("a", "a.test,DNS:b.test", Valid::Now);
    let folder = Folder::new();
    authority.copy("a", &folder);
    let (pem, key) = (folder.text("a.pem"), folder.text("a.key"));
    let site = |host: &str| {
        format!(
            "[[site]]\nhosts = ['{host}']\ntls = {{ certificate = '{pem}', key = '{key}' }}\n\
             [[site.route]]\npath = '/*'\nrespond = 'a'\n"
        )
    };
    let sites = site("a.test") + &site("b.test");
    let mut server = Server::config(&format!("listen = '127.0.0.1:0,tls'\n{sites}"));
    let text = server.rudy(&["certificates"]).succeeded();
    let expected = format!("source   {pem}");
    assert_eq!(text.matches(&expected).count(), 1, "two sites share it: {text}");
    assert_contains!(text, "a.test, b.test\n  expires  2120-01-01 (in ", "issuer   CN=authority");
    assert_contains!(text, "key      ECDSA P-256", &expected);
    assert!(!text.contains("error"), "{text}");
    folder.write("a.pem", "x");
    server.wait_for_line("the old TLS settings stay in use");
    let certificate = &server.rudy(&["certificates", "--json"]).json()["certificates"][0];
    assert_eq!(certificate["not_after"], "2120-01-01T00:00:00Z");
    assert_contains!(certificate["last_error"]["message"].as_str().unwrap(), "the file has no certificate");
}

#[test]
fn requests_are_answered_or_rejected_with_a_reason() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let mut server = start(&config(path.to_str().unwrap()), &folder);
    assert_eq!(folder.mode("admin.sock"), 0o600);
    let request = b"{\"command\":\"certificates\"}\n";
    assert!(send(&path, request)[0].starts_with("{\"certificates\":[{\"names\":["));
    assert_eq!(send(&path, &[&request[..], b"{\"command\":\"certificates\",\"x\":1}\n"].concat()).len(), 2);
    let long = vec![b' '; 70_000];
    for (request, expected) in [
        (&b"certificates\n"[..], "unknown request: expected"),
        (b"{\"command\":\"stop\"}\n", "unknown variant `stop`, expected one of `certificates`, "),
        (b"{\"command\":\"certificates\"}", "a request is a line of at most 65536 bytes"),
        (&long, "a request is a line of at most 65536 bytes"),
        (b"\xff\n", "unknown request"),
    ] {
        let lines = send(&path, request);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("{\"error\":\"") && line.contains(expected), "{line}");
    }
    assert_eq!(send(&path, b""), Vec::<String>::new());
    // Silent clients delay neither the server nor, once they are gone, others.
    let silent: Vec<_> = (0..30).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    server.reload("was reloaded");
    drop(silent);
    assert_eq!(send(&path, request).len(), 1);
    assert_eq!(certificates(&["--socket", path.to_str().unwrap()]).code, Some(0));
}

#[test]
fn the_socket_follows_reloads_and_is_removed_at_the_end() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name);
    let text = |name: &str| config(path(name).to_str().unwrap());
    let mut server = start(&text("one"), &folder);
    let mut reload = |name: &str, expected: &str| server.reload_with(&text(name), expected);
    reload("two", "was reloaded");
    assert!(!path("one").exists() && path("two").exists());
    // A file of another program stays, and so does the old socket.
    fs::write(path("file"), "x").unwrap();
    reload("file", "the file at this path is not a socket");
    assert_eq!(fs::read(path("file")).unwrap(), b"x");
    assert_eq!(send(&path("two"), b"{\"command\":\"certificates\"}\n").len(), 1);
    // The socket of another server stays, too.
    folder.write("other.toml", text("two"));
    let other =
        Rudy::command(["serve"]).arg(path("other.toml")).env("STATE_DIRECTORY", folder.path()).output();
    assert!(!other.is_success());
    assert_contains!(other.stderr, "another process listens on this socket");
    server.stop();
    assert!(!path("two").exists());
    // A stale socket is replaced.
    drop(UnixListener::bind(path("one")).unwrap());
    let server = start(&text("one"), &folder);
    assert_eq!(send(&path("one"), b"{\"command\":\"certificates\"}\n").len(), 1);
    drop(server);
}

#[test]
fn an_upgrade_takes_over_the_socket() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let text = config(path.to_str().unwrap()) + "[limits]\nidle_timeout = '1s'\n";
    let mut server = start(&text, &folder);
    server.signal(Signal::USR2);
    server.wait_for_line("has replaced process");
    assert_eq!(send(&path, b"{\"command\":\"certificates\"}\n").len(), 1);
    assert_ne!(listener(&path), server.pid());
    // The old process forwards the signal.
    server.stop();
    wait_until("the socket is removed", || !path.exists());
}

#[test]
fn an_upgrade_replaces_no_file_of_others() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name);
    let start = |name: &str| start(&config(path(name).to_str().unwrap()), &folder);
    let (mut server, other) = (start("own"), start("other"));
    fs::write(path("file"), "x").unwrap();
    let socket = "another process listens on this socket";
    for (name, expected) in [("file", "the file at this path is not a socket"), ("other", socket)] {
        server.path().write("rudy.toml", config(path(name).to_str().unwrap()));
        server.forget_lines();
        server.signal(Signal::USR2);
        assert_contains!(server.wait_for_line("this process continues"), expected);
        assert_eq!(listener(&path("own")), server.pid());
    }
    assert_eq!(fs::read(path("file")).unwrap(), b"x");
    assert_eq!(listener(&path("other")), other.pid());
}

#[test]
fn the_old_process_opens_the_socket_again_if_the_new_one_ends() {
    let folder = Folder::new();
    let path = folder.join("admin.sock");
    let text = config(path.to_str().unwrap());
    let mut server = start(&text, &folder);
    server.signal(Signal::USR2);
    server.wait_for_line("has replaced process");
    let new = listener(&path);
    assert_ne!(new, server.pid());
    kill_process(Pid::from_raw(i32::try_from(new).unwrap()).unwrap(), Signal::KILL).unwrap();
    server.wait_for_line("accepts connections again");
    wait_until("the old process listens", || {
        UnixStream::connect(&path).is_ok_and(|_| listener(&path) == server.pid())
    });
    assert_eq!(send(&path, b"{\"command\":\"certificates\"}\n").len(), 1);
    server.stop();
    assert!(!path.exists());
}

#[test]
fn a_server_that_hangs_delays_neither_commands_nor_other_servers() {
    let folder = Folder::new();
    let start = || Server::build().files(&[("a.txt", b"a")]).env("STATE_DIRECTORY", folder.path()).start();
    let (hanging, other) = (start(), start());
    let pids = [hanging.pid(), other.pid()].map(|pid| pid.to_string());
    for pid in &pids {
        certificates(&["--pid", pid]).with_code(0);
    }
    let without_pid = certificates(&[]).stderr;
    assert!(without_pid.contains("several servers are running") && without_pid.contains(&pids[1]));
    let uid = geteuid().as_raw();
    let folders = ["/run/rudy".to_owned(), format!("/run/user/{uid}/rudy"), format!("/tmp/rudy-{uid}")];
    let sockets = folders.map(|folder| Path::new(&folder).join(format!("admin-{}.sock", pids[0])));
    let socket = sockets.iter().find(|path| path.exists()).expect("the server has an admin socket");
    hanging.signal(Signal::STOP);
    let queued: Vec<_> = (0..1000).map_while(|_| rudy_socket::file::connect(socket).ok()).collect();
    assert!(queued.len() < 1000, "the queue is limited");
    let output = certificates(&["--pid", &pids[0]]);
    assert!(output.stderr.contains("does not respond"), "{}", output.stderr);
    assert_eq!(start().get("/a.txt").text(), "a");
    assert!(socket.exists(), "the socket is live");
}

#[test]
fn another_user_is_rejected() {
    let Some(setpriv) = program("setpriv").filter(|_| geteuid().is_root()) else { return };
    let folder = Folder::new();
    folder.set_mode(".", 0o755);
    let path = |name: &str| folder.join(name);
    fs::copy(binary(), path("rudy")).unwrap();
    let socket = path("admin.sock").display().to_string();
    let server = start(&config(&socket), &folder.join("state"));
    let as_other = |arguments: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(path("rudy"));
        Output::of(command.arg("certificates").args(arguments)).failed_with(1)
    };
    let no_permission = "ask as root or as the user of the server";
    assert!(as_other(&["--socket", &socket]).contains(no_permission));
    assert!(as_other(&["--pid", &server.pid().to_string()]).contains(no_permission));
    // The server does not rely on the permissions of the file.
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    assert!(as_other(&["--socket", &socket]).contains("only root and the user of the server may ask"));
}

#[test]
fn a_missing_server_is_explained() {
    for (arguments, expected) in [
        (&["--socket", "/nonexistent/admin.sock"][..], "no server listens on /nonexistent/admin.sock"),
        (&["--pid", "1"], "process 1 has no admin socket at its default path"),
        (&["--pid", "4000000000"], "there is no process 4000000000"),
    ] {
        assert_contains!(certificates(arguments).failed_with(1), expected);
    }
}

/// `rudy certificates` with a program that is no admin socket behind it.
#[test]
fn a_foreign_socket_is_reported() {
    let folder = Folder::new();
    let path = folder.join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let foreign = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 10];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 400\n").unwrap();
    });
    let output = certificates(&["--socket", path.to_str().unwrap()]);
    assert!(output.stderr.contains("did not respond as an admin socket"));
    foreign.join().unwrap();
}

/// Another user may listen on the path that is given with `--socket`.
#[test]
fn what_a_false_admin_socket_responds_does_not_reach_the_terminal() {
    let folder = Folder::new();
    let path = folder.join("false.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let text = "\\u001b[2J\\u009b2J\\u007f\\u202e\\rx";
    let limit = format!(
        "{{\"name\":\"{text}\",\"max\":\"{text}\",\"by\":\"\",\"rejected\":1,\"dry_run\":0,\"top\":[]}}"
    );
    let commands: [(&[&str], String); 6] = [
        (&["limits"], format!("{{\"limits\":[{limit}]}}")),
        (&["limits", "--json"], format!("{{\"limits\":[{limit}]}}")),
        (&["metrics"], format!("{{\"metrics\":\"# HELP\\n{text}\\n\"}}")),
        (&["metrics"], format!("{{\"error\":\"{text}\"}}")),
        (&["status"], format!("{{\"error\":\"{text}\"}}")),
        (&["upstreams", "--json"], format!("{{\"metrics\":\"{text}\"}}")),
    ];
    for (arguments, response) in commands {
        let output = thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                stream.read_line(&mut String::new()).unwrap();
                stream.get_mut().write_all(format!("{response}\n").as_bytes()).unwrap();
            });
            Rudy::command(arguments).arg("--socket").arg(&path).output()
        });
        let printed = output.text();
        let is_safe = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        assert!(printed.contains("[2J") && printed.chars().all(is_safe), "{arguments:?}: {printed:?}");
        if arguments.contains(&"--json") && printed.starts_with('{') {
            let value: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(value["limits"][0]["name"], "\x1b[2J\u{9b}2J\x7f\u{202e}\rx");
        }
    }
}
