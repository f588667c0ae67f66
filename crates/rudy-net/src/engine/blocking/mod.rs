//! What `serial`, `thread` and `pool:N` have in common: a thread carries one connection at a time, and blocks.
//!
//! One more thread, of control, has a runtime. It accepts, turns the timers, and lends itself to handlers that wait for
//! something other than their client: their wakers reach the carrying thread, which polls the connection.

mod crew;
mod open;
mod park;
#[cfg(test)]
mod tests;
mod transport;

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;

use self::crew::{Crew, Job};
use self::open::Open;
use self::park::{Parker, block_on};
use self::transport::Blocking;
use super::carrier::{Accepted, Carrier};
use super::lane::OpenConnection;
use super::running::Running;
use super::{Engine, Options, Reporter, Source, Trouble, lane};
use crate::Client;
use crate::connection::{self, ConnectionContext};

/// `pool:N`: threads that take connections from a queue. `serial` is a pool of one.
pub(super) fn start_pool<S: Source>(
    threads: usize,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    start(Crew::of_pool(threads)?, source, reporter)
}

/// `thread`: a new thread for each connection, which ends with it.
pub(super) fn start_threads<S: Source>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    start(Crew::of_threads(options.threads_max.unwrap_or(super::THREADS_MAX).get()), source, reporter)
}

fn start<S: Source>(
    crew: Arc<Crew>,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = Running::start(1, Threads(crew), source, reporter, |lanes, carrier| {
        let lanes = lanes.into_iter();
        lanes
            .map(|(lane, orders)| lane::spawn("rudy-control".to_owned(), lane, carrier.clone(), orders))
            .collect()
    })?;
    Ok(Box::new(engine))
}

/// A thread for each connection while it is open.
struct Threads(Arc<Crew>);

impl Drop for Threads {
    /// Where no thread of control was started to do it.
    fn drop(&mut self) {
        self.0.cut();
    }
}

impl Carrier for Threads {
    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    async fn room(&self) {
        self.0.room().await;
    }

    fn carry<T: Accepted, S: Source>(
        &self,
        io: T,
        client: Client,
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) {
        let socket = match io.into_blocking() {
            Ok(socket) => socket,
            Err(error) => return open.reports().happened(Trouble::Accept, || error.to_string()),
        };
        let runtime = Handle::current();
        let carry = move |socket, open, crew: &Crew, parker: &_| {
            let _entered = runtime.enter();
            serve(socket, client, context, crew, parker);
            drop(open);
        };
        self.0.take(Job { socket, open, carry: Box::new(carry) });
    }

    fn finish(&self) {
        self.0.registry.finish();
    }

    fn finish_those_of_closed_listeners(&self) {
        self.0.registry.finish_those_of_closed_listeners();
    }

    fn cut(&self) {
        self.0.cut();
    }
}

/// Serves a connection on this thread.
fn serve<S: Source>(
    socket: socket2::Socket,
    client: Client,
    context: Arc<ConnectionContext<S>>,
    crew: &Crew,
    parker: &Arc<Parker>,
) {
    let carried = Arc::new(Open::new(socket, parker.clone()));
    let _entry = crew.registry.enter(client.number, carried.clone(), context.is_listener_closed.clone());
    let serving = connection::serve(Blocking::new(carried.clone()), client, context);
    // Cut or at its end by itself: it is over, and closed when this is dropped.
    let _ = block_on(&carried, serving);
}
