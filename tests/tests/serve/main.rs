//! The server over real sockets: listeners, protocols, TLS, routes, steps, logs, reload, upgrade, sandbox.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod acme;
mod admin;
mod broadcast;
mod client_address;
mod client_certificates;
mod compression;
mod conformance;
mod container;
mod early_data;
mod follow;
mod handlers;
mod hosts;
mod http2;
mod http3;
mod http3_connections;
mod http3_frames;
mod https;
mod limits;
mod listeners;
mod live;
mod local_redirect;
mod log_fields;
mod logs;
mod machine;
mod metrics;
mod privileges;
mod recipes;
mod reload;
mod run;
mod sandbox;
mod spellings;
mod status;
mod steps;
mod stop;
mod stream_heads;
mod tcp;
mod tls;
mod tls_algorithms;
mod tls_files;
mod tls_packets;
mod tracing;
mod upgrade;
