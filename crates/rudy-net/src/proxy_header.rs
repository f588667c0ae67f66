//! The header of the PROXY protocol, versions 1 and 2, as pure code:
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>. The section numbers are those of that text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest header of version 1, its CRLF included (§2.1).
const V1_BYTES_MAX: usize = 107;
/// The shortest: `PROXY UNKNOWN` and CRLF.
const V1_BYTES_MIN: usize = 15;
/// The longest header of version 2 that is accepted, its additional fields (TLVs) included. As many as nginx accepts; the addresses take
/// 52, and certificates, which would take more, are not passed on in any known field.
const V2_BYTES_MAX: usize = 4096;
/// `PROXY`, the protocol, two addresses, two ports.
const V1_PARTS: usize = 6;
/// What a header of version 2 begins with (§2.2).
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the version and command, the family and protocol, the length.
const V2_FIXED_BYTES: usize = 16;

/// How far a header has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseStatus {
    /// At least this number of further bytes belongs to the header. A reader that reads no more reads nothing behind the header.
    Incomplete(usize),
    /// It is whole.
    Complete(ProxiedClient),
}

/// The client for which a proxy has opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxiedClient {
    /// For the client at this address, IPv4 as such even if it was mapped to IPv6.
    Address(SocketAddr),
    /// For a client whose address is not passed on.
    Unknown,
    /// For itself (`LOCAL`): a health check.
    ProxyItself,
}

/// Why bytes are no header of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// They do not begin as one.
    NotAHeader,
    /// It is longer than is accepted.
    TooLong,
    /// It is malformed.
    Malformed,
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAHeader => f.write_str("the connection does not begin with a PROXY protocol header"),
            Self::TooLong => write!(
                f,
                "the PROXY protocol header is too long (version 1: at most {V1_BYTES_MAX} bytes, version 2: {V2_BYTES_MAX})"
            ),
            Self::Malformed => f.write_str("the PROXY protocol header is malformed"),
        }
    }
}

/// Reads what has come of a header, of which all bytes are given each time. What cannot become a header is found with its first
/// wrong byte.
///
/// # Errors
///
/// The bytes are no header, whatever follows them. Which error it is may depend on how many bytes are there.
pub fn parse(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    if bytes.starts_with(&V2_SIGNATURE[..1]) { parse_v2(bytes) } else { parse_v1(bytes) }
}

fn parse_v1(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    starts_with(bytes, b"PROXY ")?;
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return missing_of_v1(bytes);
    };
    match bytes[end..] {
        [b'\r', b'\n'] if bytes.len() <= V1_BYTES_MAX => {
            let line = std::str::from_utf8(&bytes[..end]).map_err(|_| ProxyHeaderError::Malformed)?;
            parse_v1_line(line).map(ParseStatus::Complete).ok_or(ProxyHeaderError::Malformed)
        }
        [b'\r'] if bytes.len() < V1_BYTES_MAX => Ok(ParseStatus::Incomplete(1)),
        [b'\r'] | [b'\r', b'\n'] => Err(ProxyHeaderError::TooLong),
        _ => Err(ProxyHeaderError::Malformed),
    }
}

/// What a line without its end needs at least: a space and a character for each part that is missing, and CRLF.
fn missing_of_v1(line: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    let is_unknown = line.starts_with(b"PROXY UNKNOWN");
    let parts = line.split(|byte| *byte == b' ').count();
    if !is_unknown && parts > V1_PARTS {
        return Err(ProxyHeaderError::Malformed);
    }
    let parts = if is_unknown { 0 } else { 2 * (V1_PARTS - parts) };
    let needs = if line.len() < V1_BYTES_MIN { V1_BYTES_MIN - line.len() } else { parts + 2 };
    if line.len() + needs > V1_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    Ok(ParseStatus::Incomplete(needs))
}

/// §2.1: one space between the parts, and nothing else.
fn parse_v1_line(line: &str) -> Option<ProxiedClient> {
    let parts = line.strip_prefix("PROXY ")?;
    // The specification (§2.1) has the rest of an UNKNOWN line ignored.
    if parts == "UNKNOWN" || parts.starts_with("UNKNOWN ") {
        return Some(ProxiedClient::Unknown);
    }
    let mut parts = parts.split(' ');
    let read = match parts.next()? {
        "TCP4" => ip::<Ipv4Addr>,
        "TCP6" => ip::<Ipv6Addr>,
        _ => return None,
    };
    let (source, _destination) = (read(parts.next()?)?, read(parts.next()?)?);
    let (source_port, _destination_port) = (port(parts.next()?)?, port(parts.next()?)?);
    parts.next().is_none().then(|| client(source, source_port))
}

fn ip<A: FromStr + Into<IpAddr>>(text: &str) -> Option<IpAddr> {
    Some(text.parse::<A>().ok()?.into())
}

fn port(text: &str) -> Option<u16> {
    // A sign is no digit.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn client(address: IpAddr, port: u16) -> ProxiedClient {
    ProxiedClient::Address(SocketAddr::new(address.to_canonical(), port))
}

fn parse_v2(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    starts_with(bytes, V2_SIGNATURE)?;
    let &[version_and_command, family, length_high, length_low, ref rest @ ..] =
        bytes.get(V2_SIGNATURE.len()..).unwrap_or_default()
    else {
        return Ok(ParseStatus::Incomplete(V2_FIXED_BYTES - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    if V2_FIXED_BYTES + length > V2_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    match length.checked_sub(rest.len()) {
        Some(0) => {}
        Some(missing) => return Ok(ParseStatus::Incomplete(missing)),
        // More than was asked for.
        None => return Err(ProxyHeaderError::Malformed),
    }
    match version_and_command {
        0x20 => Ok(ParseStatus::Complete(ProxiedClient::ProxyItself)),
        0x21 => v2_client(family, rest).map(ParseStatus::Complete).ok_or(ProxyHeaderError::Malformed),
        _ => Err(ProxyHeaderError::Malformed),
    }
}

/// §2.2: the addresses come first, source and destination, then the ports; then the additional fields, which nothing here needs.
fn v2_client(family: u8, rest: &[u8]) -> Option<ProxiedClient> {
    match family {
        0x11 => {
            let (source, rest) = rest.split_first_chunk::<4>()?;
            let (port, _) = rest.get(4..)?.split_first_chunk::<4>()?;
            Some(client(Ipv4Addr::from(*source).into(), u16::from_be_bytes([port[0], port[1]])))
        }
        0x21 => {
            let (source, rest) = rest.split_first_chunk::<16>()?;
            let (port, _) = rest.get(16..)?.split_first_chunk::<4>()?;
            Some(client(Ipv6Addr::from(*source).into(), u16::from_be_bytes([port[0], port[1]])))
        }
        // No family or protocol, datagrams, and Unix sockets of the proxy's machine. Other values MUST be refused.
        0x00..=0x02 | 0x10 | 0x12 | 0x20 | 0x22 | 0x30..=0x32 => Some(ProxiedClient::Unknown),
        _ => None,
    }
}

fn starts_with(bytes: &[u8], beginning: &[u8]) -> Result<(), ProxyHeaderError> {
    let length = bytes.len().min(beginning.len());
    if bytes[..length] == beginning[..length] { Ok(()) } else { Err(ProxyHeaderError::NotAHeader) }
}

#[cfg(test)]
mod tests;
