//! The other commands: help and errors, `get`, `tail`, the manual, trust.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod cli;
mod get;
mod import;
mod interrupt;
mod manual;
mod replay;
mod tail;
mod trust;
