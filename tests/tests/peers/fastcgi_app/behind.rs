//! `fastcgi-info` behind each web server: one process, many threads, and always the same process.

use rudy_tests::prelude::*;

use super::Info;
use super::web_server::WebServer;

/// The number of simultaneous clients, and the requests of each on one connection.
const CLIENTS: usize = 8;
const REQUESTS: usize = 50;

const CONCURRENCIES: [&[&str]; 2] = [&["--tasks", "10"], &["--threads", "10"]];

/// The processes, threads and tasks in the responses of `fastcgi-info`.
struct Responders {
    processes: BTreeSet<u32>,
    threads: BTreeSet<u32>,
    /// The ids of tasks, if the app uses tasks.
    tasks: BTreeSet<u64>,
}

/// Sends requests from all clients simultaneously. Every response must be 200.
fn send_requests(clients: usize, connect: impl Fn() -> Connection + Sync) -> Responders {
    let request_all = || {
        let mut connection = connect();
        let send_requests = |_| {
            let response = connection.get("/info.fcgi", &[]);
            assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
            String::from_utf8(response.body).expect("text")
        };
        (0..REQUESTS).map(send_requests).collect::<Vec<_>>()
    };
    let bodies: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(request_all)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("each response is 200")).collect()
    });
    let mut responders =
        Responders { processes: BTreeSet::new(), threads: BTreeSet::new(), tasks: BTreeSet::new() };
    for body in &bodies {
        let mut lines = body.lines();
        let mut number = || lines.next().map(|line| line.parse::<u64>().expect("a number"));
        let small = |number: Option<u64>| u32::try_from(number.expect("at least two lines")).expect("an id");
        responders.processes.insert(small(number()));
        responders.threads.insert(small(number()));
        responders.tasks.extend(number());
    }
    responders
}

/// Checks the responses behind a web server, and returns the process id.
fn check(concurrency: &[&str], clients: usize, connect: impl Fn() -> Connection + Sync) -> u32 {
    let responders = send_requests(clients, connect);
    assert_eq!(responders.processes.len(), 1, "the process changed: {:?}", responders.processes);
    let on_tasks = concurrency[0] == "--tasks";
    let tasks = if on_tasks { clients * REQUESTS } else { 0 };
    assert_eq!(responders.tasks.len(), tasks, "a task for each request, and for none on threads");
    assert!(
        on_tasks || !responders.threads.contains(responders.processes.first().expect("one")),
        "it runs on the main thread"
    );
    *responders.processes.first().expect("one")
}

#[test]
fn behind_nginx_with_reused_connections() {
    for concurrency in CONCURRENCIES {
        let info = Info::start(concurrency);
        let location = "fastcgi_pass app; fastcgi_keep_conn on;";
        let Some(nginx) = WebServer::nginx(&info.address, location) else { return };
        assert_eq!(check(concurrency, CLIENTS, || nginx.connect()), info.child.id());
    }
}

#[test]
fn behind_nginx_with_a_connection_for_each_request() {
    for concurrency in CONCURRENCIES {
        let info = Info::start(concurrency);
        let Some(nginx) = WebServer::nginx(&info.address, "fastcgi_pass app;") else { return };
        assert_eq!(check(concurrency, CLIENTS, || nginx.connect()), info.child.id());
    }
}

#[test]
fn started_by_lighttpd_on_descriptor_0_and_stopped_with_it() {
    for concurrency in CONCURRENCIES {
        let command = format!("{} {}", fastcgi_info().display(), concurrency.join(" "));
        let host = |folder: &Path| {
            let socket = folder.join("socket");
            format!(
                "\"bin-path\" => \"{command}\", \"socket\" => \"{}\", \"max-procs\" => 1",
                socket.display()
            )
        };
        let Some(lighttpd) = WebServer::lighttpd(host) else { return };
        let process = check(concurrency, CLIENTS, || lighttpd.connect());
        lighttpd.stop();
        wait_for_end_of(process);
    }
}

#[test]
fn behind_lighttpd_by_socket() {
    for concurrency in CONCURRENCIES {
        let info = Info::start(concurrency);
        let (host, port) = info.address.split_once(':').expect("an address with a port");
        let host = |_: &Path| format!("\"host\" => \"{host}\", \"port\" => {port}");
        let Some(lighttpd) = WebServer::lighttpd(host) else { return };
        assert_eq!(check(concurrency, CLIENTS, || lighttpd.connect()), info.child.id());
    }
}

#[test]
fn behind_apache_with_mod_proxy_fcgi() {
    for concurrency in CONCURRENCIES {
        let info = Info::start(concurrency);
        let directives = |_: &Path| format!("ProxyPass / fcgi://{}/ enablereuse=on", info.address);
        let Some(apache) = WebServer::apache(&["proxy", "proxy_fcgi"], directives) else { return };
        assert_eq!(check(concurrency, CLIENTS, || apache.connect()), info.child.id());
    }
}

#[test]
fn started_by_apache_with_mod_fcgid_and_stopped_with_it() {
    for concurrency in CONCURRENCIES {
        let directives = |folder: &Path| {
            folder.write("info.fcgi", "");
            let (here, command) = (folder.display(), fastcgi_info().display());
            format!(
                "FcgidIPCDir {here}/fcgid\nFcgidProcessTableFile {here}/fcgid.shm\nFcgidMaxProcessesPerClass 1\n\
                 <Directory {here}>\nOptions +ExecCGI\nSetHandler fcgid-script\n\
                 FcgidWrapper \"{command} {}\" virtual\nRequire all granted\n</Directory>",
                concurrency.join(" ")
            )
        };
        let Some(apache) = WebServer::apache(&["fcgid"], directives) else { return };
        // mod_fcgid sends one request at a time to a process; a second client would wait for seconds.
        let process = check(concurrency, 1, || apache.connect());
        apache.stop();
        wait_for_end_of(process);
    }
}

#[test]
fn behind_rudy() {
    for concurrency in CONCURRENCIES {
        let info = Info::start(concurrency);
        let server = Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\nfastcgi = {{ address = \"{}\" }}\n",
            info.address
        ));
        let address = server.address();
        assert_eq!(check(concurrency, CLIENTS, || Connection::open(address)), info.child.id());
    }
}

fn wait_for_end_of(process: u32) {
    wait_until(&format!("process {process} ends with its web server"), || !is_running(process));
}

/// Returns whether a process runs. A process that has ended may stay a zombie if no process in this container
/// reaps it.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}
