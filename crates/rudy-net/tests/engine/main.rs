//! The default engine on real sockets: accepting, limits, listening and no longer listening, stopping.

mod listen;
mod support;
