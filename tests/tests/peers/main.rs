//! Tests with other programs: clients, servers, applications and linters with their own implementations of
//! HTTP and FastCGI, and many clients at once.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod applications;
mod auth_request;
mod browser_codings;
mod cache_tests;
mod codings;
mod conditions;
mod connections;
mod content;
mod dashboard;
mod documentation;
mod fail2ban;
mod fastcgi;
mod fastcgi_app;
mod forwarded_requests;
mod generators;
mod h2spec;
mod handshakes;
mod http2_client;
mod http3;
mod imported;
mod lab;
mod limits;
mod logins;
mod metrics;
mod mirrors;
mod paths;
mod php;
mod pipelined;
mod proxy;
mod ranges;
mod redbot;
mod reload;
mod replayed;
mod scanners;
mod slow;
mod slowhttptest;
mod spellings;
mod systemd;
mod traces;
mod unprivileged;
mod weblog;
