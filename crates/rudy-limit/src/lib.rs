//! Limits for the clients of a server: requests per time, requests at the same time, and bytes per second.
//!
//! The crate opens no sockets, reads no clock and uses no async runtime. The caller passes the time as an argument. All
//! workers share a limit.
//!
//! - [`KeyHasher`] makes a [`Key`] of what a limit counts by, such as the address of a client. Clients cannot choose keys
//!   that collide.
//! - [`RateLimiter`] counts requests per time by key, with an [`Allowance`]. Its memory is bounded.
//! - [`Slots`] counts requests in progress by key.
//! - [`Pace`] spreads the bytes of a response over time.
//! - [`TopKeys`] finds the keys that are rejected most.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rudy_limit::{Allowance, KeyHasher, RateLimiter};
//!
//! let start = Instant::now();
//! // Ten requests per second, at most two of them at once.
//! let limiter = RateLimiter::new(Allowance::new(10, Duration::from_secs(1), 2), 1 << 20, start);
//! let keys = KeyHasher::default();
//! let client = keys.start().address([192, 0, 2, 7].into(), 64).finish();
//! assert!(limiter.take(client, start).is_allowed());
//! assert!(limiter.take(client, start).is_allowed());
//! let third = limiter.take(client, start);
//! assert_eq!(third.retry_after, Some(Duration::from_millis(100)));
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod allowance;
mod key;
mod limiter;
mod pace;
mod slots;
mod top;

pub use allowance::{Allowance, Decision};
pub use key::{Key, KeyBuilder, KeyHasher};
pub use limiter::RateLimiter;
pub use pace::Pace;
pub use slots::{Slot, Slots};
pub use top::{TopKey, TopKeys};
