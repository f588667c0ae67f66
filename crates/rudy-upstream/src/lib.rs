//! The pool of exclusive connections to an upstream: one request at a time on each, and no more connections than each
//! member of the upstream (an address, or a process of an application) takes.
//!
//! Nothing here opens a socket, reads a clock, or knows of an async runtime: the pool is generic over the address and the
//! connection, the caller opens and closes connections, and passes the time in.
//!
//! - [`Pool::checkout`] gives a request a [`PooledConnection`]: a kept connection, or room for a new one. Where there is neither it
//!   gives a place in the queue, [`QueuedCheckout`].
//! - [`Permit`] counts the connection. It is [released](Permit::release) with a connection that takes another request;
//!   dropped, its room is free.
//! - [`Member`] is what the pool knows of an address or a process.
//!
//! # Locks
//!
//! Each worker has a stack of idle connections behind a lock of its own. While no request waits, a checkout that finds a
//! connection there and a release take only that lock, which is rarely contended. All else (a connection of another
//! worker, a new one, the queue) takes one lock that all workers share. The count `queued` joins the two paths: a slow
//! checkout raises it before it looks for a connection, and a release pushes onto its stack only while it is 0.
//!
//! No connection is dropped, no waker woken and no callback called under a lock.
//!
//! # Fairness
//!
//! A worker serves its requests in their order. A released connection stays with its worker as long as requests wait there,
//! since moving it costs a wake-up; but no worker waits 20 ms longer than another, and one without connections goes first.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rudy_upstream::{Checkout, Options, Pool, Preference};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::now();
//! let pool = Pool::new(Options { workers: 1, queue: 100, requests_per_member: None }, None);
//! pool.add(0, "app:9000", 1, now);
//!
//! let Checkout::Ready(pooled) = pool.checkout(0, Preference::Any, now)? else { unreachable!("there is room") };
//! assert!(pooled.connection.is_none(), "the caller opens a new connection");
//! let connection = format!("a connection to {}", pooled.permit.member().address());
//! let Checkout::Queued(queued) = pool.checkout(0, Preference::Any, now)? else { unreachable!("the limit is 1") };
//! drop(queued);
//!
//! pooled.permit.release(connection, now);
//! let Checkout::Ready(pooled) = pool.checkout(0, Preference::Any, now)? else { unreachable!("one is idle") };
//! assert_eq!(pooled.connection.as_deref(), Some("a connection to app:9000"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod decide;
mod instant;
mod member;
mod permit;
mod pool;
mod queue;
mod queued;
mod release;
mod sync;
#[cfg(test)]
mod tests;
mod worker;

pub use member::Member;
pub use permit::{Permit, PooledConnection};
pub use pool::{Checkout, OnEnd, Options, Pool, Preference, QueueFull};
pub use queued::{QueuedCheckout, Rejected};
