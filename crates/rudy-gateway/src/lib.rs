//! Applications behind FastCGI, uwsgi and SCGI, and PHP sites.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod fastcgi;
pub mod php;
pub mod uwsgi;
