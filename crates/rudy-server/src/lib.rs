//! Assembles the server: the tables of its file, all handlers and steps, the routes of a configuration, start, reload and upgrade.

mod app;
mod compile;
pub mod config;
mod grpc;
mod plan;
mod reference;
pub mod run;
mod step_settings;

pub use app::App;
pub use config::HandlerTable;
pub use rudy_caching::{CacheTable, FreshnessTable, KeyField, StoreTable};
pub use rudy_client::{NameServer, UpstreamAddress};
pub use rudy_gateway::fastcgi::{AppTable, Apps, AuthorizeTable, FastcgiTable, ProcessesTable};
pub use rudy_gateway::php::PhpTable;
pub use rudy_guard::{
    AccessRuleTable, AuthorizerUrl, BandwidthTable, BasicAuthTable, ConcurrencyTable, CorsTable,
    ErrorPagesTable, Events, FieldPatterns, ForwardAuthTable, KeyPart, MaintenanceTable, MethodName,
    RateLimitTable, Realm, RequestRate,
};
pub use rudy_handlers::topic::Topics;
pub use rudy_handlers::{
    BroadcastTable, DelayTable, RedirectTable, RespondTable, RewriteTable, StreamFormat, StreamTable,
    TailTable,
};
pub use rudy_mirror::{MirrorTable, Preset, RepositoryUrl};
pub use rudy_pipeline::field_changes::FieldChanges;
pub use rudy_pipeline::routing::{HostPattern, PathPattern};
pub use rudy_pipeline::wildcard::Wildcard;
pub use rudy_pipeline::{AllowedClient, AllowedClients, Resources};
pub use rudy_proxy::{
    CookieName, EjectionTable, HashKey, HealthCheckPath, HealthCheckTable, HostSource, ProxyTable,
    RequestBuffering, SameSite, StickyTable, UpgradeProtocol, UpstreamChoice, UpstreamTable, UpstreamUrl,
};
pub use rudy_watch::dashboard::DashboardTable;
pub use rudy_watch::info::InfoTable;
pub use rudy_watch::metrics::{Metrics, MetricsTable};
pub use rudy_watch::status::StatusTable;
pub use step_settings::{AdmissionTable, StepsTable};
