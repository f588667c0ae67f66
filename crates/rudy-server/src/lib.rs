//! Assembles the server: the tables of its file, all handlers and steps, the routes of a configuration, start, reload and upgrade.

mod app;
mod compile;
pub mod config;
mod grpc;
mod named_pages;
mod plan;
mod reference;
pub mod run;
mod step_settings;

pub use app::App;
pub use rudy_mirror::{MirrorTable, Preset, RepositoryUrl};
pub use rudy_pipeline::Resources;
pub use rudy_pipeline::routing::HostPattern;
pub use rudy_pipeline::wildcard::Wildcard;
pub use rudy_proxy::UpstreamUrl;
