//! Limits of requests per time, of requests at the same time, and of bandwidth, over real connections.

mod bandwidth;
mod concurrency;
mod rate;

use rudy_tests::prelude::*;

/// Starts a server with a file in `www`.
fn start(name: &str, content: &[u8], text: &str) -> Server {
    let folder = Folder::with(&[("rudy.toml", text.as_bytes()), (&format!("www/{name}"), content)]);
    Server::build().config_of(folder).start()
}

/// What `rudy limits --json` prints about the first limit.
fn first_limit(server: &Server) -> Value {
    server.rudy(&["limits", "--json"]).with_code(0).json()["limits"][0].clone()
}

/// Waits until this number of keys has requests in progress.
fn wait_for_active(server: &Server, keys: u64) {
    wait_until("the requests have begun and ended", || first_limit(server)["active_keys"] == keys);
}

/// Opens a connection as a client that a PROXY header names.
fn connect_as(server: &Server, address: &str) -> Connection {
    let mut connection = server.connect();
    let (family, local) =
        if address.contains(':') { ("TCP6", "2001:db8::1") } else { ("TCP4", "198.51.100.1") };
    connection.send(format!("PROXY {family} {address} {local} 4711 80\r\n").as_bytes());
    connection
}

fn get(connection: &mut Connection, target: &str, fields: &str) -> Response {
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    connection.response()
}
