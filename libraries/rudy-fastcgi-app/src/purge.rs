//! Purges of the cache of Rudy, for apps that it starts.
//!
//! ```no_run
//! use rudy_fastcgi_app::purge;
//!
//! # async fn example() -> std::io::Result<()> {
//! // After a change of an article: its page, and all responses with the tag.
//! purge::tag("post-1").url("https://example.org/posts/1").await?;
//! // Keeps the responses, which are validated before their next use.
//! purge::prefix("https://example.org/images/").soft().await
//! # }
//! ```

use std::env;
use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The environment variable with the path of the socket.
const SOCKET: &str = "RUDY_PURGE_SOCKET";

/// The maximum time for a purge. The server writes it to the disk before it responds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a response.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;

/// A purge: what is no longer valid. It is sent when it is awaited. Afterwards, every request gets a newer response.
///
/// # Errors
///
/// [`NotFound`](io::ErrorKind::NotFound): the variable `RUDY_PURGE_SOCKET` is missing, because no Rudy has started this app, or an
/// old one. Other errors: the server is gone, has no cache, or cannot write the purge. At most 64 KiB are purged at a time.
#[derive(Debug, Clone, Default)]
#[must_use = "await it"]
pub struct Purge {
    /// A list in JSON, without its brackets.
    by: String,
    soft: bool,
}

/// Purges all responses for a URL, with scheme and host.
pub fn url(url: &str) -> Purge {
    Purge::default().url(url)
}

/// Purges all responses for URLs that begin so.
pub fn prefix(prefix: &str) -> Purge {
    Purge::default().prefix(prefix)
}

/// Purges all responses with this tag in `Cache-Tag` or `Surrogate-Key`.
pub fn tag(tag: &str) -> Purge {
    Purge::default().tag(tag)
}

impl Purge {
    /// Also purges all responses for a URL.
    pub fn url(self, url: &str) -> Self {
        self.by("url", url)
    }

    /// Also purges all responses for URLs that begin so.
    pub fn prefix(self, prefix: &str) -> Self {
        self.by("prefix", prefix)
    }

    /// Also purges all responses with a tag.
    pub fn tag(self, tag: &str) -> Self {
        self.by("tag", tag)
    }

    /// Keeps the responses, which are validated before their next use.
    pub fn soft(self) -> Self {
        Self { soft: true, ..self }
    }

    fn by(mut self, kind: &str, text: &str) -> Self {
        let comma = if self.by.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(self.by, "{comma}{{\"{kind}\":{}}}", quoted(text));
        self
    }

    async fn send(self) -> io::Result<()> {
        let path = env::var_os(SOCKET).ok_or_else(|| {
            let why = format!("{SOCKET} is not set: only apps that Rudy starts can purge its cache");
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
        let mut stream = UnixStream::connect(path).await?;
        let Self { by, soft } = self;
        let request = format!("{{\"command\":\"cache_purge\",\"by\":[{by}],\"soft\":{soft}}}\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        BufReader::new(stream).take(RESPONSE_BYTES_MAX).read_line(&mut response).await?;
        match response.trim_end() {
            "\"cache_purged\"" => Ok(()),
            "" => Err(io::ErrorKind::UnexpectedEof.into()),
            why => Err(io::Error::other(format!("the server did not purge its cache: {why}"))),
        }
    }
}

impl IntoFuture for Purge {
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { timeout(TIMEOUT, self.send()).await? })
    }
}

/// Writes a string in JSON (RFC 8259 §7).
fn quoted(text: &str) -> String {
    let quoted = text.chars().fold("\"".to_owned(), |mut quoted, character| {
        // Writing to a string does not fail.
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\0'..' ' => write!(quoted, "\\u{:04x}", u32::from(character)),
            _ => write!(quoted, "{character}"),
        };
        quoted
    });
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n\u{7f}ä"), "\"a\\\"b\\\\c\\u000a\u{7f}ä\"");
        assert_eq!(tag("a").url("b").soft().by, r#"{"tag":"a"},{"url":"b"}"#);
    }
}
