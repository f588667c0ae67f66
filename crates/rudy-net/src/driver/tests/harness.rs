//! Serves a connection on a thread whose runtime has no timers but the worker's.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rudy_message::RequestHead;
use rudy_service::listen_address::Address;
use rudy_service::{
    Client, ExchangeOutcome, Limits, LocalAddress, Observer, Peer, Reply, Request, Service, ServiceSource,
    TlsChoice,
};
use rudy_tls::{ClientHello, TlsSite};

use crate::Worker;
use crate::driver::connection::Connection;
use crate::driver::{ConnectionContext, ListenerState, Serve, serve};
use crate::timers::TimerFd;
use crate::transport::Stream;

type ServiceFunction = dyn Fn(Request, &Client<'_>) -> Reply + Send + Sync;

/// A service made from a function.
pub(super) struct FunctionService {
    limits: Arc<Limits>,
    site: Option<Arc<TlsSite>>,
    function: Box<ServiceFunction>,
    outcomes: Mutex<Sender<ExchangeOutcome>>,
}

impl Service for FunctionService {
    fn observe(&self, _: &RequestHead<'_>, _: &Client<'_>) -> Option<Arc<dyn Observer>> {
        Some(Arc::new(SendOutcome(self.outcomes.lock().clone())))
    }

    fn tls_site(&self, hello: &ClientHello, _: &Address, _: &LocalAddress<'_>) -> Option<TlsChoice> {
        let is_known = |site: &&Arc<TlsSite>| {
            hello.server_name.as_deref().is_none_or(|name| site.has_certificate_for(name))
        };
        self.site.as_ref().filter(is_known).cloned().map(TlsChoice::Site)
    }

    fn call(&self, request: Request, client: &Client<'_>) -> Reply {
        (self.function)(request, client)
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _: &Client<'_>, _: &str, outcome: &ExchangeOutcome) {
        let _ = self.outcomes.lock().send(outcome.clone());
    }
}

#[derive(Debug)]
struct SendOutcome(Sender<ExchangeOutcome>);

impl Observer for SendOutcome {
    fn finished(&self, outcome: &ExchangeOutcome) {
        let _ = self.0.send(outcome.clone());
    }
}

/// A source that always returns the same service.
pub(super) struct Fixed(Arc<FunctionService>);

impl ServiceSource for Fixed {
    type Service = FunctionService;
    type Current = Arc<FunctionService>;

    fn current(&self) -> Arc<FunctionService> {
        self.0.clone()
    }
}

/// Serves connections with a function.
pub(super) struct Harness {
    pub(super) worker: Arc<Worker>,
    pub(super) outcomes: Receiver<ExchangeOutcome>,
    context: Arc<ConnectionContext<Fixed>>,
}

impl Harness {
    pub(super) fn new(
        limits: Limits,
        function: impl Fn(Request, &Client<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with_site(limits, None, Box::new(function))
    }

    /// A server whose connections may use TLS.
    pub(super) fn with_tls(
        limits: Limits,
        site: Arc<TlsSite>,
        function: impl Fn(Request, &Client<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with_site(limits, Some(site), Box::new(function))
    }

    fn with_site(limits: Limits, site: Option<Arc<TlsSite>>, function: Box<ServiceFunction>) -> Self {
        let (sender, outcomes) = channel();
        let (limits, outcome_sender) = (Arc::new(limits), Mutex::new(sender));
        let service = FunctionService { limits, site, function, outcomes: outcome_sender };
        let worker = Arc::<Worker>::default();
        let (source, listener) = (Arc::new(Fixed(Arc::new(service))), Arc::<ListenerState>::default());
        let context = Arc::new(ConnectionContext {
            worker: worker.clone(),
            source,
            listener,
            address: Arc::new("127.0.0.1:0,h2c".parse().unwrap()),
        });
        Self { worker, outcomes, context }
    }

    /// Returns a connection that something else than a socket carries.
    pub(super) fn connection<L>(&self, io: L) -> Connection<Fixed, L> {
        Connection::new(io, (Peer::Unix, 1), false, self.context.clone())
    }

    pub(super) fn serve(&self, io: Stream) -> Serve<Fixed> {
        serve(io, (Peer::Unix, 1), self.context.clone())
    }

    /// Serves one end of a socket pair on a thread, which ends with the connection, and returns the other
    /// end.
    pub(super) fn start(
        &self,
        transport: impl FnOnce(tokio::net::UnixStream) -> Stream + Send + 'static,
    ) -> (UnixStream, JoinHandle<()>) {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (worker, context) = (self.worker.clone(), self.context.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(async {
                tokio::spawn(async move { worker.run_timers(TimerFd::new().unwrap()).await });
                let io = transport(tokio::net::UnixStream::from_std(ours).unwrap());
                serve(io, (Peer::Unix, 1), context).await;
            });
        });
        (peer, thread)
    }
}
