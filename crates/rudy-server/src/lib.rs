//! The server above the socket layer: configuration, sites, routes, handlers, logs, reload and upgrade.

pub mod access_log;
mod acme;
mod admin;
mod app;
pub mod buffer;
mod cache;
pub mod client_address;
mod compile;
pub mod compression;
pub mod config;
mod dashboard;
mod digits;
mod exchange;
mod fastcgi;
mod field_changes;
mod file_access;
pub mod files;
pub mod follow;
mod grpc;
mod handlers;
mod internal_redirect;
pub mod media_types;
mod methods;
mod metrics;
mod mirror;
pub mod network;
mod openat2;
mod own_fields;
pub mod pages;
pub mod passwords;
mod php;
mod pipeline;
mod plan;
pub mod precompress;
mod proxy;
mod reference;
mod registry;
mod request_state;
mod routing;
pub mod run;
mod sandboxed;
mod state_dir;
mod status;
mod step_settings;
mod steps;
pub mod tail;
mod tls;
mod topic;
pub mod trust;
mod upstream;
mod user;
mod watched_files;
mod wildcard;

pub use app::App;
pub use cache::{CacheTable, FreshnessTable, KeyField, StoreTable};
pub use config::HandlerTable;
pub use dashboard::DashboardTable;
pub use fastcgi::{AppTable, Apps, AuthorizeTable, FastcgiTable, ProcessesTable};
pub use field_changes::FieldChanges;
pub use handlers::{
    BroadcastTable, DelayTable, InfoTable, MetricsTable, RedirectTable, RespondTable, RewriteTable,
    StatusTable, StreamFormat, StreamTable, TailTable,
};
pub use metrics::Metrics;
pub use mirror::{MirrorTable, Preset, RepositoryUrl};
pub use php::PhpTable;
pub use pipeline::{AllowedClient, AllowedClients, Resources};
pub use proxy::{
    CookieName, EjectionTable, HashKey, HealthCheckPath, HealthCheckTable, HostSource, ProxyTable,
    RequestBuffering, SameSite, StickyTable, UpgradeProtocol, UpstreamChoice, UpstreamTable, UpstreamUrl,
};
pub use routing::{HostPattern, PathPattern};
pub use step_settings::{AdmissionTable, StepsTable};
pub use steps::{
    AccessRuleTable, AuthorizerUrl, BandwidthTable, BasicAuthTable, ConcurrencyTable, CorsTable,
    ErrorPagesTable, Events, FieldPatterns, ForwardAuthTable, KeyPart, MaintenanceTable, MethodName,
    RateLimitTable, Realm, RequestRate,
};
pub use topic::Topics;
pub use upstream::{NameServer, UpstreamAddress};
pub use wildcard::Wildcard;
