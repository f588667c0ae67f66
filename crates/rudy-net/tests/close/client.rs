//! Closing on the client's side, with misbehaving servers.

use std::time::Duration;

use rudy_net::close::{CloseMode, LingerLimits, close, close_at_once};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::peers::LONG;
use crate::sockets::{Side, wait_until_gone, wait_until_returned};

/// The behaviour of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misbehaviour {
    /// Has closed already.
    Gone,
    /// Has reset already.
    Reset,
    /// Resets when the client closes its write side.
    ResetsDuringClose,
    /// Has closed its write side, and keeps the rest open.
    HalfClosed,
    /// Neither reads nor closes.
    NeverReads,
    /// Reads, and does not close.
    NeverCloses,
    /// Keeps sending at full speed.
    SendsForever,
    /// Keeps sending slowly.
    Trickles,
}

impl Misbehaviour {
    const ALL: [Self; 8] = [
        Self::Gone,
        Self::Reset,
        Self::ResetsDuringClose,
        Self::HalfClosed,
        Self::NeverReads,
        Self::NeverCloses,
        Self::SendsForever,
        Self::Trickles,
    ];

    /// Returns limits of which exactly one must end the close.
    fn linger(self) -> LingerLimits {
        let short = Duration::from_millis(50);
        match self {
            Self::SendsForever => LingerLimits { bytes: 4 * 1024 * 1024, ..LONG },
            Self::NeverReads => LingerLimits { send_stall_timeout: short, ..LONG },
            Self::NeverCloses | Self::Trickles => LingerLimits { time: short, ..LONG },
            _ => LONG,
        }
    }

    /// Returns a client connected to such a server.
    async fn connect(self, listener: &TcpListener, servers: &mut JoinSet<()>) -> TcpStream {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        servers.spawn(self.act(server));
        match self {
            Self::Gone | Self::Reset => client.readable().await.unwrap(),
            Self::NeverReads => while client.try_write(&[b'x'; 0x1000]).is_ok() {},
            _ => {}
        }
        client
    }

    async fn act(self, mut server: TcpStream) {
        match self {
            Self::Gone => {}
            Self::Reset => SockRef::from(&server).set_linger(Some(Duration::ZERO)).unwrap(),
            Self::ResetsDuringClose => {
                let _ = server.read_u8().await;
                SockRef::from(&server).set_linger(Some(Duration::ZERO)).unwrap();
            }
            Self::HalfClosed => {
                server.shutdown().await.unwrap();
                server.ready(Interest::ERROR).await.unwrap();
            }
            Self::NeverReads => std::future::pending::<()>().await,
            Self::NeverCloses => {
                let _ = server.read_to_end(&mut Vec::new()).await;
                std::future::pending::<()>().await;
            }
            Self::SendsForever => while server.write_all(&[b'x'; 0x1000]).await.is_ok() {},
            Self::Trickles => {
                while server.write_all(b"x").await.is_ok() {
                    // This pace is the subject of the test.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

/// Closes a connection to each server in each mode with `end`, and checks that nothing is left.
async fn end_all<F: Future<Output = ()>>(end: impl Fn(TcpStream, CloseMode, LingerLimits) -> F) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut servers = JoinSet::new();
    for misbehaviour in Misbehaviour::ALL {
        for mode in [CloseMode::Linger, CloseMode::NoLinger, CloseMode::Reset] {
            let client = misbehaviour.connect(&listener, &mut servers).await;
            end(client, mode, misbehaviour.linger()).await;
        }
    }
    wait_until_returned(Side::Client, &[address]);
    servers.shutdown().await;
    wait_until_gone(&[address]);
}

#[tokio::test]
async fn a_client_closes_with_any_server() {
    end_all(close).await;
}

#[tokio::test]
async fn a_client_closes_without_waiting_with_any_server() {
    end_all(async |client, mode, _| close_at_once(client, mode)).await;
}
