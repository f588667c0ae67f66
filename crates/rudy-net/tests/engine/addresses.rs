use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use rudy_net::listen::{BoundAddress, InheritedSockets, ListenError, Listener, Owner};
use rudy_service::Limits;
use rudy_service::listen_address::Address;
use socket2::{Domain, Socket, Type};

use crate::support::{eventually, greeter, is_child, sum};

fn bind(address: &str) -> Result<Listener, ListenError> {
    Listener::bind(&address.parse().unwrap(), 2, &InheritedSockets::default())
}

fn port(listener: &Listener) -> u16 {
    match &listener.bound()[0] {
        BoundAddress::Ip(address) => address.port(),
        BoundAddress::Unix(_) => panic!("expected a TCP listener"),
    }
}

#[test]
fn a_second_server_cannot_share_a_port_and_its_error_names_the_first() {
    let first = bind("127.0.0.1:0").unwrap();
    let address = format!("127.0.0.1:{}", port(&first));
    let error = bind(&address).unwrap_err();
    assert!(matches!(&error, ListenError::InUse { owner: Owner::Ourselves, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: the address is in use by this very process")
    );
    bind(&format!(":{}", port(&first))).unwrap_err();
}

/// A server that ends because of an error in its configuration must not have accepted connections.
#[test]
fn a_closed_listener_has_its_port_and_connects_clients_when_it_opens() {
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind_closed(&address, 2, &InheritedSockets::default()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port(&listener)));
    assert!(matches!(bind(&address.to_string()), Err(ListenError::InUse { .. })));
    let client = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
    assert!(client.connect(&address.into()).is_err(), "it is in progress");
    // The loopback interface connects at once, or not at all.
    assert!(client.peer_addr().is_err(), "not connected");
    listener.open();
    // The client tries again after a second.
    eventually("it is connected", || client.peer_addr().is_ok());
}

#[test]
fn an_error_names_the_process_that_has_the_port() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    // When the shell reports its start, only it has the socket, as its standard input.
    let mut shell = Command::new("sh")
        .args(["-c", "echo ready; exec sleep 60"])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(held)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let error = bind(&address.to_string()).unwrap_err();
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert!(error.to_string().contains(&format!("(process {})", shell.id())), "{error}");
}

#[test]
fn all_interfaces_include_ipv4_and_an_ipv6_address_does_not() {
    let every = bind(":0").unwrap();
    TcpStream::connect(("127.0.0.1", port(&every))).unwrap();
    if TcpListener::bind("[::1]:0").is_err() {
        return; // This machine has no IPv6.
    }
    TcpStream::connect(("::1", port(&every))).unwrap();
    let only = bind("[::]:0").unwrap();
    TcpStream::connect(("::1", port(&only))).unwrap();
    TcpStream::connect(("127.0.0.1", port(&only))).unwrap_err();
}

#[test]
fn an_address_of_another_machine_is_reported() {
    // 192.0.2.0/24 is reserved for documentation (RFC 5737), so no interface has it.
    let error = bind("192.0.2.1:0").unwrap_err();
    assert!(matches!(error, ListenError::NotLocal { .. }), "{error}");
}

#[test]
fn a_stale_socket_file_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let address = format!("unix:{},mode=620", path.display());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a crashed server leaves its socket file");

    let listener = bind(&address).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
    let error = bind(&address).unwrap_err();
    assert!(matches!(error, ListenError::InUse { owner: Owner::Ourselves, .. }), "{error}");
    UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists(), "removed at the end");
}

#[test]
fn a_file_that_is_not_a_socket_is_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "text").unwrap();
    let error = bind(&format!("unix:{}", path.display())).unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
}

#[test]
fn a_file_that_replaced_the_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let listener = bind(&format!("unix:{}", path.display())).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "text").unwrap();
    drop(listener);
    assert!(path.exists());
}

#[test]
fn inherited_sockets_of_a_service_manager_accept_connections() {
    const NAME: &str = "addresses::inherited_sockets_of_a_service_manager_accept_connections";
    if std::env::var_os("RUDY_TEST_CHILD").is_some() {
        return use_inherited_sockets();
    }
    with_inherited_socket(NAME, 1);
}

#[test]
fn descriptors_that_the_process_opened_itself_are_not_inherited_sockets() {
    const NAME: &str = "addresses::descriptors_that_the_process_opened_itself_are_not_inherited_sockets";
    if std::env::var_os("RUDY_TEST_CHILD").is_some() {
        return reject_own_descriptors();
    }
    with_inherited_socket(NAME, 60);
}

/// Runs a test in a process to which one socket is passed, and `count` are announced.
fn with_inherited_socket(test: &str, count: u16) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    // Like systemd: the socket is descriptor 3, and LISTEN_PID is the process's ID.
    let script = r#"RUDY_TEST_CHILD=1 LISTEN_PID=$$ LISTEN_FDS=$COUNT LISTEN_FDNAMES=web exec "$0" "$@" 3<&0 </dev/null"#;
    let output = Command::new("sh")
        .env("COUNT", count.to_string())
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn take_inherited_sockets() -> Result<InheritedSockets, ListenError> {
    let get = |name| std::env::var(name).ok();
    let (pid, count, names) = (get("LISTEN_PID"), get("LISTEN_FDS"), get("LISTEN_FDNAMES"));
    InheritedSockets::from_env(pid.as_deref(), count.as_deref(), names.as_deref())
}

fn reject_own_descriptors() {
    // More than are announced, so that there is no gap.
    let own: Vec<_> = (0..60).map(|_| std::io::pipe().unwrap()).collect();
    let error = take_inherited_sockets().unwrap_err().to_string();
    assert!(error.contains("which was not passed: it has the flag FD_CLOEXEC"), "{error}");
    for (reader, writer) in &own {
        for end in [reader.as_fd(), writer.as_fd()] {
            rustix::io::fcntl_getfd(end).expect("it is still open");
        }
    }
}

fn use_inherited_sockets() {
    let take = || take_inherited_sockets().unwrap();
    let (engine, _) = greeter(Limits::default());
    let inherited = take();
    let bind = |address: &str, inherited: &InheritedSockets| {
        Listener::bind(&address.parse::<Address>().unwrap(), engine.workers().len(), inherited)
    };
    let error = bind("systemd:other", &inherited).unwrap_err().to_string();
    assert!(error.contains("none has the name `other`; it passed `web`"), "{error}");
    assert!(bind("systemd", &take()).is_err(), "from_env returns them once");

    for name in ["systemd:web", "systemd"] {
        let listener = bind(name, &inherited).unwrap();
        let BoundAddress::Ip(address) = listener.bound()[0] else { panic!("expected a TCP socket") };
        engine.listen(listener).unwrap();
        let before = sum(&*engine, |counters| &counters.accepted);
        TcpStream::connect(address).unwrap();
        eventually("it is accepted", || sum(&*engine, |counters| &counters.accepted) == before + 1);
    }
}

#[test]
fn inherited_sockets_for_another_process_are_ignored() {
    let other = (std::process::id() + 1).to_string();
    for inherited in [
        InheritedSockets::from_env(None, None, None),
        InheritedSockets::from_env(Some(&other), Some("1"), None),
    ] {
        let error =
            Listener::bind(&"systemd".parse().unwrap(), 1, &inherited.unwrap()).unwrap_err().to_string();
        assert!(error.contains("it passed none"), "{error}");
    }
}

#[test]
fn a_privileged_port_fails_with_advice() {
    if !is_child("addresses::a_privileged_port_fails_with_advice") {
        return;
    }
    // As root this switches to a user without capabilities; for other users it may fail, which does not
    // matter.
    let user = rustix::process::Uid::from_raw(65534);
    let _ = rustix::thread::set_thread_uid(user);
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if start.trim().parse::<u16>().unwrap() < 2 {
        return; // On this machine every port is for everybody.
    }
    let error = bind("127.0.0.1:1").unwrap_err();
    assert!(matches!(error, ListenError::NotPermitted { .. }), "{error}");
    assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"), "{error}");
}
