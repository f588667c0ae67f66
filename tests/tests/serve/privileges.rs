//! Dropping root privileges with `user`, and the checks of `rudy check`. Most of these tests need root.

use std::fmt::Display;
use std::ops::Deref;

use rudy_tests::prelude::*;

use crate::upgrade::rig::{Rig, wait_for_exit};

/// The ids of a user and a group without a database entry and files.
const USER: &str = "4000123:4000777";
const UID: u32 = 4_000_123;
const GID: u32 = 4_000_777;
/// `CAP_NET_BIND_SERVICE`, bit 10, in the notation of `/proc`.
const NET_BIND_SERVICE: &str = "0000000000000400";

/// A folder that every user can enter, with a configuration and a world-readable folder `public`.
struct Place(Folder);

impl Deref for Place {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Place {
    /// `text` is the configuration without `listen`.
    fn new(text: &str) -> Self {
        let place = Self(Folder::with(&[("public/page.txt", "hello")]));
        place.set_mode(".", 0o755);
        place.configure(&format!("listen = [\"127.0.0.1:0\"]\n{text}"));
        place
    }

    /// Returns `None` if this is not root, and counts the test as skipped.
    fn as_root(text: &str) -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can start a server that drops root");
            return None;
        }
        Some(Self::new(text))
    }

    fn configure(&self, text: &str) {
        self.write("rudy.toml", text);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.join(name)
    }

    /// Creates a folder that belongs to the user.
    fn folder_of_user(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a temp folder can be written");
        chown(&path, Some(UID), Some(GID)).expect("a temp folder can be written");
        path
    }

    fn build(&self) -> Builder {
        let build = Server::build().arg("--config").arg(self.path("rudy.toml"));
        build.env("TMPDIR", "/tmp").env("XDG_RUNTIME_DIR", "/root")
    }

    fn start(&self) -> Server {
        self.build().start()
    }

    fn check(&self) -> Output {
        Rudy::command(["check"]).arg(self.path("rudy.toml")).output()
    }

    /// The errors of `rudy check`.
    fn errors(&self) -> String {
        self.check().failed_with(2)
    }

    /// The warnings of `rudy check`, which succeeds.
    fn warnings(&self) -> String {
        self.check().failed_with(0)
    }
}

const SITE: &str = "[[site]]\nroot = \"public\"\n";

fn with_user(more: &str) -> String {
    format!("user = \"{USER}\"\n{more}\n{SITE}")
}

/// An app that Rudy starts in a folder that its user can enter.
fn app(place: &Path, more: &str) -> String {
    let copy = place.join("app");
    if !copy.exists() {
        fs::copy(fastcgi_info(), &copy).expect("a temp folder can be written");
    }
    format!("[[site.route]]\npath = \"/info\"\nfastcgi = {{ command = [\"{}\"]{more} }}\n", copy.display())
}

/// The values of `name:` in the status of a process or thread.
fn status(path: &Path, name: &str) -> Vec<String> {
    field(&path.read("status"), name)
}

fn field(status: &str, name: &str) -> Vec<String> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).split_whitespace().map(str::to_owned).collect()
}

/// Checks that every thread of a process runs as the user with one capability, and cannot gain others.
fn assert_dropped(pid: impl Display) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let threads: Vec<_> = tasks.map(|task| task.path()).collect();
    // At least main, error log, two access logs and an engine.
    assert!(threads.len() >= 3, "{threads:?}");
    for thread in threads {
        // The thread of a connection may have ended since.
        let Ok(status) = fs::read_to_string(thread.join("status")) else { continue };
        let name = field(&status, "Name");
        assert_eq!(field(&status, "Uid"), [UID; 4].map(|id| id.to_string()), "{name:?}");
        assert_eq!(field(&status, "Gid"), [GID; 4].map(|id| id.to_string()), "{name:?}");
        assert_eq!(field(&status, "Groups"), [GID.to_string()], "{name:?}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(&status, set), [NET_BIND_SERVICE], "{name:?} {set}");
        }
        assert_eq!(field(&status, "NoNewPrivs"), ["1"], "{name:?}");
    }
}

/// A free port below 1024. Parallel tests start the search at different ports.
fn low_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let begin = std::process::id() % 424;
    let ports = (0..424).map(|step| 600 + u16::try_from((begin + step) % 424).expect("it is below 424"));
    ports.into_iter().find(is_free).expect("some port below 1024 is free")
}

#[test]
fn every_thread_runs_as_the_user_and_keeps_one_capability() {
    let access_log = "access_log = { path = \"access.log\" }";
    let Some(place) = Place::as_root(&with_user(access_log)) else { return };
    let server = place.start();
    // The blocking threads start with the first requests.
    assert_eq!(server.get("/page.txt").text(), "hello");
    assert_dropped(server.pid());
    // Only root can read this of a process that is not dumpable.
    let environment = format!("/proc/{}/environ", server.pid());
    let reader = as_user("cat").arg(environment).output().unwrap();
    assert!(!reader.status.success(), "another process of the user reads the memory of the server");
}

#[test]
fn every_engine_drops_root() {
    for engine in ["task", "mailbox", "thread", "pool:2", "serial"] {
        let engine_key = format!("engine = \"{engine}\"");
        let Some(place) = Place::as_root(&with_user(&engine_key)) else { return };
        let server = place.start();
        assert_eq!(server.get("/page.txt").text(), "hello", "{engine}");
        assert_dropped(server.pid());
    }
}

#[test]
fn a_user_of_the_database_has_its_groups() {
    let Some(place) = Place::as_root("") else { return };
    let id = |flag: &str| {
        let ids = Output::of(Command::new("id").args([flag, "nobody"])).stdout;
        ids.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    // With the flag instead of a configuration.
    let arguments = ["--listen", "127.0.0.1:0", "--user", "nobody"];
    let server = Server::build().arg(place.path("public")).args(arguments).start();
    assert_eq!(server.get("/page.txt").text(), "hello");
    let process = PathBuf::from(format!("/proc/{}", server.pid()));
    let of_server = |name: &str| status(&process, name).into_iter().collect::<BTreeSet<_>>();
    assert_eq!((of_server("Uid"), of_server("Groups")), (id("-u"), id("-G")));
}

#[test]
fn a_file_that_only_root_can_read_is_not_served() {
    let Some(place) = Place::as_root(&with_user("")) else { return };
    place.write("public/secret.txt", "secret");
    place.set_mode("public/secret.txt", 0o600);
    let server = place.start();
    assert_eq!((server.get("/secret.txt").status, server.get("/page.txt").status), (403, 200));
}

#[test]
fn an_app_runs_as_the_user_without_the_capability_and_is_restarted() {
    let Some(place) = Place::as_root("") else { return };
    let app = app(&place, ", processes = { idle_timeout = \"1h\" }");
    place.configure(&format!("listen = [\"127.0.0.1:0\"]\n{}{app}", with_user("")));
    let server = place.start();
    let mut killed = Vec::new();
    for _ in 0..2 {
        // A request fails while the app restarts.
        wait_until("the app responds", || server.get("/info").status == 200);
        let child = eventually("a process runs", || {
            children(server.pid()).into_iter().find(|child| !killed.contains(child))
        });
        let process = PathBuf::from(format!("/proc/{}", child.as_raw_nonzero()));
        assert_eq!(status(&process, "Uid"), [UID; 4].map(|id| id.to_string()));
        assert_eq!(status(&process, "Groups"), [GID.to_string()]);
        for set in ["CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(status(&process, set), ["0000000000000000"], "{set}");
        }
        kill_process(child, Signal::KILL).unwrap();
        killed.push(child);
    }
    wait_until("the app responds", || server.get("/info").status == 200);
}

#[test]
fn a_reload_binds_a_port_below_1024() {
    let Some(place) = Place::as_root(&with_user("")) else { return };
    let mut server = place.start();
    let port = low_port();
    place.configure(&format!("listen = [\"127.0.0.1:0\", \"127.0.0.1:{port}\"]\n{}", with_user("")));
    server.reload("the configuration was reloaded");
    let mut connection = Connection::open(([127, 0, 0, 1], port).into());
    assert_eq!(connection.get("/page.txt", &[]).text(), "hello");
    assert_dropped(server.pid());
}

#[test]
fn a_reload_can_replace_an_address_by_all_addresses() {
    let Some(place) = Place::as_root("") else { return };
    let port = low_port();
    let listen =
        |address: &str| place.configure(&format!("listen = [\"{address}:{port}\"]\n{}", with_user("")));
    listen("127.0.0.1");
    let mut server = place.start();
    listen("");
    server.reload("the configuration was reloaded");
    assert_eq!(server.get("/page.txt").text(), "hello");
}

#[test]
fn a_renamed_log_is_reopened_as_the_user() {
    let access_log = "access_log = { path = \"logs/access.log\" }";
    let Some(place) = Place::as_root(&with_user(access_log)) else { return };
    let logs = place.folder_of_user("logs");
    let mut server = place.start();
    let (log, old) = (logs.join("access.log"), logs.join("old.log"));
    assert_eq!(fs::metadata(&log).unwrap().uid(), UID, "root has made it and given it away");
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_line("the access log was reopened");
    assert_eq!(server.get("/page.txt").status, 200);
    logs.wait_for("access.log", "/page.txt");
    let metadata = fs::metadata(&log).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o777), (UID, GID, 0o640));
}

#[test]
fn an_existing_log_of_root_is_transferred_with_a_warning_about_rotation() {
    let access_log = "access_log = { path = \"access.log\" }";
    let Some(place) = Place::as_root(&with_user(access_log)) else { return };
    let (log, old) = (place.path("access.log"), place.path("old.log"));
    place.write("access.log", "a line\n");
    place.set_mode("access.log", 0o640);
    let expected = format!("cannot create files in {}", *place);
    assert_contains!(place.warnings(), &expected);
    assert_eq!(fs::metadata(&log).unwrap().uid(), 0, "a check changes nothing");
    let mut server = place.start();
    server.wait_for_line(&expected);
    assert_eq!(server.get("/page.txt").status, 200);
    place.wait_for("access.log", "/page.txt");
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_line("Permission denied");
    assert_eq!(server.get("/late.txt").status, 404);
    place.wait_for("old.log", "/late.txt");
}

#[test]
fn files_behind_a_link_are_not_transferred() {
    let access_log = "access_log = { path = \"logs/access.log\" }";
    let Some(place) = Place::as_root(&with_user(access_log)) else { return };
    let logs = place.folder_of_user("logs");
    let secret = place.write("secret", "");
    place.set_mode("secret", 0o600);
    symlink(&secret, logs.join("access.log")).unwrap();
    let stderr = place.build().output().failed_with(1);
    assert!(stderr.starts_with("error: cannot open the access log "), "{stderr}");
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
    assert_contains!(place.errors(), "cannot open the access log");
}

#[test]
fn folders_of_the_service_and_of_bodies_and_sockets_are_transferred() {
    let Some(place) = Place::as_root("") else { return };
    for name in ["state", "run", "logs", "bodies"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    place.write("shared/file", "");
    let app = app(&place, "");
    let text = |buffer_dir: &str| {
        let listen = "listen = [\"127.0.0.1:0\", \"unix:rudy.sock,mode=660\"]";
        format!("{listen}\nuser = \"{USER}\"\nbuffer_dir = \"{buffer_dir}\"\n{SITE}{app}")
    };
    place.configure(&text("bodies"));
    assert_eq!(place.warnings(), "");
    let environment =
        [("STATE_DIRECTORY", "state"), ("RUNTIME_DIRECTORY", "run"), ("LOGS_DIRECTORY", "logs")];
    let build = || {
        environment.iter().fold(place.build(), |build, (name, folder)| build.env(name, place.path(folder)))
    };
    let server = build().start();
    for path in ["state", "run", "logs", "bodies", "rudy.sock"] {
        let metadata = fs::metadata(place.path(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (UID, GID), "{path}");
    }
    assert_eq!(place.mode("rudy.sock"), 0o660);
    assert_eq!(server.get("/info").status, 200);
    let apps: Vec<_> = fs::read_dir(place.path("run")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(apps.len(), 1);
    assert_eq!(apps[0].metadata().unwrap().uid(), UID);
    drop(server);
    // A shared folder is not transferred, and the log has the reason for the failure.
    place.configure(&text("shared"));
    assert_contains!(place.errors(), "cannot write to ");
    build().output().with_code(2);
    assert_eq!(fs::metadata(place.path("shared")).unwrap().uid(), 0);
}

#[test]
fn files_are_transferred_and_links_are_not_followed_without_openat2() {
    let Some(script) = without_openat2(38) else { return };
    let Some(place) = Place::as_root("") else { return };
    fs::create_dir_all(place.path("logs/real")).unwrap();
    fs::create_dir(place.path("run")).unwrap();
    symlink("real", place.path("logs/link")).unwrap();
    let text = |log: &str| {
        let access_log = format!("access_log = {{ path = \"logs/{log}/access.log\" }}");
        format!("listen = [\"127.0.0.1:0\", \"unix:rudy.sock\"]\n{}", with_user(&access_log))
    };
    let build = || place.build().through_shell(&script).env("RUNTIME_DIRECTORY", place.path("run"));
    place.configure(&text("link"));
    build().output().with_code(1);
    assert!(!place.path("logs/real/access.log").exists());
    place.configure(&text("real"));
    assert_eq!(build().start().get("/page.txt").text(), "hello");
    for path in ["logs/real/access.log", "run", "rudy.sock"] {
        assert_eq!(fs::metadata(place.path(path)).unwrap().uid(), UID, "{path}");
    }
}

#[test]
fn rudy_check_runs_as_the_user() {
    let Some(place) = Place::as_root("") else { return };
    for folder in ["closed", "logs"] {
        fs::create_dir(place.path(folder)).unwrap();
        place.set_mode(folder, 0o700);
    }
    fs::create_dir(place.path("closed/site")).unwrap();
    place.write("script", "#!/bin/sh\n");
    place.set_mode("script", 0o744);
    place.configure(&format!(
        "user = \"{USER}\"\naccess_log = {{ path = \"logs/access.log\" }}\nerror_log = \"logs/error.log\"\n[[site]]\nroot = \"closed/site\"\n\
         [[site.route]]\npath = \"/a\"\nfastcgi = {{ command = [\"./script\"] }}\n\
         [[site.route]]\npath = \"/b\"\nfastcgi = {{ command = [\"/bin/true\"], processes.folder = \"closed\" }}\n"
    ));
    let errors = place.errors();
    assert_contains!(
        errors,
        "closed/site: Permission denied",
        "script is not executable",
        "cannot run in ",
        &format!("{UID} cannot open the access log "),
        &format!("{UID} cannot open the error log "),
        "5 errors in the configuration"
    );
    // Access through its group is sufficient.
    for folder in ["closed", "logs"] {
        chown(place.path(folder), None, Some(GID)).unwrap();
        place.set_mode(folder, 0o750);
    }
    place.set_mode("script", 0o755);
    assert_contains!(place.warnings(), "cannot create files in ");
    place.set_mode("logs", 0o770);
    assert_eq!(place.warnings(), "");
}

#[test]
fn an_access_control_list_gives_access() {
    let Some(setfacl) = program("setfacl") else { return };
    let Some(place) = Place::as_root(&with_user("")) else { return };
    place.set_mode("public", 0o700);
    assert_contains!(place.errors(), "Permission denied");
    let set = Command::new(setfacl).arg(format!("-m u:{UID}:rx")).arg(place.path("public")).status().unwrap();
    if !set.success() {
        return skip_unsupported("the file system of the temporary folder has no access control lists");
    }
    assert_eq!(place.warnings(), "");
    assert_eq!(place.start().get("/page.txt").text(), "hello");
}

#[test]
fn a_configuration_that_the_user_cannot_read_is_a_warning_at_the_start() {
    let Some(place) = Place::as_root(&with_user("")) else { return };
    place.set_mode("rudy.toml", 0o600);
    let expected = format!("cannot read {}, so a reload fails", place.path("rudy.toml").display());
    assert_contains!(place.warnings(), &expected);
    let mut server = place.start();
    server.wait_for_line(&expected);
    server.reload("the configuration is unchanged");
    assert_eq!(server.get("/page.txt").text(), "hello");
}

#[test]
fn another_user_for_an_app_is_an_error_with_a_solution() {
    let place = Place::new("");
    let app = format!("{{ command = [\"/bin/true\"], processes.user = {:?} }}", "nobody");
    let route = format!("[[site.route]]\npath = \"/a\"\nfastcgi = {app}\n");
    place.configure(&format!("user = \"root\"\n{SITE}{route}"));
    let expected = "Rudy runs as `root` and cannot start an app as `nobody`";
    assert_contains!(place.errors(), expected, "a separate systemd service");
    place.build().output().with_code(2);
    // The same user under another name is accepted.
    place.configure(&format!("user = \"65534:65534\"\n{SITE}{route}"));
    assert!(!place.check().stderr.contains("cannot start an app as"));
}

#[test]
fn an_unknown_user_is_an_error() {
    for (user, expected) in [
        ("nosuchuser", "there is no user `nosuchuser`"),
        ("root:nosuchgroup", "there is no group `nosuchgroup`"),
        ("4294967295", "4294967295 is too large for a user or group id"),
        ("root:4000777", "root cannot have another group"),
    ] {
        let place = Place::new(&format!("user = \"{user}\"\n{SITE}"));
        assert_contains!(place.errors(), expected);
        let stderr = place.build().output().failed_with(1);
        assert!(stderr.starts_with(&format!("error: cannot run as `{user}`: {expected}")), "{stderr}");
    }
}

#[test]
fn running_as_root_without_a_user_is_a_warning() {
    let Some(place) = Place::as_root(SITE) else { return };
    assert!(place.warnings().starts_with("warning: Rudy runs as root"), "{}", place.warnings());
    place.start().wait_for_line("notice: Rudy runs as root");
    // An explicit `user = "root"` has no warning.
    place.configure(&format!("listen = [\"127.0.0.1:0\"]\nuser = \"root\"\n{SITE}"));
    assert_eq!(place.warnings(), "");
    let stderr = place.start().stop();
    assert!(!stderr.contains("runs as root"), "{stderr}");
}

#[test]
fn a_reload_does_not_change_the_user() {
    let Some(place) = Place::as_root(&with_user("")) else { return };
    let mut server = place.start();
    for _ in 0..2 {
        place.configure(&format!("listen = [\"127.0.0.1:0\"]\nuser = \"root\"\n{SITE}"));
        server.reload("a change of `user` needs a restart");
    }
    assert_dropped(server.pid());
}

/// Starts `rudy` as the user with `setpriv` and these options.
fn build_as_user(place: &Place, options: &str) -> Option<Builder> {
    let (setpriv, rudy) = (program("setpriv")?, place.path("rudy"));
    fs::copy(binary(), &rudy).expect("a temp folder can be written");
    let ids = format!("--reuid={UID} --regid={GID} --groups={GID} {options}");
    let script = format!("shift; exec {} {ids} {} \"$@\"", setpriv.display(), rudy.display());
    Some(place.build().through_shell(&script))
}

#[test]
fn an_ordinary_user_cannot_become_another_user() {
    let Some(place) = Place::as_root(&format!("user = {:?}\n{SITE}", "nobody")) else { return };
    let Some(build) = build_as_user(&place, "") else { return };
    let stderr = build.output().failed_with(1);
    let needs = "this needs root (CAP_SETUID and CAP_SETGID), and Rudy was started by user";
    let expected = format!("error: cannot run as `nobody`: {needs} {UID}");
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[test]
fn the_own_user_is_accepted_and_can_bind_low_ports_with_the_capability() {
    let Some(place) = Place::as_root("") else { return };
    place.configure(&format!("listen = [\"127.0.0.1:{}\"]\n{}", low_port(), with_user("")));
    // The capability that a server passes to its successor after dropping root.
    let capability = "--inh-caps=+net_bind_service --ambient-caps=+net_bind_service --no-new-privs";
    let Some(build) = build_as_user(&place, capability) else { return };
    let server = build.start();
    assert_eq!(server.get("/page.txt").text(), "hello");
    assert_dropped(server.pid());
    let memory = fs::metadata(format!("/proc/{}/environ", server.pid())).unwrap();
    assert_eq!(memory.uid(), 0, "its memory is closed");
}

#[test]
fn rudy_check_by_an_ordinary_user_lists_open_questions() {
    let Some(place) = Place::as_root(&format!("user = {:?}\n{SITE}", "nobody")) else { return };
    let rudy = place.path("rudy");
    fs::copy(binary(), &rudy).unwrap();
    let stdout = Output::of(as_user(rudy).arg("check").arg(place.path("rudy.toml"))).stdout;
    assert!(stdout.contains("whether Rudy may run as `nobody` (you lack the permission)"), "{stdout}");
}

/// Starts `rudy serve` with `arguments` as root, from a copy of the program that the user can run.
fn start_copy(place: &Place, arguments: &str) -> Server {
    fs::copy(binary(), place.path("rudy")).expect("a temp folder can be written");
    let script = format!("cd '{}' && exec ./rudy serve {arguments}", **place);
    place.build().through_shell(&script).start()
}

#[test]
fn the_new_process_of_an_upgrade_keeps_the_user_and_the_capability() {
    let Some(place) = Place::as_root("") else { return };
    let logs = place.folder_of_user("logs");
    let sockets = place.folder_of_user("sockets");
    let (first, socket) = (low_port(), sockets.join("rudy.sock"));
    let app = app(&place, "");
    let write = |more: &str| {
        let listen = format!("\"127.0.0.1:{first}\", \"unix:{}\"{more}", socket.display());
        let top = "access_log = { path = \"logs/access.log\" }";
        place.configure(&format!("listen = [{listen}]\n{}{app}", with_user(top)));
    };
    write("");
    let mut rig = Rig::from_server(start_copy(&place, "--config rudy.toml"));
    for _ in 0..2 {
        let old = rig.upgrade();
        wait_for_exit(old);
        let pid = rig.pid;
        wait_until("the app responds", || rig.server.get("/info").status == 200);
        assert_dropped(pid);
        let [app] = children(pid)[..] else { panic!("{:?}", children(pid)) };
        let app = PathBuf::from(format!("/proc/{app}"));
        assert_eq!(status(&app, "Uid"), [UID; 4].map(|id| id.to_string()));
        assert_eq!(status(&app, "CapEff"), ["0000000000000000"]);
        let memory = fs::metadata(format!("/proc/{pid}/environ")).unwrap();
        assert_eq!(memory.uid(), 0, "its memory is closed");
    }
    let second = low_port();
    write(&format!(", \"127.0.0.1:{second}\""));
    // Both root, which started the server, and the user itself can request an upgrade.
    for mut command in [Command::new(binary()), as_user(place.path("rudy"))] {
        Output::of(command.args(["reload", "--pid", &rig.pid.to_string()])).succeeded();
    }
    let mut connection = Connection::open(([127, 0, 0, 1], second).into());
    assert_eq!(connection.get("/page.txt", &[]).text(), "hello");
    let (log, old_log) = (logs.join("access.log"), logs.join("old.log"));
    fs::rename(&log, &old_log).unwrap();
    rig.signal(Signal::USR1);
    rig.server.wait_for_line("the access log was reopened");
    assert_eq!(fs::metadata(&log).unwrap().uid(), UID);
    rig.signal(Signal::TERM);
    wait_for_exit(rig.pid);
    assert!(!socket.exists());
}

/// A program that is run as the user.
fn as_user(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={UID}"), &format!("--regid={GID}"), "--clear-groups"]).arg(program);
    command
}

#[test]
fn a_folder_is_served_as_the_user_after_an_upgrade() {
    let Some(place) = Place::as_root("") else { return };
    let arguments = format!("public --listen 127.0.0.1:0 --user {USER}");
    let mut rig = Rig::from_server(start_copy(&place, &arguments));
    let old = rig.upgrade();
    wait_for_exit(old);
    assert_eq!(rig.get("/page.txt"), "hello");
    assert_dropped(rig.pid);
}

#[test]
fn a_reload_by_another_user_is_an_error() {
    let Some(place) = Place::as_root(&format!("user = \"root\"\n{SITE}")) else { return };
    let server = start_copy(&place, "--config rudy.toml");
    for more in [&[][..], &["--binary"]] {
        let mut command = as_user(place.path("rudy"));
        command.args(["reload", "--pid", &server.pid().to_string()]).args(more);
        assert_contains!(Output::of(&mut command).failed_with(1), "no permission to signal process");
    }
    assert_eq!(server.get("/page.txt").text(), "hello");
}
