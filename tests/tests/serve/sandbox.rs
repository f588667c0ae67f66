//! `sandbox = true`: a server that is restricted to the folders of its configuration.

use rudy_fastcgi::ProtocolStatus;
use rudy_tests::prelude::*;

const TAKEN_OVER: &str = "the configuration was reloaded";
const KEPT: &str = "the configuration is unchanged";
const OUTSIDE: &str = "outside the sandbox, which a reload cannot extend";

/// Folders beside each other: `config` with the configuration, `site` with a page, `logs` and `bodies`, and `other`, which no
/// configuration names. A link leads from the site to a file there.
struct Place(Folder);

impl Place {
    /// `None` if the test is skipped, because this kernel does not support Landlock.
    fn new() -> Option<Self> {
        let place = Self(Folder::new());
        for folder in ["config", "site", "logs", "bodies", "other"] {
            fs::create_dir(place.path(folder)).expect("a temp folder can be written");
        }
        fs::write(place.path("site/page.txt"), "hello").expect("a temp folder can be written");
        fs::write(place.path("other/secret.txt"), "secret").expect("a temp folder can be written");
        symlink(place.path("other/secret.txt"), place.path("site/link.txt"))
            .expect("a temp folder can be written");
        symlink(place.path("other"), place.path("site/folder")).expect("a temp folder can be written");
        place.write("true", "");
        let errors = place.check().stderr;
        if errors.contains("does not support Landlock") {
            skip_unsupported("this kernel does not support Landlock");
            return None;
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces the configuration by a new file, as editors do; `more` belongs to its site.
    fn write(&self, sandbox: &str, more: &str) {
        self.write_with("", sandbox, more);
    }

    fn write_with(&self, top: &str, sandbox: &str, more: &str) {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nsandbox = {sandbox}\nbuffer_dir = \"../bodies\"\n\
             access_log = {{ path = \"../logs/access.log\" }}\n{top}\n[[site]]\n{more}\n[[site.route]]\npath = \"/*\"\n\
             files = {{ root = \"../site\", follow_symlinks = true, browse = true, revalidate_after = \"0s\" }}\n"
        );
        fs::write(self.path("config/new.toml"), text).expect("a temp folder can be written");
        fs::rename(self.path("config/new.toml"), self.path("config/rudy.toml"))
            .expect("a temp folder can be written");
    }

    fn start(&self) -> Server {
        Server::build().arg("--config").arg(self.path("config/rudy.toml")).start()
    }

    fn run(&self, command: &str) -> Output {
        let option = (command != "check").then_some("--config");
        Rudy::command([command]).args(option).arg(self.path("config/rudy.toml")).output()
    }

    fn check(&self) -> Output {
        self.run("check")
    }
}

fn route(path: &str, handler: &str) -> String {
    format!("[[site.route]]\npath = \"{path}\"\n{handler}\n")
}

#[test]
fn files_outside_cannot_be_opened_on_any_engine_and_files_inside_are_served() {
    let Some(place) = Place::new() else { return };
    for engine in engines() {
        let start = || {
            let build = Server::build().arg("--config").arg(place.path("config/rudy.toml"));
            build.engine(engine).start()
        };
        place.write("false", "");
        let server = start();
        // The links are followed without a sandbox.
        assert_eq!(server.get("/link.txt").text(), "secret", "{engine}");
        place.write("true", "");
        let mut server = start();
        assert_eq!(server.get("/page.txt").text(), "hello", "{engine}");
        for path in ["/link.txt", "/folder/secret.txt", "/folder/", "/link.txt"] {
            let status = server.get(path).status;
            assert!([403, 404].contains(&status), "{engine} {path}: {status}");
        }
        // The log says why the permission is missing.
        server.wait_for_line("; Rudy may open only the paths in its configuration (`sandbox`)");
        assert!(server.get("/").text().contains("page.txt"), "{engine}");
        fs::write(place.path("site/new.txt"), "new").unwrap();
        assert_eq!(server.get("/new.txt").text(), "new", "{engine}");
        fs::remove_file(place.path("site/new.txt")).unwrap();
    }
}

#[test]
fn a_renamed_log_is_reopened() {
    let Some(place) = Place::new() else { return };
    let mut server = place.start();
    let log = place.path("logs/access.log");
    for number in 0..2 {
        fs::rename(&log, place.path(&format!("logs/old.{number}"))).unwrap();
        server.forget_lines();
        server.signal(Signal::USR1);
        server.wait_for_line("the access log was reopened");
        assert_eq!(server.get("/page.txt").status, 200);
        eventually("the line is written", || {
            fs::read_to_string(&log).ok().filter(|text| text.contains("/page.txt"))
        });
    }
}

#[test]
fn a_reload_that_adds_a_folder_needs_a_restart_and_other_changes_apply() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("site/inner")).unwrap();
    fs::write(place.path("site/inner/page.txt"), "inner").unwrap();
    let mut server = place.start();
    let other = place.path("other");
    let outside = [
        route("/o/*", &format!("files = {{ root = \"{}\" }}", other.display())),
        // The path may lead through a link.
        route("/o/*", "files = { root = \"../site/folder\" }"),
        route("/o/*", "files = { root = \"../site/../other\" }"),
        route("/o", "respond = { body_file = \"../other/secret.txt\" }"),
        route("/o", "tail = { files = \"../other/*.log\", allow = \"loopback\" }"),
        route("/o", "fastcgi = { address = \"127.0.0.1:1\", sendfile_root = \"../other\" }"),
    ];
    for more in outside {
        place.write("true", &more);
        server.reload(KEPT);
        assert_contains!(server.wait_for_line(OUTSIDE), "SIGHUP: cannot read ");
        assert_eq!(server.get("/page.txt").text(), "hello");
    }
    for (top, what) in [
        ("access_log = { path = \"../other/access.log\" }", "logs/access.log"),
        ("buffer_dir = \"../other\"", "bodies"),
        ("listen = [\"127.0.0.1:0\", \"unix:../other/rudy.sock\"]", "listen"),
    ] {
        let key = top.split(' ').next().unwrap();
        place.write("true", "");
        let text = fs::read_to_string(place.path("config/rudy.toml")).unwrap();
        let changed: Vec<_> =
            text.lines().map(|line| if line.starts_with(key) { top } else { line }).collect();
        fs::write(place.path("config/rudy.toml"), changed.join("\n")).unwrap();
        server.reload(KEPT);
        let line = server.wait_for_line(OUTSIDE);
        assert!(line.contains("write in ") && line.contains("other"), "{what}: {line}");
    }
    assert!(!place.path("other/rudy.sock").exists() && !place.path("other/access.log").exists());
    place.write("true", &route("/i/*", "files = { root = \"../site/inner\" }"));
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/i/page.txt").text(), "inner");
    // A reload does not change the sandbox.
    assert!([403, 404].contains(&server.get("/link.txt").status));
}

#[test]
fn a_reload_does_not_leave_the_sandbox() {
    let Some(place) = Place::new() else { return };
    let mut server = place.start();
    place.write("false", "");
    server.reload("a change of `sandbox` needs a restart");
    assert!([403, 404].contains(&server.get("/link.txt").status));
    place.write("false", &route("/app", "fastcgi = { command = [\"/bin/true\"] }"));
    server.reload(KEPT);
    server.wait_for_line("an app cannot be started in the sandbox");
    assert_eq!(server.get("/page.txt").text(), "hello");
}

#[test]
fn an_upgrade_needs_a_restart_and_changes_nothing() {
    let Some(place) = Place::new() else { return };
    let mut server = place.start();
    // The sandbox that was entered counts, not the current configuration.
    for sandbox in ["true", "false"] {
        place.write(sandbox, "");
        let pid = server.pid().to_string();
        let stderr = Rudy::run(["reload", "--binary", "--pid", &pid]).failed_with(1);
        let expected = "the sandbox does not allow starting programs; restart Rudy to run a new binary";
        assert!(stderr.starts_with(&format!("error: upgrade failed: {expected}")), "{stderr}");
        server.wait_for_line("this process continues");
        assert_eq!(server.get("/page.txt").text(), "hello");
        server.reload(TAKEN_OVER);
    }
}

#[test]
fn a_replaced_body_file_needs_a_restart() {
    let Some(place) = Place::new() else { return };
    let body = place.path("other/body.txt");
    fs::write(&body, "body").unwrap();
    let more = route("/body", "respond = { body_file = \"../other/body.txt\" }");
    place.write("true", &more);
    let mut server = place.start();
    assert_eq!(server.get("/body").text(), "body");
    assert!([403, 404].contains(&server.get("/link.txt").status), "the file, and not its folder");
    fs::write(&body, "changed").unwrap();
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/body").text(), "changed");
    fs::write(place.path("other/new.txt"), "new").unwrap();
    fs::rename(place.path("other/new.txt"), &body).unwrap();
    server.reload(KEPT);
    server.wait_for_line(OUTSIDE);
    assert_eq!(server.get("/body").text(), "changed");
}

#[test]
fn error_pages_and_redirects_are_read_at_the_start_and_by_a_reload() {
    let Some(place) = Place::new() else { return };
    // The folder of a list of redirects is allowed, because editors replace the file.
    fs::create_dir(place.path("lists")).unwrap();
    fs::create_dir(place.path("errors")).unwrap();
    fs::write(place.path("errors/404.html"), "<p>missing").unwrap();
    fs::write(place.path("down.html"), "<p>down").unwrap();
    fs::write(place.path("lists/redirects.txt"), "/old /new\n").unwrap();
    let settings = |errors: &str, redirects: &str| {
        let pages =
            format!("error_pages = {{ folder = \"{errors}\", 503 = {{ file = \"../down.html\" }} }}\n");
        let routes = route("/down", "respond = 503");
        place.write("true", &format!("{pages}redirects = \"{redirects}\"\n{routes}"));
    };
    settings("../errors", "../lists/redirects.txt");
    let mut server = place.start();
    assert_eq!(server.get("/none").text(), "<p>missing");
    assert_eq!(server.get("/down").text(), "<p>down");
    assert_eq!(server.get("/old").field("location"), Some("/new"));
    fs::write(place.path("errors/404.html"), "<p>changed").unwrap();
    fs::write(place.path("errors/400.html"), "<p>bad").unwrap();
    fs::write(place.path("lists/new.txt"), "/old /newer\n").unwrap();
    fs::rename(place.path("lists/new.txt"), place.path("lists/redirects.txt")).unwrap();
    server.reload(TAKEN_OVER);
    assert_eq!((server.get("/none").text(), server.get("/..").text()), ("<p>changed", "<p>bad"));
    assert_eq!(server.get("/old").field("location"), Some("/newer"));
    fs::write(place.path("other/404.html"), "<p>other").unwrap();
    for (errors, redirects) in [("../other", "../lists/redirects.txt"), ("../errors", "../other/secret.txt")]
    {
        settings(errors, redirects);
        server.reload(KEPT);
        server.wait_for_line(OUTSIDE);
        assert_eq!(server.get("/none").text(), "<p>changed");
        assert_eq!(server.get("/old").field("location"), Some("/newer"));
    }
}

#[test]
fn a_file_behind_a_link_is_read_at_the_start_and_after_it_was_replaced() {
    let Some(place) = Place::new() else { return };
    // Links lead from one folder to others, as those of certbot from `live` to `archive`.
    for folder in ["live", "archive", "users"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let replace = |target: &str, text: &str| {
        fs::write(place.path("archive").join(target), text).unwrap();
        symlink(format!("../archive/{target}"), place.path("live/new")).unwrap();
        fs::rename(place.path("live/new"), place.path("live/redirects.txt")).unwrap();
    };
    replace("redirects1.txt", "/old /new\n");
    fs::write(place.path("users/htpasswd1"), "").unwrap();
    symlink("../users/htpasswd1", place.path("live/htpasswd")).unwrap();
    let login = route("/secret", "respond = \"secret\"\nbasic_auth = \"../live/htpasswd\"");
    place.write("true", &format!("redirects = \"../live/redirects.txt\"\n{login}"));
    let mut server = place.start();
    assert_eq!(server.get("/secret").status, 401);
    assert_eq!(server.get("/old").field("location"), Some("/new"));
    replace("redirects2.txt", "/old /newer\n");
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/old").field("location"), Some("/newer"));
}

#[test]
fn an_app_cannot_be_started_in_the_sandbox() {
    let Some(place) = Place::new() else { return };
    place.write("true", &route("/app", "fastcgi = { command = [\"/bin/true\"] }"));
    for command in ["check", "serve"] {
        let stderr = place.run(command).failed_with(2);
        assert_contains!(stderr, "an app cannot be started in the sandbox", "a separate systemd service");
    }
}

#[test]
fn an_app_works_with_stored_bodies_and_sendfile() {
    const LENGTH: usize = 4 << 20;
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("files")).unwrap();
    fs::write(place.path("files/sent.txt"), "sent").unwrap();
    // The socket of the app is in a folder outside the configuration.
    let app = App::serve(|peer, _| {
        let response = match peer.body() {
            Some(LENGTH) => "Status: 200\r\nX-Sendfile: sent.txt\r\n\r\n",
            _ => "Status: 500\r\n\r\n",
        };
        peer.stdout(response.as_bytes());
        peer.stdout_end();
        peer.end(ProtocolStatus::RequestComplete);
    });
    let table = format!("fastcgi = {{ address = \"{}\", sendfile_root = \"../files\" }}", app.address());
    place.write_with("buffer_memory = 0", "true", &route("/app", &table));
    let server = place.start();
    let mut connection = server.connect();
    let head = format!("POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: {LENGTH}\r\n\r\n");
    connection.send(head.as_bytes());
    connection.send(&vec![b'x'; LENGTH]);
    assert_eq!(connection.response().text(), "sent");
}

#[test]
fn files_are_followed_over_a_rotation() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("app")).unwrap();
    let log = place.path("app/app.log");
    fs::write(&log, "1\n").unwrap();
    place.write(
        "true",
        &route("/tail", "tail = { files = \"../app/*.log\", names = false, allow = \"loopback\" }"),
    );
    let server = place.start();
    let mut connection = server.send(b"GET /tail HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(connection.head().status, 200);
    let mut read = String::new();
    let mut until = |end: &str| {
        while !read.ends_with(end) {
            read += &connection.chunk().unwrap_or_else(|| panic!("it ended after {read:?}"));
        }
    };
    until("1\n");
    let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"2\n").unwrap();
    until("2\n");
    fs::rename(&log, place.path("app/app.log.1")).unwrap();
    fs::write(&log, "3\n").unwrap();
    until("3\n");
}

#[test]
fn status_and_sockets_work_and_a_stop_removes_the_socket_file() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("run")).unwrap();
    let status = route("/status", "status = { allow = \"loopback\" }");
    place.write("true", &status);
    let text = fs::read_to_string(place.path("config/rudy.toml")).unwrap();
    let listening = |sockets: &str| {
        let text = text.replace("[\"127.0.0.1:0\"]", &format!("[\"127.0.0.1:0\", {sockets}]"));
        fs::write(place.path("config/rudy.toml"), text).unwrap();
    };
    listening("\"unix:../run/one.sock\"");
    let mut server = place.start();
    let status: Value = serde_json::from_str(server.get("/status").text()).unwrap();
    assert!(status["memory"]["resident_bytes"].is_u64(), "{status}");
    // Replace the socket by another one in the same folder, and the address by all addresses.
    let port = free_port();
    listening(&format!("\"unix:../run/two.sock\", \"127.0.0.1:{port}\""));
    server.reload(TAKEN_OVER);
    listening(&format!("\"unix:../run/two.sock\", \":{port}\""));
    server.reload(TAKEN_OVER);
    assert!(place.path("run/two.sock").exists() && !place.path("run/one.sock").exists());
    server.signal(Signal::TERM);
    server.exits_with(0);
    assert_eq!(fs::read_dir(place.path("run")).unwrap().count(), 0);
}

#[test]
fn the_sandbox_works_with_a_user() {
    if !geteuid().is_root() {
        return skip("only root can start a server that drops root");
    }
    let Some(place) = Place::new() else { return };
    let open = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(place.0.path(), 0o755);
    open(&place.path("logs"), 0o777);
    place.write_with("user = \"4000123\"", "true", "");
    let mut server = place.start();
    assert_eq!(server.get("/page.txt").text(), "hello");
    assert!([403, 404].contains(&server.get("/link.txt").status));
    fs::rename(place.path("logs/access.log"), place.path("logs/old")).unwrap();
    server.reload(TAKEN_OVER);
    assert!(place.path("logs/access.log").exists());
}

/// Runs its arguments without the system calls of Landlock (444 to 446), like a kernel without Landlock.
const WITHOUT_LANDLOCK: &str = r#"
import ctypes, os, struct, sys
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
# Load the number; up to 443 and from 447 on: allow; else fail with ENOSYS (38).
code = op(0x20, 0, 0, 0) + op(0x35, 0, 2, 444) + op(0x35, 1, 0, 447) + op(6, 0, 0, 0x50000 + 38) + op(6, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_kernel_without_landlock_is_an_error() {
    let Some(python) = program("python3") else { return };
    let Some(place) = Place::new() else { return };
    let config = place.path("config/rudy.toml");
    for arguments in [&["check"][..], &["serve", "--config"]] {
        let mut command = Command::new(&python);
        command.args(["-c", WITHOUT_LANDLOCK]).arg(binary()).args(arguments).arg(&config);
        let stderr = Output::of(&mut command).failed_with(2);
        assert!(stderr.contains("error: the kernel does not support Landlock"), "{stderr}");
    }
    // Landlock is not needed without `sandbox`.
    place.write("false", "");
    let mut command = Command::new(python);
    command.args(["-c", WITHOUT_LANDLOCK]).arg(binary()).arg("check").arg(&config);
    assert!(Output::of(&mut command).is_success());
}
