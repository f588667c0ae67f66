//! What servers, clients and FastCGI apps do with sockets: the files of Unix sockets, the close of a connection, the limit of descriptors.
//!
//! A separate crate, so that clients and apps do not depend on the server.

#![forbid(unsafe_code)]

pub mod close;
mod descriptors;
pub mod file;

pub use descriptors::raise_descriptor_limit;
