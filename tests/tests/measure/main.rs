//! The measuring commands: load tests, floods, experiments, views of processes.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod attacks;
mod bench;
mod flood;
mod http2_client;
mod http_load;
mod lab;
mod lab_gate;
mod lab_plans;
mod lab_report;
mod leaks;
mod observe;
mod shares;
mod sustainable_rate;
mod top;
