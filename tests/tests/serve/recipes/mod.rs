//! The configurations in the pages for users of nginx and Caddy, and in the page about header fields and error pages: each is loaded,
//! and responds as the page describes. So are the examples of whole applications.

mod caddy;
mod examples;
mod headers;
mod kitchen;
mod nginx;
