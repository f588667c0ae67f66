//! The files of a release, installed and used as a newcomer would. `RUDY_RELEASE` is their folder, which `cargo xtask release` makes.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]
#![expect(clippy::print_stdout, reason = "the nightly run shows times and counts")]

mod bill;
mod debian;
mod install_script;
mod recipes;
mod registry;
mod rpm;
mod system;
