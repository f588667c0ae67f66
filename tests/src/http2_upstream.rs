//! A server of HTTP/2 behind a proxy, with the crate `h2`.

use std::fmt::{self, Display, Formatter};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A server on a free port of 127.0.0.1, with a thread for all connections. Stops when dropped.
pub struct Http2Upstream {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Http2Upstream {
    /// As [`Self::start`], with the default settings.
    pub fn serve<F>(
        serve: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Clone + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(|_| {}, serve)
    }

    /// Starts a server that calls `serve` for each request. `configure` changes its settings.
    /// Panics if no port is free.
    pub fn start<F>(
        configure: impl Fn(&mut Builder) + Send + 'static,
        serve: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Clone + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("the socket is ours");
        let address = listener.local_addr().expect("the socket is bound");
        let (stop, stopped) = oneshot::channel();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = accepted.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be created").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("the socket is ours");
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.expect("a connection can be accepted");
                        counter.fetch_add(1, Ordering::SeqCst);
                        let mut builder = Builder::new();
                        configure(&mut builder);
                        tokio::spawn(serve_connection(stream, builder, serve.clone()));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, accepted, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the URL: `h2c://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("h2c://{}", self.address)
    }

    /// Number of accepted connections.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn serve_connection<F: Future<Output = ()> + Send + 'static>(
    stream: TcpStream,
    builder: Builder,
    serve: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F,
) {
    let Ok(mut connection) = builder.handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(serve(request, respond));
    }
}

/// The URL.
impl Display for Http2Upstream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

impl Drop for Http2Upstream {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
