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

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use rudy_http::h1::ServerConnection;

use self::exchange::{Exchange, Finish};
use crate::close::{Ending, close};
use crate::timers::Timer;
use crate::transport::Transport;
use crate::{Call, Client, Reply, Request, Response, Service, Worker};

/// Serves one connection from its first byte to its close. Ends by itself; dropping it closes the socket hard.
pub(crate) async fn serve<T: Transport, S: Service>(
    io: T,
    client: Client,
    service: Arc<S>,
    worker: Arc<Worker>,
) {
    let timer = worker.timers.timer();
    let machine = ServerConnection::new(Instant::now());
    let mut connection = Connection { io, machine, client, service, worker, timer };
    let ending = loop {
        let finish = match poll_fn(|cx| connection.poll_quick(cx)).await {
            Step::End(ending) => Finish::End(ending),
            Step::Exchange(mut exchange) => poll_fn(|cx| exchange.poll(&mut connection, cx)).await,
        };
        match finish {
            Finish::Next => {}
            Finish::End(ending) => break ending,
            Finish::Upgrade(upgrade) => return Box::pin(upgrade::run(connection, upgrade)).await,
        }
    };
    // Boxed, like everything that runs only once: a waiting connection keeps room for none of it.
    Box::pin(close(connection.io, ending, connection.service.limits())).await;
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

impl<T, S: Service> Connection<T, S> {
    /// Has the service answer. A panic in it is answered 500, and ends only this connection.
    fn call(&mut self, request: Request) -> Call {
        self.worker.counters.requests.add(1);
        catch_unwind(AssertUnwindSafe(|| self.service.call(request, &self.client)))
            .unwrap_or_else(|_| Call { reply: Reply::Now(self.panicked()), observer: None })
    }

    /// The answer in place of one that a panic prevented. What the handler left behind is not trusted any further.
    fn panicked(&mut self) -> Response {
        self.worker.counters.panics.add(1);
        self.machine.close_after_answer();
        Response::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "500 Internal Server Error: a bug in the server; it has been logged\n",
        )
    }
}
