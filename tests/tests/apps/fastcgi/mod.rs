//! The gateway in front of an app of the tests that fails in every possible way. The client gets the right status, no connection or
//! descriptor leaks, and the next request is served. On every engine.

mod authorize;
mod backlog;
mod buffer_limits;
mod chaos;
mod connection_count;
mod disconnects;
mod disk_full;
mod faults;
mod few_children;
mod half_close;
mod head_only_responses;
mod name_resolution;
mod paths;
mod queue;
mod replacement;
mod request_buffering;
mod response_buffering;
mod restart;
mod site;
mod spawned_apps;
mod variables;
