//! The steps around every handler, over real connections: header fields, error pages, limits of a route, rewrites and redirects, on
//! every handler and over every protocol. Tests with php-fpm are in `peers/php/steps.rs`.

mod apps;
mod bodies;
mod bypass;
mod conditions;
mod forward;
mod internal;
mod login;
mod maps;
mod next_route;
mod protocols;
mod rejections;
mod reload;
mod spoofed;
