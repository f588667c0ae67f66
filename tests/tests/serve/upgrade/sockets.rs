//! The listening sockets after an upgrade.

use rudy_tests::prelude::*;

use crate::upgrade::rig::{ANY, Rig, text, wait_for_exit};

fn get_over_unix(path: &Path) -> String {
    exchange_unix(path, b"GET / HTTP/1.0\r\n\r\n")
}

#[test]
fn a_unix_socket_stays_open_and_keeps_its_file() {
    let folder = Folder::new();
    let path = folder.join("socket");
    let listen = |mode: &str| format!("{ANY}, \"unix:{},mode={mode}\"", path.display());
    let mut rig = Rig::start(&text(&listen("600"), "hello", ""));
    let inode = fs::metadata(&path).unwrap().ino();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut responses = 0;
            while !stop.load(Ordering::Relaxed) {
                assert!(get_over_unix(&path).starts_with("HTTP/1.1 200 "));
                responses += 1;
            }
            responses
        });
        for _ in 0..3 {
            rig.upgrade_and_wait();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(client.join().expect("every request succeeds") > 10);
    });
    // New permissions apply to the same file.
    rig.rewrite(&text(&listen("660"), "hello", ""));
    rig.upgrade_and_wait();
    let file = fs::metadata(&path).unwrap();
    assert_eq!((file.ino(), file.permissions().mode() & 0o777), (inode, 0o660));
    rig.signal(Signal::TERM);
    wait_for_exit(rig.pid);
    assert!(!path.exists(), "the last process removes the file");
}

#[test]
fn addresses_follow_the_new_configuration() {
    let (first, second, third) = (ReservedPort::new(), ReservedPort::new(), ReservedPort::new());
    let folder = Folder::new();
    let path = folder.join("socket");
    let listen = |ports: [&ReservedPort; 2]| ports.map(|port| format!("\"{}\"", port.address())).join(", ");
    let with_socket = format!("{}, \"unix:{}\"", listen([&first, &second]), path.display());
    let mut rig = Rig::start(&text(&with_socket, "old", ""));
    rig.rewrite(&text(&listen([&first, &third]), "new", ""));
    let old = rig.upgrade();
    rig.server.wait_for_line(&format!("stopped listening on {}", second.address()));
    rig.server.wait_for_line("stopped listening on unix:");
    wait_for_exit(old);
    for port in [&first, &third] {
        TcpStream::connect(port.address()).unwrap();
    }
    TcpStream::connect(second.address()).unwrap_err();
    assert!(!path.exists());
    assert_eq!(rig.get("/"), "new");
    // A closed address can be bound again.
    rig.rewrite(&text(&with_socket, "newer", ""));
    rig.signal(Signal::HUP);
    rig.server.wait_for_line("SIGHUP: the configuration was reloaded");
    TcpStream::connect(second.address()).unwrap();
    assert!(get_over_unix(&path).ends_with("newer"));
}

#[test]
fn changing_the_number_of_workers_leaves_no_accept_queue_unserved() {
    for engine in ["cores = 1", "cores = 5", "engine = \"pool:4\"", "engine = \"task\""] {
        let mut rig = Rig::start(&text(ANY, "hello", "cores = 3"));
        rig.rewrite(&text(ANY, "hello", engine));
        rig.upgrade_and_wait();
        for _ in 0..32 {
            assert_eq!(rig.get("/"), "hello");
        }
    }
}

#[test]
fn inherited_sockets_survive_upgrades() {
    let (socket, address) = listen();
    // The shell sets LISTEN_PID to its own process id, which `exec` keeps.
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=web exec \"$@\"";
    let server = Server::build().config(&text(ANY, "hello", "")).args(["--listen", "systemd:web"]);
    let server = server.through_shell(script).stdin(OwnedFd::from(socket)).start();
    let mut rig = Rig::from_server(server);
    assert_eq!(rig.server.address(), address);
    for _ in 0..2 {
        rig.upgrade_and_wait();
        assert_eq!(rig.get("/"), "hello");
    }
    let old = rig.upgrade();
    kill_process(rig.pid, Signal::KILL).unwrap();
    rig.server.wait_for_line(&format!("process {old} accepts connections again"));
    rig.pid = old;
    assert_eq!(rig.get("/"), "hello");
}

#[test]
fn sites_keep_their_addresses() {
    let config = |body: &str| {
        let site = |host: &str, listen: &str| {
            let route = format!("route = [{{ path = '/*', respond = '{body}' }}]\n");
            format!("[[site]]\nhosts = '{host}'\nlisten = '{listen}'\n{route}")
        };
        [site("localhost", "127.0.0.1:0"), site("b.test", "127.0.0.2:0")].concat()
    };
    let mut rig = Rig::start(&config("old"));
    let misdirected = |rig: &Rig| {
        let mut connection = Connection::open(rig.server.address_of(1));
        connection.get("/", &["Host: localhost"]).status
    };
    assert_eq!((rig.get("/").as_str(), misdirected(&rig)), ("old", 421));
    rig.rewrite(&config("new"));
    rig.upgrade_and_wait();
    assert_eq!((rig.get("/").as_str(), misdirected(&rig)), ("new", 421));
}
