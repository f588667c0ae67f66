//! The kinds of steps, and their order.

/// A kind of step. A request passes them in the order of the variants, and its response passes them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepKind {
    /// Paces the response. The outermost, so that it paces what is sent.
    Bandwidth,
    /// Around the others, so that it has the last word about the media type, the entity tag and `Vary`.
    Compression,
    ResponseHeaders,
    CorsHeaders,
    ErrorPages,
    Maintenance,
    Access,
    /// Preflight requests have no credentials.
    CorsPreflight,
    /// A request that has too many others beside it does not use up the allowance of the client.
    ConcurrentRequests,
    RateLimit,
    WithoutUserFields,
    WithoutForwardingFields,
    BasicAuth,
    ForwardAuth,
    ConcurrentRequestsByUser,
    RateLimitByUser,
    Authorize,
    BodyBytes,
    RequestTimeout,
    RequestHeaders,
    Mirror,
    /// The innermost: it sees the request as the handler does, on which `Vary` of the response is based.
    Cache,
}

impl StepKind {
    /// All kinds, in their order, with their names in the reference.
    pub(crate) const ALL: [(Self, &str); 22] = [
        (Self::Bandwidth, "`bandwidth`"),
        (Self::Compression, "`compression`"),
        (Self::ResponseHeaders, "`response_headers`, `security_headers` and HSTS"),
        (Self::CorsHeaders, "`cors`: the fields of responses"),
        (Self::ErrorPages, "`error_pages`"),
        (Self::Maintenance, "`maintenance`"),
        (Self::Access, "`allow`, `deny` and `access`"),
        (Self::CorsPreflight, "`cors`: preflight requests"),
        (Self::ConcurrentRequests, "`concurrent_requests`"),
        (Self::RateLimit, "`rate_limit`"),
        (Self::WithoutUserFields, "removal of fields in which a login names users"),
        (Self::WithoutForwardingFields, "removal of fields that only proxies set"),
        (Self::BasicAuth, "`basic_auth`"),
        (Self::ForwardAuth, "`forward_auth`"),
        (Self::ConcurrentRequestsByUser, "`concurrent_requests` by user"),
        (Self::RateLimitByUser, "`rate_limit` by user"),
        (Self::Authorize, "`authorize`"),
        (Self::BodyBytes, "`body_bytes`"),
        (Self::RequestTimeout, "`request_timeout`"),
        (Self::RequestHeaders, "`request_headers`"),
        (Self::Mirror, "`mirror`"),
        (Self::Cache, "`cache`"),
    ];
}
