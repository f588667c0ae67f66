//! A server whose service is a function.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use rudy_message::RequestHead;
use rudy_net::engine::Engine;
use rudy_service::{Client, ExchangeOutcome, Limits, Observer, Reply, Request, Service};

use crate::support::{engine, listen_tcp};

pub(crate) struct Scene {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) outcomes: Receiver<ExchangeOutcome>,
    address: SocketAddr,
}

struct Answering<F> {
    response: F,
    limits: Arc<Limits>,
    outcomes: Mutex<Sender<ExchangeOutcome>>,
}

impl Scene {
    pub(crate) fn start(response: impl Fn(Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(Limits::default(), response)
    }

    pub(crate) fn start_with(
        limits: Limits,
        response: impl Fn(Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (sender, outcomes) = channel();
        let (engine, _) =
            engine(Answering { response, limits: Arc::new(limits), outcomes: Mutex::new(sender) });
        let address = listen_tcp(&*engine);
        Self { engine, outcomes, address }
    }

    /// Opens a connection and sends `request`.
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_ref()).unwrap();
        stream
    }
}

impl<F: Fn(Request) -> Reply + Send + Sync + 'static> Service for Answering<F> {
    fn observe(&self, _head: &RequestHead<'_>, _client: &Client<'_>) -> Option<Arc<dyn Observer>> {
        Some(Arc::new(SendOutcome(self.outcomes.lock().unwrap().clone())))
    }

    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        (self.response)(request)
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

#[derive(Debug)]
struct SendOutcome(Sender<ExchangeOutcome>);

impl Observer for SendOutcome {
    fn finished(&self, outcome: &ExchangeOutcome) {
        let _ = self.0.send(outcome.clone());
    }
}
