//! Many `WebSocket`s, reloads, and ends of tunnels.

use rudy_tests::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::proxy::admin::json;
use crate::proxy::proxy;
use crate::proxy::websocket::{ACCEPT, handshake};

/// The response to the handshake.
fn switch() -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
    )
}

/// Starts an upstream with any number of tunnels on one thread, which sends back what it receives.
fn echo() -> SocketAddr {
    let (listener, address) = listen();
    listener.set_nonblocking(true).expect("the socket is ours");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be created").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("the socket is ours");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    address
}

async fn serve(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    stream.write_all(switch().as_bytes()).await?;
    let (mut reader, mut writer) = stream.split();
    tokio::io::copy(&mut reader, &mut writer).await.map(|_| ())
}

fn open(server: &Server, target: &str) -> Connection {
    let mut connection = server.send(handshake(target, "websocket").as_bytes());
    assert_eq!(connection.response().status, 101);
    connection
}

#[test]
fn a_thousand_websockets_live_through_ten_reloads() {
    needs!(descriptors(4096));
    let mut server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\nproxy = \"http://{}\"\n",
        echo()
    ));
    let mut connections: Vec<_> = (0..1000).map(|_| open(&server, "/app/echo")).collect();
    assert_eq!(json(&server, "tunnels"), [1000]);
    for number in 0..10 {
        let route = format!("\n[[site.route]]\npath = \"/new{number}\"\nrespond = 404\n");
        server.reload_changed(|text| text + &route, "the configuration was reloaded");
        let message = format!("message {number}");
        for connection in &mut connections {
            connection.send(message.as_bytes());
        }
        for connection in &mut connections {
            assert_eq!(connection.read_exactly(message.len()), message.as_bytes());
        }
    }
    assert_eq!(json(&server, "tunnels"), [1000]);
    drop(connections);
    wait_until("the tunnels end", || json(&server, "tunnels") == [0]);
}

#[test]
fn a_tunnel_ends_after_its_upstream_although_the_client_stays() {
    let upstream = Upstream::start(|peer| {
        if peer.request().is_some() {
            peer.send(switch());
            peer.send("last");
        }
    });
    let server = proxy(&upstream, "");
    let mut connection = open(&server, "/app/echo");
    assert_eq!(connection.read_exactly(4), b"last");
    assert!(connection.is_closed());
    // The client has closed nothing.
    wait_until("the tunnel ends", || json(&server, "tunnels") == [0]);
}

#[test]
fn a_tunnel_ends_after_its_client_although_the_upstream_stays() {
    let (release, may_end) = gate::<()>();
    let upstream = Upstream::start(move |peer| {
        if peer.request().is_some() {
            peer.send(switch());
            peer.wait_for_end();
            peer.send("after the end");
            // The end of the test is an error.
            let _ = may_end.wait();
        }
    });
    let server = proxy(&upstream, "");
    let mut connection = open(&server, "/app/echo");
    connection.finish();
    assert_eq!(connection.read_exactly(13), b"after the end");
    wait_until("the tunnel ends", || json(&server, "tunnels") == [0]);
    assert!(connection.is_closed());
    drop(release);
}
