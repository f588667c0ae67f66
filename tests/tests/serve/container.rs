//! Rudy as process 1 of a container: it starts the server as a child, reaps zombies, and forwards signals.

use rudy_tests::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Runs a command as process 1 of a new PID namespace.
const UNSHARE: &str = "unshare --fork --pid --mount-proc --kill-child";

const SITE: &str = "listen = [\"127.0.0.1:0\"]\n[[site]]\n";
const HELLO: &str = "[[site.route]]\npath = \"/\"\nrespond = { body = \"hello\" }\n";

/// Whether a process can have the id 1 here; otherwise the test is skipped.
fn can_be_first() -> bool {
    let is_allowed = geteuid().is_root() && program("unshare").is_some();
    if !is_allowed {
        skip("only root can start a process with the id 1 (unshare --pid)");
    }
    is_allowed
}

/// A server in a separate container.
struct Container {
    server: Server,
    /// Process 1.
    first: Pid,
}

impl Container {
    /// Starts a server with this configuration.
    fn start(config: &str) -> Self {
        Self::through_shell(Server::build().config(config), &format!("exec {UNSHARE} \"$@\""))
    }

    fn through_shell(builder: Builder, script: &str) -> Self {
        let server = builder.through_shell(script).start();
        let first = children(server.pid())[0];
        Self { server, first }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.first, signal).expect("process 1 runs");
    }

    /// The only child of process 1.
    fn child(&self) -> Pid {
        let [server] = children(self.first)[..] else { panic!("{:?}", children(self.first)) };
        server
    }

    /// Waits until the new process of an upgrade is the only child.
    fn has_reaped(&self, old: Pid) {
        let others = || children(self.first);
        wait_until("the old server is reaped", || matches!(others()[..], [server] if server != old));
    }

    /// Waits until process 1 ends with this code. Returns its stderr.
    fn ends_with(&mut self, code: i32) -> String {
        self.server.exits_with(code)
    }
}

/// A configuration with an app that a shell runs.
fn with_app(script: &str) -> String {
    format!(
        "{SITE}[[site.route]]\npath = \"/\"\nfastcgi = {{ command = [\"/bin/sh\", \"-c\", '''{script}'''] }}\n"
    )
}

#[test]
fn a_thousand_orphans_leave_no_zombie() {
    needs!(can_be_first());
    let folder = Folder::new();
    let path = folder.join("done");
    let orphans = "i=0; while [ $i -lt 1000 ]; do (sleep 0.01 &); i=$((i+1)); done";
    let app = format!("{orphans}; echo > {}; exec sleep 1000", path.display());
    let mut container = Container::start(&with_app(&app));
    wait_until("the orphans are started", || path.exists());
    wait_until("the orphans are reaped", || children(container.first).len() == 1);
    let server = container.child();
    let app = children(server);
    assert_eq!(app.len(), 1, "the server has other children than its app");
    assert_eq!(children(app[0]), []);
    container.signal(Signal::TERM);
    let stderr = container.ends_with(0);
    assert!(stderr.ends_with("notice: stopped"), "{stderr}");
}

#[test]
fn an_orphan_that_a_real_time_signal_killed_is_reaped_too() {
    needs!(can_be_first());
    let app = "(sh -c \"kill -40 \\$\\$\" &); exec sleep 1000";
    let container = Container::start(&with_app(app));
    let server = eventually("the orphan is reaped", || {
        let [server] = children(container.first)[..] else { return None };
        let app = *children(server).first()?;
        let name = fs::read_to_string(format!("/proc/{app}/comm")).ok()?;
        (name == "sleep\n" && children(container.first) == [server]).then_some(server)
    });
    assert_eq!(container.child(), server);
}

#[test]
fn signals_are_forwarded_and_a_second_one_stops_the_server_at_once() {
    needs!(can_be_first());
    let app = "trap \"\" TERM; while :; do sleep 1000; done";
    let mut container = Container::start(&with_app(app));
    container.signal(Signal::HUP);
    container.server.wait_for_line("SIGHUP: the configuration was reloaded");
    container.signal(Signal::USR1);
    container.server.wait_for_line("SIGUSR1: the access log was reopened");
    container.signal(Signal::WINCH);
    container.signal(Signal::TERM);
    container.server.wait_for_line("SIGTERM: stopping");
    container.signal(Signal::INT);
    container.ends_with(130);
}

#[test]
fn process_1_exits_with_the_code_of_the_server() {
    needs!(can_be_first());
    let ends = [(Signal::KILL, 137), (Signal::ABORT, 134), (Signal::QUIT, 131)];
    // Not SIGSEGV: the handler of the standard library expects the fault to happen again.
    for (signal, expected) in ends {
        let mut container = Container::start(&format!("{SITE}{HELLO}"));
        kill_process(container.child(), signal).unwrap();
        container.ends_with(expected);
    }
    let bad = Server::build().config("nonsense = 1\n").through_shell(&format!("exec {UNSHARE} \"$@\""));
    assert_eq!(bad.output().code, Some(2));
}

#[test]
fn the_server_and_its_app_end_with_process_1() {
    needs!(can_be_first());
    let mut container = Container::start(&with_app("exec sleep 1000"));
    let server = container.child();
    let app = eventually("the app runs", || children(server).first().copied());
    container.signal(Signal::KILL);
    container.server.wait();
    for process in [server, app] {
        wait_until("it has ended", || test_kill_process(process).is_err());
    }
}

#[test]
fn process_1_continues_with_the_successor_of_the_server() {
    if !can_be_first() || program("nsenter").is_none() {
        return;
    }
    let folder = Folder::new();
    let fifo = folder.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut container = Container::start(&format!("{SITE}{HELLO}"));
    let server = container.child();
    // Instead of an upgrade: a process in the group of the server, whose parent has ended. It exits with the code that it reads.
    let successor = format!("(read code < {}; exit $code) &", fifo.display());
    let status = Command::new("nsenter")
        .args([&format!("--target={}", container.first), "--pid", "--", "sh", "-c", &successor])
        .process_group(server.as_raw_pid())
        .status();
    assert!(status.unwrap().success());
    let both = children(container.first);
    assert_eq!(both.len(), 2, "{both:?}");
    kill_process(server, Signal::TERM).unwrap();
    wait_until("the server is reaped", || children(container.first).len() == 1);
    assert_ne!(container.child(), server);
    fs::write(&fifo, "7\n").unwrap();
    container.ends_with(7);
}

/// `/app` is an app that responds to a POST after it has received the body.
fn with_upload() -> String {
    format!(
        "{SITE}{HELLO}[[site.route]]\npath = \"/app\"\nfastcgi = {{ command = [\"{}\"] }}\n",
        fastcgi_info().display()
    )
}

/// Begins a request that the current server has to finish.
fn begin_upload(container: &Container) -> Connection {
    container.server.send(b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab")
}

fn finish_upload(mut upload: Connection) {
    upload.send(b"cd");
    assert_eq!(upload.response().status, 200);
}

#[test]
fn two_upgrades_work_and_each_signal_arrives_once() {
    needs!(can_be_first());
    let mut container = Container::start(&with_upload());
    let load = Load::start(container.server.address(), &[u64::MAX, 1], &["/", "/app"], |target, response| {
        assert_eq!(response.status, 200, "{target}: {}", response.head);
    });
    for _ in 0..2 {
        let old = container.child();
        let upload = begin_upload(&container);
        container.server.forget_lines();
        container.signal(Signal::USR2);
        container.server.wait_for_line(" has replaced process ");
        container.signal(Signal::HUP);
        container.server.wait_for_line("SIGHUP: the configuration was reloaded");
        container.signal(Signal::USR1);
        container.server.wait_for_line("SIGUSR1: the access log was reopened");
        assert_eq!(container.child(), old, "it finishes its requests");
        finish_upload(upload);
        container.has_reaped(old);
        let lines = container.server.take_lines().join("\n");
        for signal in ["SIGHUP: ", "SIGUSR1: "] {
            assert_eq!(lines.matches(signal).count(), 1, "{lines}");
        }
        assert_eq!(children(container.child()).len(), 1, "only the app is a child of the server");
    }
    assert!(load.stop().responses > 10);
    container.signal(Signal::TERM);
    let stderr = container.ends_with(0);
    assert_eq!(stderr.matches("SIGTERM: ").count(), 1, "{stderr}");
}

#[test]
fn a_stop_ends_both_servers_of_an_upgrade_and_finishes_requests() {
    needs!(can_be_first());
    for (second, expected) in [(None, 0), (Some(Signal::INT), 130)] {
        let mut container = Container::start(&with_upload());
        let old = begin_upload(&container);
        container.signal(Signal::USR2);
        container.server.wait_for_line(" has replaced process ");
        let new = begin_upload(&container);
        container.signal(Signal::TERM);
        container.server.wait_for_line("SIGTERM: stopping; ");
        match second {
            Some(signal) => container.signal(signal),
            None => drop([old, new].map(finish_upload)),
        }
        container.ends_with(expected);
    }
}

#[test]
fn a_signal_that_a_server_did_not_forward_reaches_its_successor() {
    needs!(can_be_first());
    // SIGQUIT kills a server, which therefore does not forward it. Process 1 sends it to the next one.
    let mut container = Container::start(&with_upload());
    let _upload = begin_upload(&container);
    container.signal(Signal::USR2);
    container.server.wait_for_line(" has replaced process ");
    container.signal(Signal::QUIT);
    container.ends_with(131);
}

#[test]
fn rudy_reload_in_the_container_finds_the_server_and_prints_the_result() {
    needs!(can_be_first());
    let Some(nsenter) = program("nsenter") else { return };
    let container = Container::start(&with_upload());
    let inside = |arguments: &[&str]| {
        let target = format!("--target={}", container.first);
        let mut command = Command::new(&nsenter);
        command.args([&target, "--pid", "--mount"]).arg(binary()).arg("reload").args(arguments);
        Output::of(&mut command).with_code(0).text()
    };
    let upload = begin_upload(&container);
    assert!(inside(&["--binary"]).contains(" has replaced process "));
    for arguments in [&[][..], &["--pid", "1"]] {
        assert!(inside(arguments).starts_with("the configuration was reloaded"));
    }
    finish_upload(upload);
    assert!(inside(&["--pid", "1", "--binary"]).contains(" has replaced process "));
    // Outside, the server has another process id, so it cannot report the result there.
    for pid in [container.first, container.child()] {
        let text = Rudy::run(["reload", "--pid", &pid.to_string()]).text();
        assert_contains!(text, "SIGHUP was sent to process ", "the result is in its log");
    }
}

#[test]
fn commands_in_the_container_find_the_admin_socket_of_the_server() {
    needs!(can_be_first());
    let Some(nsenter) = program("nsenter") else { return };
    // A `/run` of its own: in a shared one, the server of another container with the same process id has the same socket.
    let script = format!("exec {UNSHARE} sh -c 'mount -t tmpfs tmpfs /run && exec \"$@\"' sh \"$@\"");
    let container = Container::through_shell(Server::build().config(&format!("{SITE}{HELLO}")), &script);
    for arguments in [&["status"][..], &["status", "--pid", "1"]] {
        let mut command = Command::new(&nsenter);
        command.args([&format!("--target={}", container.first), "--pid", "--mount"]).arg(binary());
        Output::of(command.args(arguments)).succeeded();
    }
}

#[test]
fn the_service_manager_does_not_receive_the_process_id_of_a_successor() {
    needs!(can_be_first());
    let folder = Folder::new();
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let script = format!("NOTIFY_SOCKET='{}' exec {UNSHARE} \"$@\"", path.display());
    let mut container = Container::through_shell(Server::build().config(&format!("{SITE}{HELLO}")), &script);
    for _ in 0..2 {
        let old = container.child();
        container.signal(Signal::USR2);
        container.has_reaped(old);
    }
    container.signal(Signal::TERM);
    container.ends_with(0);
    let mut buffer = [0; 256];
    let mut messages = Vec::new();
    while messages.last().is_none_or(|last| last != "STOPPING=1") {
        let bytes = socket.recv(&mut buffer).expect("a message arrives");
        let message = String::from_utf8_lossy(&buffer[..bytes]);
        messages.push(message.lines().next().unwrap_or_default().to_owned());
    }
    let upgrade = ["RELOADING=1", "READY=1"];
    assert_eq!(messages, [&["READY=1"][..], &upgrade, &upgrade, &["STOPPING=1"]].concat());
}

#[test]
fn the_server_is_in_the_foreground_of_the_terminal() {
    if !can_be_first() || program("script").is_none() || program("setsid").is_none() {
        return;
    }
    // `script` creates a terminal, and `setsid` makes process 1 its session leader, like `docker run --tty`.
    let in_terminal =
        format!("exec script --quiet --return --command \"{UNSHARE} setsid --ctty $*\" /dev/null >&2");
    let (stdin, mut keyboard) = std::io::pipe().unwrap();
    let mut server = Server::build()
        .config(&format!("{SITE}{HELLO}"))
        .through_shell(&in_terminal)
        .stdin(OwnedFd::from(stdin))
        .start();
    // The terminal echoes the key after it has sent the signal.
    keyboard.write_all(b"\x1a\n").unwrap();
    server.wait_for_line("^Z");
    assert_eq!(server.get("/").text(), "hello");
    keyboard.write_all(b"\x03").unwrap();
    assert_contains!(server.exits_with(0), "SIGINT: stopping");
}

#[test]
fn sockets_passed_to_process_1_are_used_by_the_server() {
    needs!(can_be_first());
    let (listener, address) = listen();
    let folder = Folder::with(&[("a.txt", "a")]);
    let script = format!("exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=1 exec {UNSHARE} \"$@\"");
    let server = Server::build()
        .arg(folder.path())
        .args(["--listen", "systemd"])
        .through_shell(&script)
        .stdin(OwnedFd::from(listener))
        .start();
    assert_eq!(server.address(), address);
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_killed_server_can_start_again() {
    needs!(can_be_first());
    let (folder, temporary) = (Folder::new(), Folder::new());
    let socket = folder.join("rudy.sock");
    let text = format!(
        "listen = [\"127.0.0.1:0\", \"unix:{}\"]\n[[site]]\n[[site.route]]\npath = \"/info\"\nfastcgi = {{ command = [\"{}\"] }}\n",
        socket.display(),
        fastcgi_info().display()
    );
    let config = folder.write("rudy.toml", text);
    let environment = format!("export TMPDIR='{temporary}' XDG_RUNTIME_DIR=");
    for start in 1..=4 {
        let builder = Server::build().arg("--config").arg(&config);
        let mut container =
            Container::through_shell(builder, &format!("{environment}; exec {UNSHARE} \"$@\""));
        assert_eq!(container.server.get("/info").status, 200, "start {start}");
        let response = exchange_unix(&socket, b"GET /info HTTP/1.0\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 200 "), "start {start}");
        let folders: Vec<_> =
            fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        // Each start has the same process ids, and reuses the folder of the previous one.
        assert_eq!(folders.len(), 1, "start {start}: {folders:?}");
        container.signal(Signal::KILL);
        container.server.wait();
        assert!(socket.exists(), "it had no time to remove its socket");
    }
}

#[test]
fn a_profile_without_openat2_serves_files_and_links_within_the_folder_only() {
    for errno in [1, 38] {
        let Some(script) = without_openat2(errno) else { return };
        let folder = Folder::with(&[("secret", "secret")]);
        let root = folder.join("root");
        root.write("a/b/page.txt", "page");
        for (name, target) in [("inside", "a/b/../b/page.txt"), ("outside", "../secret"), ("a/up", "../..")] {
            symlink(target, root.join(name)).unwrap();
        }
        let build = Server::build().arg(&root).args(["--listen", "127.0.0.1:0", "--browse"]);
        let mut server = build.through_shell(&script).start();
        server.wait_for_line("openat2 is not available (");
        let there = ["/a/b/page.txt", "/inside", "/a/b/"].map(|path| (path, 200));
        for (path, status) in there.into_iter().chain([("/outside", 404), ("/a/up/secret", 404)]) {
            // The second time, the file or its absence is cached.
            assert_eq!([0; 2].map(|_| server.get(path).status), [status; 2], "{errno} {path}");
        }
        assert_eq!(server.get("/inside").text(), "page");
        let lines = server.take_lines().join("\n");
        assert_eq!(lines.matches("openat2").count(), 1, "{lines}");
    }
}
