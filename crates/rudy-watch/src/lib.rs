//! What shows the work of the server: access logs, metrics, active requests, the dashboard.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod access_log;
pub mod dashboard;
pub mod info;
pub mod metrics;
pub mod status;
pub mod traces;
