//! A pool of exclusive connections to an upstream. A connection serves one request at a time, and each member of the
//! upstream (an address, or a process of an application) has a connection limit.
//!
//! The pool opens no sockets, reads no clock and uses no async runtime. It is generic over the address and the
//! connection: the caller opens and closes connections, and passes the time as an argument.
//!
//! - [`Pool::checkout`] returns a [`PooledConnection`]: an idle connection, or a permit to open one. At the limit it
//!   returns a [`QueuedCheckout`].
//! - [`Permit`] counts the connection. [Release](Permit::release) it with a connection that can serve another request, or
//!   drop it to free its capacity.
//! - [`Member`] holds the state of one address or process. Its circuit decides whether it gets requests after failures
//!   ([`CircuitOptions`]), and a [`Choice`] which of several members gets a request.
//!
//! # Locks
//!
//! Each worker has a stack of idle connections with its own lock. While no request waits, a release and a checkout from
//! the worker's own stack take only that lock, which is rarely contended. Everything else (a connection of another worker,
//! a new connection, the queue) takes one lock that all workers share. The count `queued` connects the two paths: a slow
//! checkout increments it before it searches for a connection, and a release reads it after it has pushed onto its stack.
//!
//! The pool drops no connection, wakes no waker and calls no callback while it holds a lock.
//!
//! # Fairness
//!
//! A worker serves its requests in order. A released connection stays with its worker while requests wait there, because
//! moving it costs a wake-up. But no worker waits 20 ms longer than another, and a worker without connections has priority.
//! A request that waits gets what a checkout with the same options would get: those that a connection does not suit are
//! passed over.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rudy_upstream::{Checkout, Choice, CircuitOptions, Options, Pool, Preference};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::now();
//! let options = Options {
//!     workers: 1,
//!     queue: 100,
//!     requests_per_member: None,
//!     choice: Choice::LeastBusy,
//!     circuit: CircuitOptions::default(),
//! };
//! let pool = Pool::new(options, None);
//! pool.add(0, "app:9000", 1, now);
//!
//! let Checkout::Ready(pooled) = pool.checkout(0, Preference::Any, now)? else { unreachable!("below the limit") };
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

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod checkout;
mod choice;
mod choose;
mod circuit;
mod decide;
mod instant;
mod member;
mod options;
mod permit;
mod pool;
mod queue;
mod queued;
mod release;
mod slowness;
mod sync;
#[cfg(test)]
mod tests;
mod worker;

pub use checkout::{Checkout, QueueFull};
pub use choice::{Choice, hash};
pub use circuit::{Availability, CircuitOptions};
pub use member::{Member, MemberOptions};
pub use options::{CheckoutOptions, Options, Preference};
pub use permit::{Permit, PooledConnection};
pub use pool::{Change, OnChange, OnEnd, Pool};
pub use queued::{QueuedCheckout, Rejected};
