//! The response to a connection over a limit.

/// RFC 9110 §15.6.4: 503 with Retry-After means a temporary condition.
pub(crate) const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 64\r\n\
    \r\n\
    The server has reached its connection limit. Please retry later.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_matches_the_body() {
        let text = std::str::from_utf8(UNAVAILABLE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
