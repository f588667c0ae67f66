//! Purges by apps that Rudy starts, on their socket.

use rudy_tests::prelude::*;

use crate::cache::{Origin, begin, config, get, handled, hit, upgrade};

/// A site with a route for an app that Rudy starts.
fn app(command: &str, processes: &str) -> String {
    let app = format!("{{ command = {command}, processes = {{ min = 1, {processes} }} }}");
    format!("[[site]]\n[[site.route]]\npath = \"/app\"\nfastcgi = {app}\n")
}

/// A cache in front of an origin, and an app.
fn with_app(origin: &Upstream, app: &str) -> String {
    config(origin, "true").replace("[[site]]\n", app)
}

/// A server with a cache, and an app that writes the path of its socket into the log.
fn server_with_socket(origin: &Upstream, more: &str) -> (Server, PathBuf) {
    let script = "['/bin/sh', '-c', 'echo socket: $RUDY_PURGE_SOCKET; exec sleep 1000']";
    let mut server = Server::config(&(more.to_owned() + &with_app(origin, &app(script, ""))));
    let line = server.wait_for_line("socket: ");
    let (_, path) = line.split_once("socket: ").expect("the loop found this text");
    (server, path.trim().into())
}

/// An origin whose responses have the tag `a`.
fn tagged() -> Origin {
    Origin::start(|_, number| {
        format!("Cache-Control: max-age=600\nCache-Tag: a\nETag: \"{number}\"|{number}")
    })
}

/// Sends lines, and returns those of the response.
fn ask(socket: &Path, bytes: &[u8]) -> Vec<String> {
    exchange_unix(socket, bytes).lines().map(str::to_owned).collect()
}

const PURGE: &[u8] = b"{\"command\":\"cache_purge\",\"by\":[{\"tag\":\"a\"}]}\n";

fn is_stored(server: &Server) {
    hit(server, "/x", &[]);
}

#[test]
fn a_socket_for_purges_accepts_nothing_else() {
    let origin = tagged();
    let (mut server, socket) = server_with_socket(&origin.upstream, "");
    assert_eq!(fs::metadata(&socket).expect("the socket exists").mode() & 0o777, 0o600);
    let url = b"{\"command\":\"cache_purge\",\"by\":[{\"url\":\"http://a.example/x\"},{\"prefix\":\"http://b/\"}]}\n";
    let soft = b"{\"command\":\"cache_purge\",\"by\":[{\"tag\":\"a\"}],\"soft\":true}\n";
    for (request, expected) in [(PURGE, "uri-miss"), (url, "uri-miss"), (soft, "stale")] {
        is_stored(&server);
        assert_eq!(ask(&socket, request), ["\"cache_purged\""]);
        assert_eq!(handled(&get(&server, "/x", &[])), expected);
    }
    is_stored(&server);
    let long = vec![b' '; 70_000];
    for (request, expected) in [
        (&b"{\"command\":\"cache_stats\"}\n"[..], "this socket is for purges only"),
        (b"{\"command\":\"metrics\"}\n", "this socket is for purges only"),
        (b"{\"command\":\"cache_purge\",\"by\":[{\"url\":\"/x\"}]}\n", "it begins with https:// or http://"),
        (&long, "a request is a line of at most 65536 bytes"),
    ] {
        let lines = ask(&socket, request);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("{\"error\":") && line.contains(expected), "{line}");
    }
    assert_eq!(handled(&get(&server, "/x", &[])), "hit");
    // An app that hangs, with many connections, delays neither the server nor later purges.
    let silent = [(); 500].map(|()| UnixStream::connect(&socket).expect("the queue has room"));
    server.reload("was reloaded");
    assert_eq!(handled(&get(&server, "/x", &[])), "hit");
    drop(silent);
    assert_eq!(ask(&socket, PURGE), ["\"cache_purged\""]);
    assert_eq!(handled(&get(&server, "/x", &[])), "uri-miss");
    server.stop();
    assert!(!socket.exists());
}

#[test]
fn an_app_purges_by_the_library_also_as_another_user() {
    let origin = tagged();
    let place = Folder::new();
    place.set_mode(".", 0o755);
    let program = place.join("app");
    fs::copy(env!("CARGO_BIN_EXE_fastcgi-app"), &program).expect("a temp folder can be written");
    let command = format!("[{program:?}, \"purge\"]");
    let users: &[_] = if geteuid().is_root() { &["", "user = \"65534\""] } else { &[""] };
    for user in users {
        let server = Server::config(&with_app(&origin.upstream, &app(&command, user)));
        is_stored(&server);
        assert_eq!(get(&server, "/app?b", &[]).text(), "purged", "{user}");
        assert_eq!(handled(&get(&server, "/x", &[])), "hit", "{user}");
        assert_eq!(get(&server, "/app?a", &[]).text(), "purged", "{user}");
        assert_eq!(handled(&get(&server, "/x", &[])), "uri-miss", "{user}");
    }
    let plain = format!("listen = [\"127.0.0.1:0\"]\n{}", app(&command, ""));
    let text = get(&Server::config(&plain), "/app?a", &[]).text().to_owned();
    assert!(text.contains("no route of this server has a cache"), "{text}");
}

#[test]
fn purges_of_an_app_reach_the_process_that_replaces_its_server() {
    let (release, wait) = gate::<()>();
    let origin = Upstream::serve(move |peer, request| {
        if request.target() == "/hangs" {
            // Returns when the test ends.
            let _ = wait.wait();
        }
        let fields = "Cache-Control: max-age=600\r\nCache-Tag: a\r\n";
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{fields}\r\na"));
    });
    let (mut server, socket) = server_with_socket(&origin, "shutdown_timeout = \"60s\"\n");
    is_stored(&server);
    let mut hanging = begin(&server, "/hangs", &[]);
    let successor = upgrade(&mut server);
    is_stored(&server);
    assert_eq!(ask(&socket, PURGE), ["\"cache_purged\""]);
    assert_eq!(handled(&get(&server, "/x", &[])), "uri-miss");
    // If the new process dies, the old one stores and purges again.
    kill_process(successor, Signal::KILL).expect("it runs");
    server.wait_for_line("accepts connections again");
    is_stored(&server);
    assert_eq!(ask(&socket, PURGE), ["\"cache_purged\""]);
    assert_eq!(handled(&get(&server, "/x", &[])), "uri-miss");
    drop(release);
    assert_eq!(hanging.response().text(), "a");
}
