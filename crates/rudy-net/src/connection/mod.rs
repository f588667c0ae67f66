//! The driver: moves bytes between a socket and the protocol machine, and requests between the machine and a service.
//!
//! A connection that waits for a request is a small future with no buffer. Most requests are read, answered and written
//! in one poll of it ([`quick`]); what has to wait for a service, a file or a slow peer goes on in a boxed [`Exchange`].

mod exchange;
mod quick;
mod record;
mod sending;
mod upgrade;
mod upload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::StatusCode;
use rudy_http::h1::ServerConnection;

use self::exchange::{Exchange, Finish};
use crate::close::{Ending, close, close_at_once};
use crate::timers::Timer;
use crate::transport::Transport;
use crate::{Call, Client, Reply, Request, Response, Service, Worker};

/// Serves one connection from its first byte to its close. Ends by itself; dropped before, it closes without waiting.
pub(crate) fn serve<T: Transport, S: Service>(
    io: T,
    client: Client,
    service: Arc<S>,
    worker: Arc<Worker>,
) -> Serve<T, S> {
    let timer = worker.timers.timer();
    let machine = ServerConnection::new(Instant::now());
    Serve {
        connection: Some(Connection { io, machine, client, service, worker, timer }),
        stage: Stage::Serving(None),
    }
}

/// A connection being served. Not an `async fn`: its future would keep room for its arguments beside what they have
/// become, 144 bytes more, and idle connections are what memory goes to.
pub(crate) struct Serve<T: Transport, S: Service> {
    /// Taken when the connection comes to its end.
    connection: Option<Connection<T, S>>,
    stage: Stage,
}

/// What a connection is at, besides waiting for requests. Everything that runs only now and then is boxed.
enum Stage {
    /// Waiting for requests, or at one that takes longer. One variant, so that the whole enum takes 16 bytes.
    Serving(Option<Box<Exchange>>),
    /// The close, or another protocol.
    Last(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl<T: Transport, S: Service> Future for Serve<T, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let finish = match (&mut this.stage, &mut this.connection) {
                (Stage::Last(last), _) => return last.as_mut().poll(cx),
                (Stage::Serving(Some(exchange)), Some(connection)) => ready!(exchange.poll(connection, cx)),
                (Stage::Serving(None), Some(connection)) => match ready!(connection.poll_quick(cx)) {
                    Step::End(ending) => Finish::End(ending),
                    Step::Exchange(exchange) => {
                        this.stage = Stage::Serving(Some(exchange));
                        continue;
                    }
                },
                (_, None) => return Poll::Ready(()),
            };
            this.stage = match (finish, &mut this.connection) {
                (Finish::Next, _) => Stage::Serving(None),
                (Finish::End(ending), connection) => last(connection.take(), |it| it.end(ending)),
                (Finish::Upgrade(upgrade), connection) => {
                    last(connection.take(), |it| upgrade::run(it, upgrade))
                }
            };
        }
    }
}

impl<T: Transport, S: Service> Drop for Serve<T, S> {
    /// Dropped in the middle: the server is being stopped, or there is a bug in us. A close under way sees to itself.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let in_answer = matches!(self.stage, Stage::Serving(Some(_)));
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
        Some(connection) => Stage::Last(Box::pin(end(connection))),
        None => Stage::Last(Box::pin(std::future::ready(()))),
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
    client: Client,
    service: Arc<S>,
    worker: Arc<Worker>,
    timer: Timer,
}

impl<T: Transport, S: Service> Connection<T, S> {
    async fn end(self, ending: Ending) {
        // What the machine still held of the peer's bytes is not kept while the close waits for its last ones.
        let Self { io, service, machine, worker, timer, client: _ } = self;
        drop((machine, worker, timer));
        close(io, ending, service.limits().linger()).await;
    }

    /// Has the service answer. A panic in it is answered 500, and ends only this connection.
    fn call(&mut self, request: Request) -> Call {
        self.worker.counters.requests.add(1);
        catch_unwind(AssertUnwindSafe(|| self.service.call(request, &self.client)))
            .unwrap_or_else(|_| Call { reply: Reply::Now(self.panicked()), observer: None })
    }

    /// The answer in place of one that a panic prevented.
    fn panicked(&mut self) -> Response {
        self.worker.counters.panics.add(1);
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
    use crate::{Limits, Outcome};

    struct Nothing;

    impl Service for Nothing {
        fn call(&self, _request: Request, _client: &Client) -> Call {
            Call { reply: Reply::Now(Response::new(StatusCode::NO_CONTENT)), observer: None }
        }

        fn limits(&self) -> &Limits {
            unreachable!("never served")
        }

        fn refused(&self, _client: &Client, _reason: &str, _outcome: &Outcome) {}
    }

    /// With the 136 bytes that tokio adds, the connection's task fits three of its 128-byte cache lines. A field more and
    /// every idle connection costs a fourth.
    #[test]
    fn a_waiting_connection_fits_its_cache_lines() {
        assert!(size_of::<Serve<tokio::net::TcpStream, Nothing>>() <= 240);
    }
}
