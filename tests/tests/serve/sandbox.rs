//! `sandbox = true`: a server that is restricted to the folders of its configuration.

use std::ops::Deref;

use rudy_fastcgi::ProtocolStatus;
use rudy_tests::prelude::*;

const TAKEN_OVER: &str = "the configuration was reloaded";
const KEPT: &str = "the configuration is unchanged";
const OUTSIDE: &str = "outside the sandbox, which a reload cannot extend";

/// Folders beside each other: `config` with the configuration, `site` with a page, `logs` and `bodies`, and `other`, which no
/// configuration names. A link leads from the site to a file there.
struct Place(Folder);

impl Deref for Place {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Place {
    /// `None` if the test is skipped, because this kernel does not support Landlock.
    fn new() -> Option<Self> {
        let files = [("site/page.txt", "hello"), ("other/secret.txt", "secret")];
        let place = Self(Folder::with(&files));
        for folder in ["config", "logs", "bodies"] {
            fs::create_dir(place.path(folder)).expect("a temp folder can be written");
        }
        symlink(place.path("other/secret.txt"), place.path("site/link.txt")).expect("the name is free");
        symlink(place.path("other"), place.path("site/folder")).expect("the name is free");
        place.configure("true", "");
        if place.run("check").stderr.contains("does not support Landlock") {
            skip_unsupported("this kernel does not support Landlock");
            return None;
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.join(name)
    }

    fn build(&self) -> Builder {
        Server::build().arg("--config").arg(self.path("config/rudy.toml"))
    }

    /// Replaces the configuration by a new file, as editors do; `more` belongs to its site.
    fn configure(&self, sandbox: &str, more: &str) {
        self.configure_with("", sandbox, more);
    }

    fn configure_with(&self, top: &str, sandbox: &str, more: &str) {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nsandbox = {sandbox}\nbuffer_dir = \"../bodies\"\n\
             access_log = {{ path = \"../logs/access.log\" }}\n{top}\n[[site]]\n{more}\n[[site.route]]\npath = \"/*\"\n\
             files = {{ root = \"../site\", follow_symlinks = true, browse = true, revalidate_after = \"0s\" }}\n"
        );
        self.write("config/new.toml", text);
        self.rename("config/new.toml", "config/rudy.toml");
    }

    /// Renames a file, which replaces another one.
    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("a temp folder can be written");
    }

    fn start(&self) -> Server {
        self.build().start()
    }

    fn run(&self, command: &str) -> Output {
        let option = (command != "check").then_some("--config");
        Rudy::command([command]).args(option).arg(self.path("config/rudy.toml")).output()
    }
}

fn route(path: &str, handler: &str) -> String {
    format!("[[site.route]]\npath = \"{path}\"\n{handler}\n")
}

#[test]
fn files_outside_cannot_be_opened_on_any_engine_and_files_inside_are_served() {
    let Some(place) = Place::new() else { return };
    for engine in engines() {
        place.configure("false", "");
        let server = place.build().engine(engine).start();
        // The links are followed without a sandbox.
        assert_eq!(server.get("/link.txt").text(), "secret", "{engine}");
        place.configure("true", "");
        let mut server = place.build().engine(engine).start();
        assert_eq!(server.get("/page.txt").text(), "hello", "{engine}");
        for path in ["/link.txt", "/folder/secret.txt", "/folder/", "/link.txt"] {
            let status = server.get(path).status;
            assert!([403, 404].contains(&status), "{engine} {path}: {status}");
        }
        // The log says why the permission is missing.
        server.wait_for_line("; Rudy may open only the paths in its configuration (`sandbox`)");
        assert!(server.get("/").text().contains("page.txt"), "{engine}");
        place.write("site/new.txt", "new");
        assert_eq!(server.get("/new.txt").text(), "new", "{engine}");
        fs::remove_file(place.path("site/new.txt")).unwrap();
    }
}

#[test]
fn a_renamed_log_is_reopened() {
    let Some(place) = Place::new() else { return };
    let mut server = place.start();
    for number in 0..2 {
        place.rename("logs/access.log", &format!("logs/old.{number}"));
        server.forget_lines();
        server.signal(Signal::USR1);
        server.wait_for_line("the access log was reopened");
        assert_eq!(server.get("/page.txt").status, 200);
        place.wait_for("logs/access.log", "/page.txt");
    }
}

#[test]
fn a_reload_that_adds_a_folder_needs_a_restart_and_other_changes_apply() {
    let Some(place) = Place::new() else { return };
    place.write("site/inner/page.txt", "inner");
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
        place.configure("true", &more);
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
        place.configure("true", "");
        let text = place.read("config/rudy.toml");
        let change = |line| if str::starts_with(line, key) { top } else { line };
        place.write("config/rudy.toml", text.lines().map(change).collect::<Vec<_>>().join("\n"));
        server.reload(KEPT);
        let line = server.wait_for_line(OUTSIDE);
        assert!(line.contains("write in ") && line.contains("other"), "{what}: {line}");
    }
    assert!(!place.path("other/rudy.sock").exists() && !place.path("other/access.log").exists());
    place.configure("true", &route("/i/*", "files = { root = \"../site/inner\" }"));
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/i/page.txt").text(), "inner");
    // A reload does not change the sandbox.
    assert!([403, 404].contains(&server.get("/link.txt").status));
}

#[test]
fn a_reload_does_not_leave_the_sandbox() {
    let Some(place) = Place::new() else { return };
    let mut server = place.start();
    place.configure("false", "");
    server.reload("a change of `sandbox` needs a restart");
    assert!([403, 404].contains(&server.get("/link.txt").status));
    place.configure("false", &route("/app", "fastcgi = { command = [\"/bin/true\"] }"));
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
        place.configure(sandbox, "");
        let stderr = server.rudy(&["reload", "--binary"]).failed_with(1);
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
    place.write("other/body.txt", "body");
    place.configure("true", &route("/body", "respond = { body_file = \"../other/body.txt\" }"));
    let mut server = place.start();
    assert_eq!(server.get("/body").text(), "body");
    assert!([403, 404].contains(&server.get("/link.txt").status), "the file, and not its folder");
    place.write("other/body.txt", "changed");
    server.reload(TAKEN_OVER);
    assert_eq!(server.get("/body").text(), "changed");
    place.write("other/new.txt", "new");
    place.rename("other/new.txt", "other/body.txt");
    server.reload(KEPT);
    server.wait_for_line(OUTSIDE);
    assert_eq!(server.get("/body").text(), "changed");
}

#[test]
fn error_pages_and_redirects_are_read_at_the_start_and_by_a_reload() {
    let Some(place) = Place::new() else { return };
    // The folder of a list of redirects is allowed, because editors replace the file.
    let files = [("errors/404.html", "<p>missing"), ("down.html", "<p>down")];
    place.add(&files);
    place.write("lists/redirects.txt", "/old /new\n");
    let settings = |errors: &str, redirects: &str| {
        let pages =
            format!("error_pages = {{ folder = \"{errors}\", 503 = {{ file = \"../down.html\" }} }}\n");
        let routes = route("/down", "respond = 503");
        place.configure("true", &format!("{pages}redirects = \"{redirects}\"\n{routes}"));
    };
    settings("../errors", "../lists/redirects.txt");
    let mut server = place.start();
    assert_eq!(server.get("/none").text(), "<p>missing");
    assert_eq!(server.get("/down").text(), "<p>down");
    assert_eq!(server.get("/old").field("location"), Some("/new"));
    place.add(&[("errors/404.html", "<p>changed"), ("errors/400.html", "<p>bad")]);
    place.write("lists/new.txt", "/old /newer\n");
    place.rename("lists/new.txt", "lists/redirects.txt");
    server.reload(TAKEN_OVER);
    assert_eq!((server.get("/none").text(), server.get("/..").text()), ("<p>changed", "<p>bad"));
    assert_eq!(server.get("/old").field("location"), Some("/newer"));
    place.write("other/404.html", "<p>other");
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
    fs::create_dir(place.path("live")).unwrap();
    let replace = |target: &str, text: &str| {
        place.write(&format!("archive/{target}"), text);
        symlink(format!("../archive/{target}"), place.path("live/new")).unwrap();
        place.rename("live/new", "live/redirects.txt");
    };
    replace("redirects1.txt", "/old /new\n");
    place.write("users/htpasswd1", "");
    symlink("../users/htpasswd1", place.path("live/htpasswd")).unwrap();
    let login = route("/secret", "respond = \"secret\"\nbasic_auth = \"../live/htpasswd\"");
    place.configure("true", &format!("redirects = \"../live/redirects.txt\"\n{login}"));
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
    place.configure("true", &route("/app", "fastcgi = { command = [\"/bin/true\"] }"));
    for command in ["check", "serve"] {
        let stderr = place.run(command).failed_with(2);
        assert_contains!(stderr, "an app cannot be started in the sandbox", "a separate systemd service");
    }
}

#[test]
fn an_app_works_with_stored_bodies_and_sendfile() {
    const LENGTH: usize = 4 << 20;
    let Some(place) = Place::new() else { return };
    place.write("files/sent.txt", "sent");
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
    let table = format!("fastcgi = {{ address = \"{app}\", sendfile_root = \"../files\" }}");
    place.configure_with("buffer_memory = 0", "true", &route("/app", &table));
    let server = place.start();
    let head = format!("POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: {LENGTH}\r\n\r\n");
    let mut connection = server.send(head);
    connection.send(&vec![b'x'; LENGTH]);
    assert_eq!(connection.response().text(), "sent");
}

#[test]
fn files_are_followed_over_a_rotation() {
    let Some(place) = Place::new() else { return };
    place.write("app/app.log", "1\n");
    let tail = "tail = { files = \"../app/*.log\", names = false, allow = \"loopback\" }";
    place.configure("true", &route("/tail", tail));
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
    place.append("app/app.log", "2\n");
    until("2\n");
    place.rename("app/app.log", "app/app.log.1");
    place.write("app/app.log", "3\n");
    until("3\n");
}

#[test]
fn status_and_sockets_work_and_a_stop_removes_the_socket_file() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("run")).unwrap();
    let status = route("/status", "status = { allow = \"loopback\" }");
    place.configure("true", &status);
    let text = place.read("config/rudy.toml");
    let listening = |sockets: &str| {
        let text = text.replace("[\"127.0.0.1:0\"]", &format!("[\"127.0.0.1:0\", {sockets}]"));
        place.write("config/rudy.toml", text);
    };
    listening("\"unix:../run/one.sock\"");
    let mut server = place.start();
    let status = server.json("/status");
    assert!(status["memory"]["resident_bytes"].is_u64(), "{status}");
    // Replace the socket by another one in the same folder, and the address by all addresses.
    let port = free_port();
    listening(&format!("\"unix:../run/two.sock\", \"127.0.0.1:{port}\""));
    server.reload(TAKEN_OVER);
    listening(&format!("\"unix:../run/two.sock\", \":{port}\""));
    server.reload(TAKEN_OVER);
    assert!(place.path("run/two.sock").exists() && !place.path("run/one.sock").exists());
    server.stop();
    assert_eq!(fs::read_dir(place.path("run")).unwrap().count(), 0);
}

#[test]
fn the_sandbox_works_with_a_user() {
    if !geteuid().is_root() {
        return skip("only root can start a server that drops root");
    }
    let Some(place) = Place::new() else { return };
    place.set_mode(".", 0o755);
    place.set_mode("logs", 0o777);
    place.configure_with("user = \"4000123\"", "true", "");
    let mut server = place.start();
    assert_eq!(server.get("/page.txt").text(), "hello");
    assert!([403, 404].contains(&server.get("/link.txt").status));
    place.rename("logs/access.log", "logs/old");
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
    let without_landlock = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-c", WITHOUT_LANDLOCK]).arg(binary()).args(arguments);
        Output::of(command.arg(place.path("config/rudy.toml")))
    };
    for arguments in [&["check"][..], &["serve", "--config"]] {
        let stderr = without_landlock(arguments).failed_with(2);
        assert_contains!(stderr, "error: the kernel does not support Landlock");
    }
    // Landlock is not needed without `sandbox`.
    place.configure("false", "");
    without_landlock(&["check"]).succeeded();
}
