//! Stopping a server: complete connections close properly, incomplete responses are reset, so that they do
//! not look complete.

use std::time::Duration;

use rudy_net::engine::Stopped;
use rudy_service::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peers::{UPGRADE, read_until};
use crate::service::Server;
use crate::sockets::{Side, wait_until_gone, wait_until_returned};
use crate::support::{LAST_REQUEST, REQUEST, eventually, sum};

/// The state of a connection when its server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Idle,
    Head,
    Handler,
    /// The peer has read a part of it.
    Answer,
    /// The peer has read a part of it, and the end of the connection would be its end.
    Unframed,
    /// Another protocol.
    Upgraded,
    /// The server has closed its write side, and waits for the peer.
    Close,
}

impl At {
    const ALL: [Self; 7] =
        [Self::Idle, Self::Head, Self::Handler, Self::Answer, Self::Unframed, Self::Upgraded, Self::Close];

    /// Returns a connection in this state.
    async fn reach(self, server: &Server) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let (request, last): (&[u8], &[u8]) = match self {
            Self::Idle => (REQUEST, b"hello"),
            Self::Head => (&REQUEST[..10], b""),
            Self::Handler => (b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", b""),
            Self::Answer => (b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n\r\n"),
            Self::Unframed => (b"GET /live HTTP/1.0\r\n\r\n", b"tick\n"),
            Self::Upgraded => (UPGRADE, b"\r\n\r\n"),
            Self::Close => (LAST_REQUEST, b"hello"),
        };
        stream.write_all(request).await.unwrap();
        read_until(&mut stream, last).await.unwrap();
        match self {
            Self::Handler => server.began.recv().unwrap(),
            Self::Close => assert_eq!(stream.read(&mut [0]).await.unwrap(), 0),
            Self::Head => {
                eventually("it is read", || sum(&*server.engine, |counters| &counters.received_bytes) == 10);
            }
            _ => {}
        }
        stream
    }

    /// Whether the peer has an incomplete response.
    fn is_incomplete(self) -> bool {
        matches!(self, Self::Handler | Self::Answer | Self::Unframed | Self::Upgraded)
    }
}

/// Stops servers with a connection in each state, and checks how the connection ended.
async fn stop_at(at: impl IntoIterator<Item = At>, stop: impl AsyncFn(At, Server)) {
    let mut stopped = Vec::new();
    for at in at {
        let server = Server::start(Limits { linger_timeout: Duration::from_mins(10), ..Limits::default() });
        let (stream, address) = (at.reach(&server).await, server.address);
        stop(at, server).await;
        stopped.push((at, stream, address));
    }
    let servers: Vec<_> = stopped.iter().map(|(_, _, address)| *address).collect();
    wait_until_returned(Side::Server, &servers);
    for (at, mut stream, _) in stopped {
        let end = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(end.is_err(), at.is_incomplete(), "{at:?}: {end:?}");
    }
    wait_until_gone(&servers);
}

#[tokio::test]
async fn an_immediate_stop_resets_incomplete_responses_and_closes_the_rest() {
    stop_at(At::ALL, async |at, server: Server| {
        server.engine.stop_now();
        assert_eq!(server.engine.ended().await, Stopped { aborted: 1 }, "{at:?}");
    })
    .await;
}

#[tokio::test]
async fn connections_that_outlast_the_grace_period_are_reset() {
    // A stop ends a live response properly.
    let at = At::ALL.into_iter().filter(|at| *at != At::Unframed);
    stop_at(at, async |at, server: Server| {
        let Stopped { aborted } = server.engine.stop(Duration::ZERO).await;
        assert!(aborted == 1 || at == At::Idle, "{at:?}");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_server_leaves_no_connection_open() {
    stop_at(At::ALL, async |_, server| drop(server)).await;
}
