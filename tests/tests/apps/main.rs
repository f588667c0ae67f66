//! What stands behind the server: FastCGI applications, proxied upstreams, the cache, mirrors, the weblog.

mod cache;
mod fastcgi;
mod mirror;
mod proxy;
mod weblog;
