//! Limits of requests per time, of requests at the same time, and of bandwidth, over real connections.

mod bandwidth;
mod concurrency;
mod rate;

use std::fs;
use std::ops::Deref;
use std::process::Command;

use rudy_tests::{Connection, Response, Server, binary, eventually};
use serde_json::Value;
use tempfile::TempDir;

/// A server, and the folder of its configuration, with files in `www`.
struct Site {
    server: Server,
    folder: TempDir,
}

impl Site {
    fn start(name: &str, content: &[u8], text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        fs::create_dir(folder.path().join("www")).expect("a temp folder can be written");
        fs::write(folder.path().join("www").join(name), content).expect("a temp folder can be written");
        fs::write(folder.path().join("rudy.toml"), text).expect("a temp folder can be written");
        let server = Server::build().arg("--config").arg(folder.path().join("rudy.toml")).start();
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
    let output =
        Command::new(binary()).args(["limits", "--json", "--pid", &server.pid().to_string()]).output();
    let output = output.expect("rudy can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    json["limits"][0].clone()
}

/// Waits until this number of keys has requests in progress.
fn wait_for_active(server: &Server, keys: u64) {
    eventually("the requests have begun and ended", || {
        (first_limit(server)["active_keys"] == keys).then_some(())
    });
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
