//! A connection as its service sees it, whatever protocol it speaks.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rudy_http::h1::SuspendedConnection;
use rudy_message::{LazyHead, Rejection, RequestHead};
use rudy_runtime::clock;
use rudy_service::{
    Body, Client, EndReason, Limits, LocalAddress, LocalAddressCache, Peer, Reply, Request, RequestBody,
    Response, Service, ServiceSource,
};
use rudy_tls::Tls;

use super::ConnectionContext;
use super::record::Record;
use crate::address_key::AddressKey;
use crate::timers::Timer;
use crate::transport::{Stream, Transport};
use crate::wire::Wire;

/// A connection: its client, its service and its timer. `L` is what carries it.
pub(super) struct Connection<S, L = Stream> {
    pub(super) io: L,
    pub(super) context: Arc<ConnectionContext<S>>,
    pub(super) timer: Timer,
    pub(super) info: Box<ConnectionInfo>,
}

/// Static data of a connection. Boxed, so that the task fits in two of its 128-byte cache lines; the box fits
/// in the allocator's gap after the task.
pub(super) struct ConnectionInfo {
    pub(super) peer: Peer,
    pub(super) local_address: LocalAddressCache,
    pub(super) number: u64,
    /// The limits of the last loaded service. Holding the service itself would keep its file caches and
    /// descriptors open for as long as a stream lasts.
    pub(super) limits: Arc<Limits>,
    /// The state of HTTP/1.1 while its machine is absent.
    pub(super) suspended: SuspendedConnection,
}

/// What carries a connection, as far as its requests depend on it.
pub(crate) trait Endpoint {
    /// Returns the address to which the client has connected. Asks the kernel once, and stores the answer in `cache`.
    fn local_address<'c>(&'c self, cache: &'c LocalAddressCache) -> LocalAddress<'c>;

    /// Returns the result of the handshake; `None` without encryption.
    fn tls(&self) -> Option<&Arc<Tls>>;
}

impl Endpoint for Stream {
    fn local_address<'c>(&'c self, cache: &'c LocalAddressCache) -> LocalAddress<'c> {
        Wire::local_address(self, cache)
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        Transport::tls(&**self)
    }
}

impl<S> ConnectionContext<S> {
    /// Whether connections close after the response in progress.
    pub(super) fn ends_connections(&self) -> bool {
        self.ends_idle_connections() || self.listener.is_handed_over.load(Ordering::Acquire)
    }

    /// Whether idle connections close after their first response.
    pub(super) fn ends_idle_connections(&self) -> bool {
        self.worker.is_stopping() || self.listener.is_closed.load(Ordering::Acquire)
    }
}

impl<S: ServiceSource, L> Connection<S, L> {
    /// Creates a connection with this peer and number. `is_of_many` is whether it belongs to many clients.
    pub(super) fn new(
        io: L,
        (peer, number): (Peer, u64),
        is_of_many: bool,
        context: Arc<ConnectionContext<S>>,
    ) -> Self {
        let limits = context.source.current().limits().clone();
        let group = if is_of_many { AddressKey::unique(number) } else { AddressKey::from(&peer) };
        let timer = context.worker.timers.timer(Some(group));
        let (local_address, suspended) = (LocalAddressCache::new(), SuspendedConnection::new(clock::now()));
        let info = Box::new(ConnectionInfo { peer, local_address, number, limits, suspended });
        Self { io, context, timer, info }
    }
}

impl<S: ServiceSource, L: Endpoint> Connection<S, L> {
    /// Creates the client for the service. `request_number` counts the requests of the connection.
    pub(super) fn client(&self, request_number: u64) -> Client<'_> {
        let ConnectionInfo { peer, local_address, number, .. } = &*self.info;
        let local_address = match peer {
            Peer::Ip(_) | Peer::Unnamed(_) => self.io.local_address(local_address),
            Peer::Unix => LocalAddress::known(None),
        };
        Client {
            peer: *peer,
            forwarded: None,
            listener: Some(Cow::Borrowed(&self.context.address)),
            local_address,
            tls: self.io.tls().cloned(),
            connection_number: *number,
            request_number,
            observer: OnceLock::new(),
            head: OnceLock::new(),
        }
    }

    /// Loads the current service, and applies its limits.
    pub(super) fn load_service(&mut self) -> S::Current {
        let service = self.context.source.current();
        if !Arc::ptr_eq(&self.info.limits, service.limits()) {
            self.info.limits = service.limits().clone();
        }
        service
    }

    /// Calls the service. Returns `None` if it panics, which ends only this connection.
    pub(super) fn call<T>(&self, service: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(service));
        result.map_err(|_| self.context.worker.counters.panics.add(1)).ok()
    }

    /// Passes a request to the service. `number` counts the requests of the connection. The reply is `None` if the service has
    /// panicked.
    pub(super) fn dispatch(
        &self,
        service: &S::Service,
        head: &RequestHead<'_>,
        body: RequestBody,
        (number, now): (u64, Instant),
    ) -> (Option<Reply>, Record) {
        let forwarded = self.call(|| service.forwarded(head, &self.info.peer)).flatten().map(Arc::new);
        let client = Client { forwarded, ..self.client(number) };
        if let Some(observer) = self.call(|| service.observe(head, &client)).flatten() {
            body.set_observer(&observer);
            let _is_first = client.observer.set(observer);
        }
        let reply = self.call(|| service.call(Request::new(LazyHead::new(head), body), &client));
        (reply, Record::of(client, now))
    }

    /// Returns the response of the service to a rejected request, if it has one in memory: a client that breaks the rules must not
    /// cause work. `head` may be incomplete or malformed. `number` counts the requests of the connection.
    pub(super) fn rejection_response(
        &self,
        service: &S::Service,
        rejection: Rejection,
        head: &[u8],
        number: u64,
    ) -> Option<Response> {
        let head = RequestHead::of_rejected(head, &self.info.limits.http.of_message());
        let response = self.call(|| {
            let forwarded = head.as_ref().and_then(|head| service.forwarded(head, &self.info.peer));
            let client = Client { forwarded: forwarded.map(Arc::new), ..self.client(number) };
            service.respond_to_rejected(rejection, head.as_ref(), &client)
        });
        let is_final = |response: &Response| !response.status().is_informational();
        let is_in_memory = |response: &Response| matches!(response.body, Body::Empty | Body::Bytes(_));
        response.flatten().filter(|response| is_final(response) && is_in_memory(response))
    }

    /// Reports the rejection of a request without an observer to the service.
    pub(super) fn report_rejected(&mut self, rejection: Rejection, number: u64, since: Instant) {
        let service = self.load_service();
        let mut record = Record::new(None, since);
        record.status = Some(rejection.status());
        service.rejected(&self.client(number), &rejection.to_string(), &record.outcome(EndReason::Completed));
    }
}
