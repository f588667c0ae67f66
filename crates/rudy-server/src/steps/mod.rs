//! The steps that surround handlers, each a file here.
//!
//! A step decides on a request and may change it; a step for responses also changes what comes back. The [pipeline](crate::pipeline) calls
//! them, in the order of their kinds.

mod access;
mod basic_auth;
mod body_limit;
mod compress;
mod cors;
mod derived_heads;
mod error_pages;
mod fields;
mod forward_auth;
mod forwarding_fields;
mod identity;
mod limits;
mod login;
mod maintenance;
#[cfg(test)]
pub(crate) mod tests;
mod timeout;

pub(crate) use self::access::AccessRules;
pub use self::access::{AccessRuleTable, FieldPatterns, MethodName};
pub(crate) use self::basic_auth::BasicAuth;
pub use self::basic_auth::{BasicAuthTable, Realm};
pub(crate) use self::body_limit::BodyLimit;
pub(crate) use self::compress::{Compress, Compressor};
pub use self::cors::CorsTable;
pub(crate) use self::cors::{Cors, CorsFields, Preflight};
pub use self::error_pages::ErrorPagesTable;
pub(crate) use self::error_pages::{ErrorPages, Pages};
pub(crate) use self::fields::{Changes, RequestFields, ResponseFields};
pub(crate) use self::forward_auth::ForwardAuth;
pub use self::forward_auth::{AuthorizerUrl, ForwardAuthTable};
pub(crate) use self::forwarding_fields::WithoutForwardingFields;
pub(crate) use self::identity::WithoutUserFields;
pub use self::limits::{BandwidthTable, ConcurrencyTable, Events, KeyPart, RateLimitTable, RequestRate};
pub(crate) use self::limits::{LimitCheck, LimitSteps, Limits, LoginLimits, Place, bandwidth};
pub(crate) use self::login::Login;
pub(crate) use self::maintenance::Maintenance;
pub use self::maintenance::MaintenanceTable;
pub(crate) use self::timeout::RequestTimeout;
