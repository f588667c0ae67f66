//! The request on the wire: its head.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, HeaderMap};
use http::{Method, Version};

use super::Asked;
use crate::h1::BodyLength;
use crate::h1::encode::{put_content_length, put_field};
use crate::h1::fields::list;
use crate::h1::host::split_authority;
use crate::h1::target::parse_target;

/// The head of a request, which has not been encoded yet.
///
/// Content-Length and Transfer-Encoding are written by [`Self::encode`], because only it knows that they are right.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Any token.
    pub method: &'a Method,
    /// In the form that goes with the method: a path, `*`, a whole URI for a proxy, or an authority for CONNECT
    /// (RFC 9112 §3.2).
    pub target: &'a str,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// With Host, which goes first. HTTP/1.0 can do without.
    pub fields: &'a HeaderMap,
    /// How long the body is that follows.
    pub body: BodyLength,
}

impl RequestHead<'_> {
    /// Appends the head.
    ///
    /// # Errors
    ///
    /// No server could read it, or two would read it differently. Nothing is appended then.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), RequestError> {
        self.check()?;
        out.put_slice(self.method.as_str().as_bytes());
        out.put_u8(b' ');
        out.put_slice(self.target.as_bytes());
        out.put_slice(if self.version == Version::HTTP_10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        // RFC 9112 §3.2: a good practice, because it says for whom the rest is.
        if let Some(host) = self.fields.get(header::HOST) {
            put_field("host", host.as_bytes(), out);
        }
        for (name, value) in self.fields {
            if ![header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name) {
                put_field(name.as_str(), value.as_bytes(), out);
            }
        }
        match self.body {
            BodyLength::Chunked => put_field("transfer-encoding", b"chunked", out),
            BodyLength::Known(0) if !self.expects_content() => {}
            BodyLength::Known(length) => put_content_length(length, out),
        }
        out.put_slice(b"\r\n");
        Ok(())
    }

    /// How the answer to it is to be read.
    #[must_use]
    pub fn asked(&self) -> Asked {
        let has_option = |option: &str| {
            list(self.fields, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(option.as_bytes()))
        };
        let is_last = has_option("close") || (self.version == Version::HTTP_10 && !has_option("keep-alive"));
        Asked {
            is_head: self.method == Method::HEAD,
            is_connect: self.method == Method::CONNECT,
            offers_upgrade: self.fields.contains_key(header::UPGRADE),
            is_last,
        }
    }

    fn check(&self) -> Result<(), RequestError> {
        if !matches!(self.version, Version::HTTP_10 | Version::HTTP_11) {
            return Err(RequestError::UnsupportedVersion(self.version));
        }
        // The parser takes bytes beyond ASCII, which a URI has none of (RFC 3986 §2).
        let target = Bytes::copy_from_slice(self.target.as_bytes());
        if !self.target.is_ascii() || parse_target(target, self.method).is_none() {
            return Err(RequestError::BadTarget(self.target.to_owned()));
        }
        self.check_host()?;
        self.check_framing()
    }

    /// RFC 9112 §3.2: exactly one Host on HTTP/1.1, never two, always a valid one.
    fn check_host(&self) -> Result<(), RequestError> {
        let mut hosts = self.fields.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if self.version == Version::HTTP_11 => Err(RequestError::MissingHost),
            (Some(_), Some(_)) => Err(RequestError::RepeatedHost),
            (Some(host), None) if split_authority(host.as_bytes()).is_none() => {
                Err(RequestError::BadHost(String::from_utf8_lossy(host.as_bytes()).into_owned()))
            }
            _ => Ok(()),
        }
    }

    /// What the fields say of the body's length is what will be written, or nothing.
    fn check_framing(&self) -> Result<(), RequestError> {
        if self.version == Version::HTTP_10 && self.body == BodyLength::Chunked {
            return Err(RequestError::ChunkedInHttp10);
        }
        let is_length = |value: &[u8]| matches!(self.body, BodyLength::Known(length) if length.to_string().as_bytes() == value);
        let lengths_agree =
            self.fields.get_all(header::CONTENT_LENGTH).iter().all(|value| is_length(value.as_bytes()));
        let mut codings = self.fields.get_all(header::TRANSFER_ENCODING).iter();
        let codings_agree = codings.all(|value| {
            self.body == BodyLength::Chunked && value.as_bytes().eq_ignore_ascii_case(b"chunked")
        });
        if lengths_agree && codings_agree { Ok(()) } else { Err(RequestError::ConflictingLength(self.body)) }
    }

    /// Whether a server may expect content where nothing is said of it (RFC 9110 §8.6).
    fn expects_content(&self) -> bool {
        [Method::POST, Method::PUT, Method::PATCH].contains(self.method)
    }
}

/// Why a request is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// A Host that is not `uri-host [ ":" port ]` (RFC 9112 §3.2).
    BadHost(String),
    /// A target in another form than goes with the method (RFC 9112 §3.2).
    BadTarget(String),
    /// A chunked body with HTTP/1.0, which does not know it (RFC 9112 §6.1).
    ChunkedInHttp10,
    /// A Content-Length or Transfer-Encoding among the fields that says something else of the body than this.
    ConflictingLength(BodyLength),
    /// No Host with HTTP/1.1 (RFC 9112 §3.2).
    MissingHost,
    /// More than one Host (RFC 9112 §3.2).
    RepeatedHost,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    UnsupportedVersion(Version),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHost(host) => write!(f, "Host is {host:?}, not a name or address with an optional port"),
            Self::BadTarget(target) => write!(
                f,
                "the request target is {target:?}, not a path, a whole URI, or what else the method takes; percent-encode what a URI may not hold"
            ),
            Self::ChunkedInHttp10 => {
                f.write_str("HTTP/1.0 knows no chunks: the length of the body has to be known")
            }
            Self::ConflictingLength(BodyLength::Known(length)) => write!(
                f,
                "the body is {length} bytes long, and Content-Length or Transfer-Encoding says otherwise: leave it out"
            ),
            Self::ConflictingLength(BodyLength::Chunked) => f.write_str(
                "the body is sent in chunks, and Content-Length or Transfer-Encoding says otherwise: leave it out",
            ),
            Self::MissingHost => f.write_str("Host is missing"),
            Self::RepeatedHost => f.write_str("Host is given more than once"),
            Self::UnsupportedVersion(version) => {
                write!(f, "the version is {version:?}; requests are sent as HTTP/1.0 or HTTP/1.1")
            }
        }
    }
}

impl std::error::Error for RequestError {}
