//! The decisions of a shared HTTP cache (RFC 9111), as pure functions: messages and the time go in, decisions come out.
//!
//! This crate stores nothing, opens nothing and reads no clock. A cache is a map from [`Key`] to a list of responses, each with
//! its metadata, [`Stored`]. For each request, the caller uses a [`Policy`]:
//!
//! ```text
//! lookup ── Hit ───────────────► respond with Stored::fields_at and the content; Stored::verdict decides about 304
//!   │ ├──── StaleHit ──────────► the same, and validate in the background
//!   │ ├──── Validate ──┐
//!   │ ├──── Extend ────┼─ Decision::prepare ─► origin ─┬─ 304 ──────────────► freshen
//!   │ └──── Forward ───┘                               ├─ 206 ──────────────► combine, else store
//!   └────── OnlyIfCached ──────► 504                   ├─ HEAD ─────────────► freshen_from_head
//!                                                      ├─ unsafe method ────► invalidated
//!                                                      ├─ an error ─────────► stale_if_error
//!                                                      └─ any other ────────► store
//! ```
//!
//! | RFC | where |
//! |---|---|
//! | 9111 §2, §4.4: keys and invalidation | [`Policy::key`], [`Policy::invalidated`] |
//! | 9111 §3: storing; §3.1, §3.2: fields; §3.3, §3.4: parts; §3.5: credentials | [`Policy::store`], [`Policy::combine`] |
//! | 9111 §4: use; §4.1: `Vary`; §4.2: freshness and age; §5.2.1: request directives | [`Policy::lookup`], [`Variant`] |
//! | 9111 §4.3: validation | [`Decision::prepare`], [`Policy::freshen`], [`Policy::freshen_from_head`], [`Stored::verdict`] |
//! | 5861: `stale-while-revalidate`, `stale-if-error` | [`Decision::StaleHit`], [`Decision::Validate`] |
//! | 8246: `immutable` | [`Policy::lookup`] |
//! | 9211: `Cache-Status` | [`CacheStatus`] |
//! | 9213: `CDN-Cache-Control` | [`Policy::targets`] |
//!
//! [`index`] decides which objects a store of limited size keeps.
//!
//! `tests/cases` has a conversation of a client, a cache and an origin for each rule. Not implemented, because no section requires
//! it: storing responses to POST (RFC 9110 §9.3.3), and several entity tags in one validation (§4.3.1, MAY).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod cache_status;
mod directives;
pub mod encoding;
mod fields;
mod freshness;
pub mod index;
mod key;
mod lookup;
mod partial;
mod policy;
mod query;
mod seconds;
mod stored;
mod storing;
mod upstream;
mod validation;
mod variable;
mod vary;

pub use cache_status::CacheStatus;
pub use key::Key;
pub use lookup::{Decision, Forward, Selected, is_error};
pub use policy::{ByStatus, Exchange, Heuristic, Policy};
pub use query::{Parameters, QueryRules};
pub use rudy_message::semantics::conditional::Verdict;
pub use rudy_message::semantics::date::HttpDate;
pub use rudy_message::semantics::range::Span;
pub use seconds::Seconds;
pub use stored::{Content, Stored};
pub use storing::NotStored;
pub use validation::Change;
pub use variable::VariableName;
pub use vary::{Variant, accept_encoding};
