//! The files of an HTTP cache. `rudy-cache` decides what to store and to use; this crate keeps it.
//!
//! An [`Object`] is a file with a body that can be sent by `sendfile`, and a record with the key and the metadata
//! ([`rudy_cache::Stored`]). The names of the files are hashes of the keys, and the index in memory has only these hashes: at most
//! 50 bytes for each object. It is built in the background at the start; until then, lookups open files to find out.
//!
//! | | |
//! |---|---|
//! | [`Store::lookup`] | finds the objects that can serve a request |
//! | [`Store::fill`] | receives an object, while any number of readers stream it |
//! | [`Store::update`] | replaces the metadata, after a validation |
//! | [`Store::purge`], [`Store::invalidate`] | make objects unusable, also those in transfer |
//! | [`verify()`] | checks all files |
//!
//! # Failures
//!
//! A failure is at worst a miss, never a wrong byte:
//!
//! - A file gets its name when it is complete, and its metadata is replaced in two steps (`head`), so the end of the process at any
//!   instant leaves the old version, the new one, or none. Nothing is synced for that: after a power failure, checksums find files
//!   that are not whole.
//! - Checksums cover the metadata at each use, a small body when it is read into memory, and a large one before its first use in a
//!   process. A damaged file is removed.
//! - On a full disk, responses are streamed and not stored.
//! - Each error of the disk is counted ([`Stats`]) and passed to a log ([`DiskLog`]).
//! - The list of purges is synced before a purge returns. If it is lost, so are all objects.
//!
//! # Processes
//!
//! The process with the lock of the folder stores. Another one, for example of a new version during a binary upgrade, reads the
//! files and the list of purges, and keeps nothing in memory but which objects it has invalidated. It takes the lock when that is free.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{HeaderMap, Request, Response};
//! use rudy_cache::{Exchange, HttpDate, Key, Policy};
//! use rudy_store::{Access, Finished, Options, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = Store::open(Options::new(folder.path()))?;
//! let key = Key::new(true, b"example.org", b"/a");
//! let epoch = store.epoch();
//! // The origin responds.
//! let request = Request::get("/a").body(())?;
//! let response = Response::builder().header("cache-control", "max-age=60").body(())?;
//! let time = HttpDate::from_unix_seconds(0);
//! let exchange = Exchange { requested_at: time, received_at: time };
//! let stored = Policy::default().store(&request, &response, exchange).expect("it is cacheable");
//!
//! let mut fill = store.fill(&key, stored, Some(5), epoch);
//! fill.write(Bytes::from("Hello"));
//! assert!(matches!(fill.finish(), Ok(Finished::Stored(_))));
//!
//! let found = store.lookup(&key, &HeaderMap::new(), Access::Blocking).expect("it may wait");
//! assert_eq!(found.objects[0].body().read_at(0, 100)?, "Hello");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod background;
mod change;
mod disk;
mod failure;
mod fill;
mod head;
mod health;
mod index;
mod inner;
mod layout;
mod load;
mod lookup;
mod object;
mod open;
mod options;
mod purge;
mod record;
mod signal;
mod snapshot;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod verify;

pub use change::{NotKept, NotUpdated};
pub use disk::{Access, Change, Fault, Faults, OnDisk, SimulatedDisk, WouldBlock};
pub use failure::{DiskFailure, DiskLog};
pub use fill::{Fill, FillAborted, FillReader, FillSource, Finished, Piece, WrongLength};
pub use load::Damage;
pub use lookup::Found;
pub use object::{Body, ContentId, Object};
pub use open::{OpenError, is_foreign};
pub use options::{Options, SMALL_BYTES_MAX};
pub use purge::{Purge, PurgeError, SITE, Target};
pub use record::Epoch;
pub use store::{Listed, Stats, Store};
pub use verify::{Dropped, Verified, verify};
