//! The `mirror` handler: a caching mirror of a package repository.
//!
//! It is a preset of the proxy and the cache. The lifecycle of a request:
//!
//! 1. The step [`Mirror`] determines which [`Resource`] of the repository the request is for ([`links`]), and removes what is about the
//!    client, such as its credentials: what is stored is for all clients ([`fields`]). Of metadata in several forms, it requests
//!    the one that the client prefers ([`forms`]), and files without a content coding.
//! 2. The step [`cache`](rudy_caching) responds from what is stored. Its keys are the URLs of the repository, whatever name the mirror
//!    has for the client.
//! 3. The handler [`Fetch`] passes the request on through a [`Proxy`](rudy_proxy::Proxy), one for each host, and declares by the
//!    [`Preset`] for how long the response can be used: artefacts forever, metadata until the next validation, and all of them for as
//!    long as the repository fails.
//! 4. [`Mirror`] rewrites the links in metadata to URLs of the mirror ([`document`]), for each response: the stored metadata is that
//!    of the repository. Large documents of all mirrors share a limit of [`memory`]. Browsers cannot execute what the repository sends ([`fields`]).
//! 5. Metadata that belongs together is of the same version ([`checksum`], [`sets`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod checksum;
mod document;
mod fetch;
mod fields;
mod forms;
mod html;
mod json;
mod links;
mod memory;
mod page;
mod preset;
mod references;
mod sets;
mod step;
mod table;
mod tags;
mod verify;

use rudy_pipeline::request_state::Resource;

pub use self::fetch::Fetch;
pub use self::preset::Preset;
pub use self::step::Mirror;
pub use self::table::{MirrorTable, RepositoryUrl};
