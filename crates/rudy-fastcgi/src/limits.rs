//! Every bound on what one peer can make us hold.

/// The limits of one FastCGI connection, the same type for both ends.
///
/// Each has a name, a default and a reason; each can be set. Nothing a peer sends decides how much memory is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request's parameters, as they come. 128 KiB: a head of 16 KiB, and what a server adds to it, several
    /// times over.
    pub params_bytes: usize,
    /// Parameters of one request. 500: a hundred fields and a server's own variables leave most of it.
    pub params_pairs: usize,
    /// Requests that an application accepts on one connection at once. 128: more than a gateway that multiplexes sends on one
    /// connection. The most there can be is 65,535 (section 3.3). Rudy's gateway has one.
    pub open_requests: u16,
    /// Bytes of a record that is about the connection and not a request (section 4). 1 KiB: the three names that there are
    /// take 47 with their lengths.
    pub management_bytes: u16,
    /// Bytes of the head of an app's answer. 64 KiB: apps that set many long cookies need more than any request does.
    pub head_bytes: usize,
    /// Fields in the head of an app's answer. 100, as in a request.
    pub head_fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            params_bytes: 128 * 1024,
            params_pairs: 500,
            open_requests: 128,
            management_bytes: 1024,
            head_bytes: 64 * 1024,
            head_fields: 100,
        }
    }
}
