//! The gateway in front of an app of our own that goes wrong in every way: the right status, no connection, place or
//! descriptor lost, and the next request served. On every engine.

mod answers;
mod authorize;
mod backlog;
mod chaos;
mod disk;
mod faults;
mod gone;
mod half_close;
mod many;
mod names;
mod paths;
mod queue;
mod request_buffering;
mod response_buffering;
mod restart;
mod room;
mod site;
mod started;
mod starve;
mod variables;
