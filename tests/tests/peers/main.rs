//! Against programs that did not learn HTTP from us, and against many clients at once.

mod codings;
mod conditions;
mod connections;
mod content;
mod documentation;
mod fastcgi;
mod fastcgi_app;
mod generators;
mod lab;
mod paths;
mod php;
mod pipelined;
mod ranges;
mod redbot;
mod reload;
mod slow;
mod slowhttptest;
mod spellings;
mod unprivileged;
