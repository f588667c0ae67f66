use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rudy_net::Limits;
use rudy_net::engine::{Engine, Stopped};

use crate::support::{eventually, greeter, listen, listen_tcp, sum};

#[tokio::test]
async fn an_engine_accepts_on_every_listener_and_ends_when_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let (engine, _) = greeter(Limits::default());
    let address = listen_tcp(&engine);
    listen(&engine, &format!("unix:{}", path.display()));
    assert_eq!(engine.listening().len(), 2);

    let mut tcp = TcpStream::connect(address).unwrap();
    let mut unix = UnixStream::connect(&path).unwrap();
    eventually("both are accepted", || sum(&engine, |counters| &counters.accepted) == 2);

    assert_eq!(engine.stop(Duration::from_secs(10)).await, Stopped { cut: 0 });
    assert_eq!(tcp.read(&mut [0]).unwrap(), 0);
    assert_eq!(unix.read(&mut [0]).unwrap(), 0);
    assert!(TcpStream::connect(address).is_err());
    assert!(!path.exists(), "the file of the socket is removed");
    assert_eq!(sum(&engine, |counters| &counters.closed), 2);
}
