//! Certificates from an authority by ACME (RFC 8555): an account, orders, and the time of renewal.
//!
//! `instant-acme` implements the protocol. This crate carries its requests over the HTTP client of `rudy-request`, answers challenges through
//! [`Publish`], and turns errors into sentences with advice.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod account;
mod challenge;
mod failure;
mod https;
mod nonce;
mod order;
mod renewal;

pub use self::account::{Account, AccountRequest, Authority, ExternalAccount, terms_of_service};
pub use self::challenge::{Challenge, ChallengeKind, Publish, Published};
pub use self::failure::Failure;
pub use self::https::{Exchange, Exchanged, Internet};
pub use self::order::{Issued, Order};
pub use self::renewal::{RenewalWindow, renewal_time};
