//! Apps whose address is a name. Each server has a file of its own in place of `/etc/hosts`, in a name space of its own.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, variable};
use rudy_tests::{PATIENCE, Server, binary, eventually, quiet_port, skip, skip_here};
use rustix::fs::{FileType, Mode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::site::answer_with;

/// The file that a server has in place of `/etc/hosts`.
struct Hosts {
    folder: TempDir,
}

impl Hosts {
    /// With these lines; `None` after [`skip`].
    fn new(lines: &str) -> Option<Self> {
        let hosts = Self::unwritten()?;
        hosts.set(lines);
        Some(hosts)
    }

    /// A pipe in its place: each lookup hangs until [`Self::end_lookup`].
    fn hanging() -> Option<Self> {
        let hosts = Self::unwritten()?;
        let made = mknodat(rustix::fs::CWD, hosts.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        made.expect("the folder is ours");
        Some(hosts)
    }

    fn unwritten() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        // The file and nothing else: what it lacks is not looked for in DNS.
        fs::write(folder.path().join("nsswitch.conf"), "hosts: files\n").expect("the folder is ours");
        let mut try_it = Command::new("unshare");
        let mount = "mount --bind /etc/nsswitch.conf /etc/hosts";
        try_it.args(["-rm", "sh", "-c", mount]).stdout(Stdio::null()).stderr(Stdio::null());
        if !try_it.status().is_ok_and(|status| status.success()) {
            skip("this user may not mount anything in a name space of their own (`unshare -rm`)");
            return None;
        }
        Some(Self { folder })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("hosts")
    }

    fn set(&self, lines: &str) {
        fs::write(self.path(), lines).expect("the file is ours");
    }

    /// Ends a lookup that hangs, and waits for it if need be. It fails, because one cannot seek in a pipe.
    fn end_lookup(&self) {
        drop(fs::OpenOptions::new().write(true).open(self.path()).expect("the pipe is ours"));
    }

    /// A script for the shell that starts a program.
    fn script(&self) -> String {
        let mount = |name| format!("mount --bind '{}/{name}' /etc/{name}", self.folder.path().display());
        let (hosts, switch) = (mount("hosts"), mount("nsswitch.conf"));
        format!("exec unshare -rm sh -c \"{hosts} && {switch} && exec \\\"\\$@\\\"\" sh \"$@\"")
    }

    /// A server with the app at this address.
    fn server(&self, address: &str, more: &str) -> Server {
        self.start(&config(address, more))
    }

    fn start(&self, config: &str) -> Server {
        let engine = Model::PerCore.to_string();
        Server::build().config(config).args(["--engine", &engine]).through_shell(&self.script()).start()
    }
}

fn config(address: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         fastcgi = {{ address = \"{address}\", connections = 2{more} }}\n"
    )
}

/// Host `number` of the loopback network.
fn host(number: u8) -> IpAddr {
    [127, 0, 0, number].into()
}

/// An app that answers with its address, and `/held` only when it may.
struct Instance {
    app: App,
    /// What happens to it: "held", when it has such a request, and "closed", when a connection ends behind it.
    told: Receiver<&'static str>,
    go: Sender<()>,
}

impl Instance {
    fn start(host: IpAddr, port: u16) -> Self {
        let ((go, may_go), (tell, told)) = (mpsc::channel::<()>(), mpsc::channel());
        let may_go = Mutex::new(may_go);
        let app = App::start_at(SocketAddr::new(host, port), move |mut peer| {
            let mut has_held = false;
            while let Some(params) = peer.request() {
                if variable(&params, "PATH_INFO") == "/held" {
                    has_held = true;
                    tell_test(&tell, "held");
                    // It fails once the test is over.
                    let _ = may_go.lock().expect("no thread panics with it").recv_timeout(PATIENCE);
                }
                if !answer_with(&mut peer, &host.to_string()) {
                    return;
                }
            }
            if has_held {
                tell_test(&tell, "closed");
            }
        });
        Self { app, told, go }
    }

    fn told(&self) -> &'static str {
        self.told.recv_timeout(PATIENCE).expect("something happens to the app")
    }
}

/// No process listens once the test is over.
fn tell_test(tell: &Sender<&'static str>, what: &'static str) {
    let _ = tell.send(what);
}

/// Asks until the app with this address answers: a name is looked up once a second at most.
fn becomes(server: &Server, host: IpAddr) {
    eventually(&format!("{host} answers"), || {
        let answer = server.get("/app/x");
        (answer.status == 200 && answer.text() == host.to_string()).then_some(())
    });
}

fn has_ipv6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        skip_here("this machine has no IPv6");
    }
    has
}

#[test]
fn an_app_on_either_address_of_localhost_is_found() {
    let Some(hosts) = Hosts::new("::1 localhost\n127.0.0.1 localhost\n") else { return };
    if !has_ipv6() {
        return;
    }
    for host in [host(1), Ipv6Addr::LOCALHOST.into()] {
        let port = quiet_port();
        let instance = Instance::start(host, port);
        let mut server = hosts.server(&format!("localhost:{port}"), "");
        for _ in 0..4 {
            assert_eq!(server.get("/app/x").text(), host.to_string());
            // The next request needs a new connection.
            instance.app.close_all();
        }
        assert!(!server.take_lines().join("\n").contains("error"));
    }
}

#[test]
fn several_addresses_share_the_load_and_the_limit() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n127.0.0.3 app.test\n") else { return };
    let port = quiet_port();
    let instances = [2, 3].map(|number| Instance::start(host(number), port));
    let server = hosts.server(&format!("app.test:{port}"), ", queue = 0");
    let mut clients = [(); 2].map(|()| server.connect());
    for client in &mut clients {
        client.send(b"GET /app/held HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(instances.each_ref().map(Instance::told), ["held", "held"], "each has one");
    assert_eq!(server.get("/app/x").status, 503, "`connections` is for both together");
    for instance in &instances {
        instance.go.send(()).expect("the app listens");
    }
    let mut texts = clients.map(|mut client| client.response().text().to_owned());
    texts.sort();
    assert_eq!(texts, ["127.0.0.2", "127.0.0.3"]);
}

#[test]
fn an_address_that_changes_is_followed_and_requests_at_the_old_one_end() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let port = quiet_port();
    let mut old = Instance::start(host(2), port);
    let mut server = hosts.server(&format!("app.test:{port}"), "");
    let mut held = server.connect();
    held.send(b"GET /app/held HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert_eq!(old.told(), "held");
    // As a container that is replaced: its successor runs, and it finishes what it has.
    let _new = Instance::start(host(3), port);
    hosts.set("127.0.0.3 app.test\n");
    old.app.stop_accepting();
    becomes(&server, host(3));
    server.wait_for_line(&format!("notice: app.test:{port} resolves to 127.0.0.3"));
    old.go.send(()).expect("the app listens");
    assert_eq!(held.response().text(), "127.0.0.2");
    assert_eq!(old.told(), "closed");
    assert_eq!(server.get("/app/x").text(), "127.0.0.3");
}

#[test]
fn a_name_that_disappears_keeps_its_last_address() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let port = quiet_port();
    let mut instance = Instance::start(host(2), port);
    let mut server = hosts.server(&format!("app.test:{port}"), "");
    assert_eq!(server.get("/app/x").text(), "127.0.0.2");
    hosts.set("");
    instance.app.stop_listening();
    // The first of them may come less than a second behind the lookup of the start.
    eventually("the name is looked up", || {
        assert_eq!(server.get("/app/x").status, 502);
        server.take_lines().iter().find(|line| line.contains("no longer resolves")).cloned()
    });
    instance.app.listen();
    assert_eq!(server.get("/app/x").text(), "127.0.0.2");
}

#[test]
fn a_name_that_is_unknown_at_the_start_is_a_warning_and_found_later() {
    let Some(hosts) = Hosts::new("") else { return };
    let port = quiet_port();
    let _instance = Instance::start(host(2), port);
    let mut server = hosts.server(&format!("app.test:{port}"), "");
    server.wait_for_line(&format!("error: app.test:{port} does not resolve: "));
    assert_eq!(server.get("/elsewhere").status, 404);
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line(&format!("cannot connect to app.test:{port}: the name does not resolve: "));
    hosts.set("127.0.0.2 app.test\n");
    becomes(&server, host(2));
    server.wait_for_line(&format!("notice: app.test:{port} resolves to 127.0.0.2"));
}

#[test]
fn a_failure_names_every_address_that_was_tried() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n127.0.0.3 app.test\n") else { return };
    let port = quiet_port();
    let mut server = hosts.server(&format!("app.test:{port}"), "");
    assert_eq!(server.get("/app/x").status, 502);
    for number in [2, 3] {
        server.wait_for_line(&format!("{}:{port}: Connection refused", host(number)));
    }
}

#[test]
fn a_lookup_that_hangs_delays_no_start_no_reload_and_no_stop() {
    let Some(hosts) = Hosts::hanging() else { return };
    let config = config("app.test:9000", "");
    let mut server = hosts.start(&config);
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line("the name is being looked up");
    for (route, status) in [("/more", 404), ("/less", 403)] {
        let more = format!("{config}[[site.route]]\npath = \"{route}\"\nrespond = {{ status = {status} }}\n");
        fs::write(server.path().join("rudy.toml"), more).expect("the folder is the server's");
        server.forget_lines();
        server.signal(Signal::HUP);
        server.wait_for_line("the configuration was read again");
        assert_eq!(server.get(route).status, status);
    }
    // The lookup is one, whatever was reloaded meanwhile: it ends with this.
    hosts.end_lookup();
    server.wait_for_line("error: app.test:9000 does not resolve: ");
    let mut other = hosts.start(&config);
    for server in [&mut server, &mut other] {
        server.signal(Signal::TERM);
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

#[test]
fn check_names_what_does_not_resolve_and_the_configuration_is_right() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let file = hosts.folder.path().join("rudy.toml");
    let address = "app.test:9000\", \"nowhere.test:9001\", \"127.0.0.1:9002";
    fs::write(&file, config(address, "").replace("\"app", "[\"app").replace("9002\"", "9002\"]")).unwrap();
    let mut check = Command::new("sh");
    check.args(["-c", &hosts.script(), "sh"]).arg(binary()).arg("check").arg(&file);
    let output = check.output().expect("sh can be started");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(output.status.success(), "{text}");
    let notices: Vec<_> = text.lines().filter(|line| line.contains("resolve")).collect();
    assert_eq!(notices.len(), 1, "{text}");
    assert!(notices[0].starts_with("  nowhere.test:9001 does not resolve: "), "{text}");
    for address in ["app.test:9000", "nowhere.test:9001", "127.0.0.1:9002"] {
        assert!(text.contains(&format!("whether an app answers at {address}")), "{text}");
    }
}
