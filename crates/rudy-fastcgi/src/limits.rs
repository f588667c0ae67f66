//! Limits on the memory that a peer can use.

/// The limits of one FastCGI connection, for both ends.
///
/// Every limit is configurable. Together they bound the memory that a peer can occupy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the encoded parameters of a request in bytes. Default: 128 KiB, several times the size of a 16 KiB
    /// request head and the variables that a server adds.
    pub params_bytes: usize,
    /// Maximum number of parameters per request. Default: 500, far more than 100 header fields and the variables that a server adds.
    pub params_count: usize,
    /// Maximum number of concurrent requests that an application accepts per connection. Default: 128, more than
    /// multiplexing gateways send; the protocol allows 65,535 (section 3.3). Rudy's gateway sends one at a time.
    pub open_requests: u16,
    /// Maximum content of a management record in bytes (section 4). Default: 1 KiB; the three names of the specification
    /// occupy 47 bytes with their lengths.
    pub management_bytes: u16,
    /// Maximum size of the head of an app's response in bytes. Default: 64 KiB, that of responses over
    /// HTTP.
    pub head_bytes: usize,
    /// Maximum number of fields in the head of an app's response. Default: 500, that of responses over HTTP.
    pub head_fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            params_bytes: 128 * 1024,
            params_count: 500,
            open_requests: 128,
            management_bytes: 1024,
            head_bytes: rudy_message::MessageLimits::RESPONSE_HEAD_BYTES,
            head_fields: rudy_message::MessageLimits::RESPONSE_HEAD_FIELDS,
        }
    }
}
