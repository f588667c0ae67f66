//! Limits of requests per time, of requests at the same time, and of bandwidth, over real connections.

mod bandwidth;
mod concurrency;
mod rate;

use std::ops::Deref;

use rudy_tests::prelude::*;

/// A server, and the folder of its configuration, with files in `www`.
struct Site {
    server: Server,
    folder: Folder,
}

impl Site {
    fn start(name: &str, content: &[u8], text: &str) -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.join("www")).expect("a temp folder can be written");
        fs::write(folder.join("www").join(name), content).expect("a temp folder can be written");
        folder.write("rudy.toml", text);
        let server = Server::build().arg("--config").arg(folder.join("rudy.toml")).start();
        Self { server, folder }
    }
}

impl Deref for Site {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// What `rudy limits --json` prints about the first limit.
fn first_limit(server: &Server) -> Value {
    let output = server.rudy(&["limits", "--json"]);
    assert!(output.is_success(), "{}", output.stderr);
    let json = output.json();
    json["limits"][0].clone()
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
