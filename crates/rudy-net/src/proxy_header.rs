//! Parses headers of the PROXY protocol, versions 1 and 2, and encodes those of version 2, without I/O. Section numbers refer to
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Maximum length of a version 1 header with its CRLF (§2.1).
const V1_BYTES_MAX: usize = 107;
/// Minimum length: `PROXY UNKNOWN` and CRLF.
const V1_BYTES_MIN: usize = 15;
/// Maximum length of an accepted version 2 header with its additional fields (TLVs). nginx has the same
/// limit. The addresses occupy 52 bytes. Certificates would need more space, but no known field carries them.
const V2_BYTES_MAX: usize = 4096;
/// `PROXY`, the protocol, two addresses, two ports.
const V1_PARTS: usize = 6;
/// The signature at the start of a version 2 header (§2.2).
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the version and command, the family and protocol, the length.
const V2_FIXED_BYTES: usize = 16;

/// The progress of parsing a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseStatus {
    /// At least this many bytes are missing. A caller that reads no more than this never reads past the end of
    /// the header.
    Incomplete(usize),
    /// The header is complete.
    Complete(ProxiedClient),
}

/// The client for which a proxy has opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxiedClient {
    /// The client at this address. IPv4 addresses are never mapped to IPv6.
    Address(SocketAddr),
    /// A client whose address is not forwarded.
    Unknown,
    /// The proxy itself (`LOCAL`), for a health check.
    ProxyItself,
}

/// The reason why bytes are not a PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The bytes do not start like a header.
    #[error("the connection does not start with a PROXY protocol header")]
    NotAHeader,
    /// The header is longer than the limit.
    #[error(
        "the PROXY protocol header is too long (version 1: at most {V1_BYTES_MAX} bytes, version 2: {V2_BYTES_MAX})"
    )]
    TooLong,
    /// The header is malformed.
    #[error("the PROXY protocol header is malformed")]
    Malformed,
}

/// Parses the bytes of a header that have arrived; each call receives all of them. Detects an error at the
/// first wrong byte.
///
/// # Errors
///
/// The bytes cannot be the start of a header. The error may depend on how many bytes have arrived.
pub fn parse(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    if bytes.starts_with(&V2_SIGNATURE[..1]) { parse_v2(bytes) } else { parse_v1(bytes) }
}

fn parse_v1(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    expect_prefix(bytes, b"PROXY ")?;
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return missing_in_v1(bytes);
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

/// Returns the minimum that an incomplete line needs: a space and a character for each missing part, and
/// CRLF.
fn missing_in_v1(line: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
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

/// Parses a line without its CRLF. Exactly one space separates the parts (§2.1).
fn parse_v1_line(line: &str) -> Option<ProxiedClient> {
    let parts = line.strip_prefix("PROXY ")?;
    // The rest of an UNKNOWN line is ignored (§2.1).
    if parts == "UNKNOWN" || parts.starts_with("UNKNOWN ") {
        return Some(ProxiedClient::Unknown);
    }
    let mut parts = parts.split(' ');
    let parse_address = match parts.next()? {
        "TCP4" => parse_ip::<Ipv4Addr>,
        "TCP6" => parse_ip::<Ipv6Addr>,
        _ => return None,
    };
    let (source, _destination) = (parse_address(parts.next()?)?, parse_address(parts.next()?)?);
    let (source_port, _destination_port) = (parse_port(parts.next()?)?, parse_port(parts.next()?)?);
    parts.next().is_none().then(|| client(source, source_port))
}

fn parse_ip<A: FromStr + Into<IpAddr>>(text: &str) -> Option<IpAddr> {
    Some(text.parse::<A>().ok()?.into())
}

fn parse_port(text: &str) -> Option<u16> {
    // `parse` would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn client(address: IpAddr, port: u16) -> ProxiedClient {
    ProxiedClient::Address(SocketAddr::new(address.to_canonical(), port))
}

fn parse_v2(bytes: &[u8]) -> Result<ParseStatus, ProxyHeaderError> {
    expect_prefix(bytes, V2_SIGNATURE)?;
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
        // The caller passed more bytes than requested.
        None => return Err(ProxyHeaderError::Malformed),
    }
    match version_and_command {
        0x20 => Ok(ParseStatus::Complete(ProxiedClient::ProxyItself)),
        0x21 => v2_client(family, rest).map(ParseStatus::Complete).ok_or(ProxyHeaderError::Malformed),
        _ => Err(ProxyHeaderError::Malformed),
    }
}

/// Parses the address block (§2.2): source and destination address, then the ports. Ignores the additional fields
/// after it.
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
        // An unspecified family or protocol, datagrams, and Unix sockets on the proxy's machine. Other values
        // MUST be rejected.
        0x00..=0x02 | 0x10 | 0x12 | 0x20 | 0x22 | 0x30..=0x32 => Some(ProxiedClient::Unknown),
        _ => None,
    }
}

fn expect_prefix(bytes: &[u8], prefix: &[u8]) -> Result<(), ProxyHeaderError> {
    let length = bytes.len().min(prefix.len());
    if bytes[..length] == prefix[..length] { Ok(()) } else { Err(ProxyHeaderError::NotAHeader) }
}

/// Encodes a version 2 header (§2.2) for a connection on behalf of a client, which has connected to `destination`, if known.
#[must_use]
pub fn encode(client: ProxiedClient, destination: Option<SocketAddr>) -> Vec<u8> {
    let (command, family, addresses) = match client {
        ProxiedClient::ProxyItself => (0x20, 0x00, Vec::new()),
        ProxiedClient::Unknown => (0x21, 0x00, Vec::new()),
        ProxiedClient::Address(source) => {
            let (family, addresses) = address_block(source, destination);
            (0x21, family, addresses)
        }
    };
    // Two addresses of IPv6 and two ports have 36 bytes.
    let length = u8::try_from(addresses.len()).unwrap_or_default();
    [V2_SIGNATURE, &[command, family, 0, length], &addresses].concat()
}

/// Returns the family and the address block. Addresses of different families are all written as IPv6.
fn address_block(source: SocketAddr, destination: Option<SocketAddr>) -> (u8, Vec<u8>) {
    let unknown = || SocketAddr::new(IpAddr::from(Ipv4Addr::UNSPECIFIED), 0);
    let destination = destination.unwrap_or_else(unknown);
    let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [&from.octets(), &to.octets(), &ports[..]].concat()),
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            (0x21, [&octets(from), &octets(to), &ports[..]].concat())
        }
    }
}

#[cfg(test)]
mod tests;
