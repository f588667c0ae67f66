//! rudy-server
