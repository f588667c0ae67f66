//! The other commands: help and errors, `get`, `tail`, the manual, trust.

mod cli;
mod get;
mod interrupt;
mod manual;
mod tail;
mod trust;
