//! A server that responds to each request as a function says.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A request: the request line and the field lines in lower case.
pub(crate) type Head = Vec<String>;

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// Listens on a free port until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Sends what `respond` returns: a whole response, or nothing to close the connection.
    pub(crate) fn start(respond: impl Fn(&Head) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared, &respond)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().expect("no thread panics with it").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The acceptor gets one more connection, and stops.
        let _ = TcpStream::connect(self.address);
        self.acceptor.take().map(JoinHandle::join).expect("dropped once").expect("the server did not panic");
    }
}

fn accept(listener: &TcpListener, shared: &Shared, respond: &(impl Fn(&Head) -> Vec<u8> + Sync)) {
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let mut open = shared.open.lock().expect("no thread panics with it");
            if shared.stops.load(Ordering::SeqCst) {
                return;
            }
            open.push(stream.try_clone().expect("a descriptor"));
            scope.spawn(move || serve(stream, respond));
        }
    });
}

fn serve(stream: TcpStream, respond: &impl Fn(&Head) -> Vec<u8>) {
    let mut writer = stream.try_clone().expect("a descriptor");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let head: Head = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        if head.is_empty() {
            return;
        }
        let response = respond(&head);
        if response.is_empty() || writer.write_all(&response).is_err() {
            let _ = writer.shutdown(Shutdown::Both);
            return;
        }
    }
}
