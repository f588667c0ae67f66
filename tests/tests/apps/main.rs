//! What stands behind the server: FastCGI applications, proxied upstreams, the cache, mirrors, the weblog.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod cache;
mod fastcgi;
mod mirror;
mod proxy;
mod weblog;
