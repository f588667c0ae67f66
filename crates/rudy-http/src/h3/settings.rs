//! The settings of a connection (RFC 9114 §7.2.4).

use bytes::BytesMut;

use super::core::{BLOCKED_STREAMS, TABLE_BYTES};
use super::frame::{kind, put_head};
use super::{ConnectionError, ErrorCode, varint};

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;

/// Whether settings with an id are those of HTTP/2, which are errors (§7.2.4.1).
fn is_of_http2(id: u64) -> bool {
    matches!(id, 0x2..=0x5)
}

/// What this side uses of the settings of the peer: nothing else, because it sends no datagrams, and fields without a dynamic table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// Whether the peer is a server that accepts requests for tunnels (RFC 9220 §3).
    pub(super) accepts_tunnels: bool,
}

/// Reads a SETTINGS frame. Unknown parameters are ignored.
pub(super) fn read_settings(mut payload: &[u8]) -> Result<PeerSettings, ConnectionError> {
    let mut settings = PeerSettings::default();
    let error = |reason| ConnectionError::new(ErrorCode::SETTINGS_ERROR, reason);
    while !payload.is_empty() {
        let (Some(id), Some(value)) = (varint::take(&mut payload), varint::take(&mut payload)) else {
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "SETTINGS ends within a parameter"));
        };
        match id {
            _ if is_of_http2(id) => return Err(error("a setting of HTTP/2")),
            ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(error("a setting is neither 0 nor 1")),
            ENABLE_CONNECT_PROTOCOL => settings.accepts_tunnels = value == 1,
            _ => {}
        }
    }
    Ok(settings)
}

/// What this side sends in its SETTINGS. The rest are the limits of the dynamic table (RFC 9204 §5).
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnSettings {
    /// The maximum size of a decoded field section, where each field counts 32 bytes more.
    pub(super) field_section_bytes: u64,
    /// Whether this side is a server that accepts requests for tunnels (RFC 9220 §3).
    pub(super) accepts_tunnels: bool,
}

impl OwnSettings {
    pub(super) fn encode(self, out: &mut BytesMut) {
        let parameters = [
            Some((QPACK_MAX_TABLE_CAPACITY, TABLE_BYTES.into())),
            Some((QPACK_BLOCKED_STREAMS, BLOCKED_STREAMS.into())),
            Some((MAX_FIELD_SECTION_SIZE, self.field_section_bytes.min(varint::MAX))),
            self.accepts_tunnels.then_some((ENABLE_CONNECT_PROTOCOL, 1)),
        ];
        let mut payload = BytesMut::new();
        for (id, value) in parameters.into_iter().flatten() {
            varint::put(id, &mut payload);
            varint::put(value, &mut payload);
        }
        put_head(kind::SETTINGS, payload.len() as u64, out);
        out.extend_from_slice(&payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_limits_and_tunnels() {
        for (accepts_tunnels, expected) in [
            (false, &[4, 10, 1, 0x50, 0, 7, 16, 6, 0x80, 0, 0x40, 0][..]),
            (true, &[4, 12, 1, 0x50, 0, 7, 16, 6, 0x80, 0, 0x40, 0, 8, 1]),
        ] {
            let mut out = BytesMut::new();
            OwnSettings { field_section_bytes: 16_384, accepts_tunnels }.encode(&mut out);
            assert_eq!(out, expected);
            assert_eq!(read_settings(&out[2..]), Ok(PeerSettings { accepts_tunnels }));
        }
    }

    #[test]
    fn invalid_settings_are_errors() {
        for (payload, code) in [
            (&[2, 0][..], Some(ErrorCode::SETTINGS_ERROR)),
            (&[5, 0], Some(ErrorCode::SETTINGS_ERROR)),
            (&[8, 2], Some(ErrorCode::SETTINGS_ERROR)),
            (&[8], Some(ErrorCode::FRAME_ERROR)),
            (&[8, 0x40], Some(ErrorCode::FRAME_ERROR)),
            (&[0x40], Some(ErrorCode::FRAME_ERROR)),
            (&[], None),
            // The tables of QPACK, datagrams, and a reserved one.
            (&[1, 0x50, 0, 7, 16, 0x33, 1, 0x21, 9], None),
        ] {
            assert_eq!(read_settings(payload).err().map(|error| error.code), code, "{payload:?}");
        }
    }
}
