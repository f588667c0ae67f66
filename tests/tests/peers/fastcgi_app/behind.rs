//! `fastcgi-info` behind each web server: one process, many threads, and the process never changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rudy_tests::{Connection, PATIENCE, Server, fastcgi_info};

use super::Info;
use super::web_server::WebServer;

/// Clients at once, and what each asks on one connection.
const CLIENTS: usize = 8;
const REQUESTS: usize = 50;

const FLAVOURS: [&[&str]; 2] = [&["--tasks", "10"], &["--threads", "10"]];

/// Who answered, as `fastcgi-info` says it.
struct Answers {
    processes: BTreeSet<u32>,
    threads: BTreeSet<u32>,
    /// Only tasks have ids.
    tasks: BTreeSet<u64>,
}

/// Asks with all clients at once. Each answer has to be a good one.
fn ask(clients: usize, connect: impl Fn() -> Connection + Sync) -> Answers {
    let ask_one = || {
        let mut connection = connect();
        let ask = |_| {
            connection.send(b"GET /info.fcgi HTTP/1.1\r\nHost: test\r\n\r\n");
            let answer = connection.response();
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
            String::from_utf8(answer.body).expect("text")
        };
        (0..REQUESTS).map(ask).collect::<Vec<_>>()
    };
    let bodies: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(ask_one)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("each answer is good")).collect()
    });
    let mut answers =
        Answers { processes: BTreeSet::new(), threads: BTreeSet::new(), tasks: BTreeSet::new() };
    for body in &bodies {
        let mut lines = body.lines();
        let mut number = || lines.next().map(|line| line.parse::<u64>().expect("a number"));
        let small = |number: Option<u64>| u32::try_from(number.expect("two lines at least")).expect("an id");
        answers.processes.insert(small(number()));
        answers.threads.insert(small(number()));
        answers.tasks.extend(number());
    }
    answers
}

/// What must hold behind each web server.
fn check(flavour: &[&str], clients: usize, connect: impl Fn() -> Connection + Sync) -> u32 {
    let answers = ask(clients, connect);
    assert_eq!(answers.processes.len(), 1, "the process changed: {:?}", answers.processes);
    let on_tasks = flavour[0] == "--tasks";
    let tasks = if on_tasks { clients * REQUESTS } else { 0 };
    assert_eq!(answers.tasks.len(), tasks, "a task for each request, and for none on threads");
    assert!(
        on_tasks || !answers.threads.contains(answers.processes.first().expect("one")),
        "on its main thread"
    );
    *answers.processes.first().expect("one")
}

#[test]
fn behind_nginx_over_kept_connections() {
    for flavour in FLAVOURS {
        let info = Info::start(flavour);
        let location = "fastcgi_pass app; fastcgi_keep_conn on;";
        let Some(nginx) = WebServer::nginx(&info.address, location) else { return };
        assert_eq!(check(flavour, CLIENTS, || nginx.connect()), info.child.id());
    }
}

#[test]
fn behind_nginx_over_a_connection_for_each_request() {
    for flavour in FLAVOURS {
        let info = Info::start(flavour);
        let Some(nginx) = WebServer::nginx(&info.address, "fastcgi_pass app;") else { return };
        assert_eq!(check(flavour, CLIENTS, || nginx.connect()), info.child.id());
    }
}

#[test]
fn started_by_lighttpd_on_descriptor_0_and_stopped_with_it() {
    for flavour in FLAVOURS {
        let command = format!("{} {}", fastcgi_info().display(), flavour.join(" "));
        let host = |folder: &Path| {
            let socket = folder.join("socket");
            format!(
                "\"bin-path\" => \"{command}\", \"socket\" => \"{}\", \"max-procs\" => 1",
                socket.display()
            )
        };
        let Some(lighttpd) = WebServer::lighttpd(host) else { return };
        let process = check(flavour, CLIENTS, || lighttpd.connect());
        lighttpd.stop();
        wait_for_the_end_of(process);
    }
}

#[test]
fn behind_lighttpd_by_socket() {
    for flavour in FLAVOURS {
        let info = Info::start(flavour);
        let (host, port) = info.address.split_once(':').expect("an address with a port");
        let host = |_: &Path| format!("\"host\" => \"{host}\", \"port\" => {port}");
        let Some(lighttpd) = WebServer::lighttpd(host) else { return };
        assert_eq!(check(flavour, CLIENTS, || lighttpd.connect()), info.child.id());
    }
}

#[test]
fn behind_apache_with_mod_proxy_fcgi() {
    for flavour in FLAVOURS {
        let info = Info::start(flavour);
        let directives = |_: &Path| format!("ProxyPass / fcgi://{}/ enablereuse=on", info.address);
        let Some(apache) = WebServer::apache(&["proxy", "proxy_fcgi"], directives) else { return };
        assert_eq!(check(flavour, CLIENTS, || apache.connect()), info.child.id());
    }
}

#[test]
fn started_by_apache_with_mod_fcgid_and_stopped_with_it() {
    for flavour in FLAVOURS {
        let directives = |folder: &Path| {
            fs::write(folder.join("info.fcgi"), "").expect("a temp folder can be written");
            let (here, command) = (folder.display(), fastcgi_info().display());
            format!(
                "FcgidIPCDir {here}/fcgid\nFcgidProcessTableFile {here}/fcgid.shm\nFcgidMaxProcessesPerClass 1\n\
                 <Directory {here}>\nOptions +ExecCGI\nSetHandler fcgid-script\n\
                 FcgidWrapper \"{command} {}\" virtual\nRequire all granted\n</Directory>",
                flavour.join(" ")
            )
        };
        let Some(apache) = WebServer::apache(&["fcgid"], directives) else { return };
        // It asks a process one request at a time; a second client would wait for whole seconds.
        let process = check(flavour, 1, || apache.connect());
        apache.stop();
        wait_for_the_end_of(process);
    }
}

#[test]
fn behind_rudy() {
    for flavour in FLAVOURS {
        let info = Info::start(flavour);
        let server = Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\nfastcgi = {{ address = \"{}\" }}\n",
            info.address
        ));
        let address = server.address();
        assert_eq!(check(flavour, CLIENTS, || Connection::open(address)), info.child.id());
    }
}

fn wait_for_the_end_of(process: u32) {
    let deadline = Instant::now() + PATIENCE;
    while is_running(process) {
        assert!(Instant::now() < deadline, "process {process} has outlived its web server");
        thread::sleep(Duration::from_millis(10));
    }
}

/// One that has ended may still wait for somebody to take notice, where nobody in this container does.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}
