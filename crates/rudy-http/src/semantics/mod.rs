//! What the fields mean (RFC 9110), as functions.
