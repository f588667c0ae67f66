//! Applications behind FastCGI, and PHP sites.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod fastcgi;
pub mod php;
