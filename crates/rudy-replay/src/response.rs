//! A response, as far as it is compared.

use std::io;

use http::HeaderMap;
use rudy_request::Output;

/// Maximum number of bytes of a body that are kept and compared. Of longer ones, the lengths are compared, too.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// A complete response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The fields.
    pub fields: HeaderMap,
    /// The body as it was received, without framing.
    pub body: Body,
}

/// The start of a body, and its length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// The length of the whole body.
    pub length: u64,
}

/// A request without a complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The kind, such as `timeout`.
    pub kind: &'static str,
    /// The message.
    pub message: String,
}

/// The result of a request.
pub type Outcome = Result<Response, Failed>;

impl Response {
    /// Whether a server usually makes the body itself: redirects and errors.
    pub(crate) fn has_own_page(&self) -> bool {
        self.status >= 300
    }

    /// The text of a field, with its lines joined. None if it is absent.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut lines = self.fields.get_all(name).iter().peekable();
        lines.peek()?;
        let lines: Vec<_> = lines.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        Some(lines.join(", "))
    }

    /// The media type without parameters, for messages.
    pub(crate) fn media_type(&self) -> String {
        let value = self.field("content-type").unwrap_or_default();
        let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind.is_empty() { "no type".to_owned() } else { kind }
    }
}

impl Output for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = BODY_BYTES_MAX - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(left)]);
        self.length += bytes.len() as u64;
        Ok(())
    }
}
