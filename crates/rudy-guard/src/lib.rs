//! The steps that surround handlers, each a file here.
//!
//! A step decides on a request and may change it; a step for responses also changes what comes back. The [pipeline](rudy_pipeline) calls
//! them, in the order of their kinds.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod access;
mod basic_auth;
mod body_limit;
mod cache_control;
mod compress;
mod conditions;
mod cors;
mod derived_heads;
mod error_pages;
mod fields;
mod forward_auth;
mod forwarding_fields;
mod http3_offer;
mod identity;
mod limits;
mod login;
mod maintenance;
pub mod passwords;
mod timeout;

pub use self::access::AccessRuleTable;
pub use self::access::AccessRules;
pub use self::basic_auth::BasicAuth;
pub use self::basic_auth::{BasicAuthTable, Realm};
pub use self::body_limit::BodyLimit;
pub use self::cache_control::{CacheControl, CacheControlTable};
pub use self::compress::{Compress, Compressor};
pub use self::conditions::VaryByConditions;
pub use self::cors::CorsTable;
pub use self::cors::{Cors, CorsFields, Preflight};
pub use self::error_pages::ErrorPagesTable;
pub use self::error_pages::{ErrorPages, Pages};
pub use self::fields::{Changes, RequestFields, ResponseFields};
pub use self::forward_auth::ForwardAuth;
pub use self::forward_auth::{AuthorizerUrl, CopiedFields, ForwardAuthTable, LoginUrl};
pub use self::forwarding_fields::WithoutForwardingFields;
pub use self::http3_offer::Http3Offers;
pub use self::identity::WithoutUserFields;
pub use self::limits::{BandwidthTable, ConcurrencyTable, Events, KeyPart, RateLimitTable, RequestRate};
pub use self::limits::{LimitCheck, LimitSteps, Limits, LoginLimits, Place, bandwidth};
pub use self::login::Login;
pub use self::maintenance::Maintenance;
pub use self::maintenance::MaintenanceTable;
pub use self::timeout::RequestTimeout;
