//! The close on the client's side, against servers that misbehave.

use std::time::Duration;

use rudy_net::close::{CloseMode, LingerLimits, close, close_at_once};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::sockets::{Side, wait_until_gone, wait_until_returned};

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misbehaviour {
    /// Has closed before.
    Gone,
    /// Has reset before.
    Reset,
    /// Resets when it hears that the client is done.
    ResetsInTheMiddle,
    /// Has closed its side, and keeps the rest open.
    HalfClosed,
    /// Neither reads nor closes.
    NeverReads,
    /// Reads, and does not close.
    NeverCloses,
    /// Sends on as fast as it can.
    SendsForEver,
    /// Sends on, a little at a time.
    Trickles,
}

impl Misbehaviour {
    const ALL: [Self; 8] = [
        Self::Gone,
        Self::Reset,
        Self::ResetsInTheMiddle,
        Self::HalfClosed,
        Self::NeverReads,
        Self::NeverCloses,
        Self::SendsForEver,
        Self::Trickles,
    ];

    /// What has to run out for the close to come to its end. Nothing else may end it, nor is waited for.
    fn linger(self) -> LingerLimits {
        let (long, short) = (Duration::from_mins(10), Duration::from_millis(50));
        match self {
            Self::SendsForEver => LingerLimits { time: long, bytes: 4 * 1024 * 1024 },
            Self::NeverReads | Self::NeverCloses | Self::Trickles => {
                LingerLimits { time: short, bytes: u64::MAX }
            }
            _ => LingerLimits { time: long, bytes: u64::MAX },
        }
    }

    /// A client connected to such a server.
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
            Self::ResetsInTheMiddle => {
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
            Self::SendsForEver => while server.write_all(&[b'x'; 0x1000]).await.is_ok() {},
            Self::Trickles => {
                while server.write_all(b"x").await.is_ok() {
                    // The pace is what is tested.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

/// Has `end` end a connection to each server in each way, and looks what is left.
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
async fn whatever_the_server_does_the_client_closes() {
    end_all(close).await;
}

#[tokio::test]
async fn whatever_the_server_does_the_client_closes_at_once_where_it_cannot_wait() {
    end_all(async |client, mode, _| close_at_once(client, mode)).await;
}
