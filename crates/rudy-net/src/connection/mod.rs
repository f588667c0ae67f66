//! The driver: moves bytes between a socket and the protocol machine, and requests between the machine and a service.
//!
//! A connection that waits for a request is a small future with no buffer. Most requests are read, answered and written
//! in one poll of it ([`quick`]); what has to wait for a service, a file or a slow peer goes on in a boxed [`Exchange`], and
//! an answer without an end in a smaller [`LiveAnswer`], of which there may be ten thousand.

mod exchange;
mod live;
mod quick;
mod record;
mod sending;
mod upgrade;
mod upload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::StatusCode;
use rudy_http::h1::ServerConnection;

use self::exchange::{Exchange, Finish};
use self::live::LiveAnswer;
use crate::close::{Ending, close, close_at_once};
use crate::engine::Source;
use crate::local::{Kept, Local};
use crate::timers::Timer;
use crate::transport::Transport;
use crate::{Call, Client, Limits, Peer, Reply, Request, Response, Service, Worker};

/// Serves one connection from its first byte to its close. Ends by itself; dropped before, it closes without waiting.
pub(crate) fn serve<T: Transport, S: Source>(
    io: T,
    client: Client,
    context: Arc<ConnectionContext<S>>,
) -> Serve<T, S> {
    let timer = context.worker.timers.timer();
    let limits = context.source.current().limits().clone();
    let machine = ServerConnection::new(Instant::now());
    let Client { peer, number, request: _ } = client;
    Serve {
        connection: Some(Connection {
            io,
            machine,
            peer,
            local: Kept::new(),
            number,
            context,
            limits,
            timer,
        }),
        stage: Stage::Quick,
    }
}

/// What the connections that one worker has from one listener share.
pub(crate) struct ConnectionContext<S> {
    /// Whose counters and timers are theirs.
    pub(crate) worker: Arc<Worker>,
    /// What answers them.
    pub(crate) source: Arc<S>,
    /// Set once, when the listener is closed: each connection ends with its next response, an idle one at once.
    pub(crate) is_listener_closed: Arc<AtomicBool>,
}

impl<S> ConnectionContext<S> {
    /// Whether a connection ends with the response in progress.
    fn ends_connections(&self) -> bool {
        self.worker.is_stopping() || self.is_listener_closed.load(Ordering::Acquire)
    }
}

/// A connection being served. Not an `async fn`: its future would keep room for its arguments beside what they have
/// become, 144 bytes more, and idle connections are what memory goes to.
pub(crate) struct Serve<T: Transport, S: Source> {
    /// Taken when the connection comes to its end.
    connection: Option<Connection<T, S>>,
    stage: Stage,
}

/// What a connection is at. Everything but the wait for a request is boxed, and thinly: 16 bytes for the enum.
enum Stage {
    Quick,
    Exchange(Box<Exchange>),
    Live(Box<LiveAnswer>),
    /// The close, or another protocol.
    Last(Box<Last>),
}

type Last = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<T: Transport, S: Source> Future for Serve<T, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let finish = match (&mut this.stage, &mut this.connection) {
                (Stage::Last(last), _) => return (**last).as_mut().poll(cx),
                (Stage::Exchange(exchange), Some(connection)) => ready!(exchange.poll(connection, cx)),
                (Stage::Live(live), Some(connection)) => ready!(live.poll(connection, cx)),
                (Stage::Quick, Some(connection)) => match ready!(connection.poll_quick(cx)) {
                    Step::End(ending) => Finish::End(ending),
                    Step::Exchange(exchange) => {
                        this.stage = Stage::Exchange(exchange);
                        continue;
                    }
                },
                (_, None) => return Poll::Ready(()),
            };
            this.stage = match (finish, &mut this.connection) {
                (Finish::Next, _) => Stage::Quick,
                (Finish::Live(live), _) => Stage::Live(live),
                (Finish::End(ending), connection) => last(connection.take(), |it| it.end(ending)),
                (Finish::Upgrade(upgrade), connection) => {
                    last(connection.take(), |it| upgrade::run(it, upgrade))
                }
            };
        }
    }
}

impl<T: Transport, S: Source> Drop for Serve<T, S> {
    /// Dropped in the middle: the server is being stopped, or there is a bug in us. A close under way sees to itself.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let in_answer = matches!(self.stage, Stage::Exchange(_) | Stage::Live(_));
            close_at_once(connection.io, if in_answer { Ending::Cut } else { Ending::Quiet });
        }
    }
}

/// The connection's last stage, which consumes it.
fn last<C, F: Future<Output = ()> + Send + 'static>(
    connection: Option<C>,
    end: impl FnOnce(C) -> F,
) -> Stage {
    match connection {
        Some(connection) => Stage::Last(Box::new(Box::pin(end(connection)))),
        None => Stage::Last(Box::new(Box::pin(std::future::ready(())))),
    }
}

/// Lets the other connections of the core have their turn, and comes back after them.
///
/// Not `wake_by_ref`: a task that wakes itself is run again before the runtime looks at its sockets, up to 61 times, and
/// whoever has just sent a request waits for all of them. `yield_now` comes back after that look.
fn give_turn<R>(cx: &mut Context<'_>) -> Poll<R> {
    // Its first poll is always pending, and leaves the waker with the runtime.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}

/// What the quick way comes to when it cannot go on by itself.
enum Step {
    Exchange(Box<Exchange>),
    End(Ending),
}

struct Connection<T, S> {
    io: T,
    machine: ServerConnection,
    peer: Peer,
    local: Kept,
    number: u64,
    context: Arc<ConnectionContext<S>>,
    /// Those of the service that was looked up last. The service itself is not held: it would be kept as long as a stream lasts,
    /// with its file caches and descriptors.
    limits: Arc<Limits>,
    timer: Timer,
}

impl<T: Transport, S: Source> Connection<T, S> {
    async fn end(self, ending: Ending) {
        // What the machine still held of the peer's bytes is not kept while the close waits for its last ones.
        let Self { io, machine, context, limits, timer, peer: _, local: _, number: _ } = self;
        drop((machine, context, timer));
        close(io, ending, limits.linger()).await;
    }

    /// Who asks. Made when it is wanted: what the machine counts need not be kept twice.
    fn client(&self) -> Client {
        Client { peer: self.peer, number: self.number, request: self.machine.requests() }
    }

    /// Where it has reached us, for whoever wants to know.
    fn local(&self) -> Local<'_> {
        match self.peer {
            Peer::Ip(_) => Local::of_socket(self.io.as_fd(), &self.local),
            Peer::Unix => Local::known(None),
        }
    }

    /// The service of now. Its limits hold from here on.
    fn look_up(&mut self) -> S::Current {
        let service = self.context.source.current();
        if !Arc::ptr_eq(&self.limits, service.limits()) {
            self.limits = service.limits().clone();
        }
        service
    }

    /// Has the service answer. A panic in it is answered 500, and ends only this connection.
    fn call(&mut self, service: &S::Service, request: Request) -> Call {
        self.context.worker.counters.requests.add(1);
        let client = self.client();
        catch_unwind(AssertUnwindSafe(|| service.call(request, &client, &self.local())))
            .unwrap_or_else(|_| Call { reply: Reply::Now(self.panicked()), observer: None })
    }

    /// The answer in place of one that a panic prevented.
    fn panicked(&mut self) -> Response {
        self.context.worker.counters.panics.add(1);
        self.bug()
    }

    /// The answer in place of one that cannot be given. What led to it is not trusted any further.
    fn bug(&mut self) -> Response {
        self.machine.close_after_answer();
        Response::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "500 Internal Server Error: a bug in the server; it has been logged\n",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    struct Nothing;

    impl Source for Nothing {
        type Service = Self;
        type Current = Arc<Self>;

        fn current(&self) -> Arc<Self> {
            unreachable!("never served")
        }
    }

    impl Service for Nothing {
        fn call(&self, _request: Request, _client: &Client, _local: &Local) -> Call {
            Call { reply: Reply::Now(Response::new(StatusCode::NO_CONTENT)), observer: None }
        }

        fn limits(&self) -> &Arc<Limits> {
            unreachable!("never served")
        }

        fn refused(&self, _client: &Client, _reason: &str, _outcome: &Outcome) {}
    }

    /// With the 136 bytes that tokio adds, the connection's task fills three of its 128-byte cache lines. A field more and
    /// every idle connection costs a fourth.
    #[test]
    fn a_waiting_connection_fits_its_cache_lines() {
        assert!(size_of::<Serve<tokio::net::TcpStream, Nothing>>() <= 248);
    }
}
