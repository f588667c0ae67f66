//! The settings of a connection (RFC 9113 §6.5).

use bytes::{BufMut, BytesMut};

use super::frame::{flag, kind, put_head};
use super::window::WINDOW_BYTES_MAX;
use super::{ConnectionError, ErrorCode};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// What the settings of the peer change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// The window of a new stream.
    pub(super) initial_window: u32,
    /// The size of the table that the peer decodes header blocks with.
    pub(super) header_table_bytes: u32,
    /// The smallest size so far of that table.
    pub(super) header_table_bytes_min: u32,
    /// The maximum number of streams that this side may have open.
    pub(super) concurrent_streams: u32,
    /// Whether this side may send extended CONNECT requests (RFC 8441).
    pub(super) extended_connect: bool,
    /// Whether the peer accepts pushed responses, which a server must not say (§6.5.2).
    pub(super) has_enabled_push: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            initial_window: 65_535,
            header_table_bytes: 4096,
            header_table_bytes_min: 4096,
            concurrent_streams: u32::MAX,
            extended_connect: false,
            has_enabled_push: false,
        }
    }
}

impl PeerSettings {
    /// Applies the parameters of a SETTINGS frame. Unknown ones are ignored (§6.5.2).
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        for parameter in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([parameter[0], parameter[1]]);
            let value = u32::from_be_bytes([parameter[2], parameter[3], parameter[4], parameter[5]]);
            match id {
                HEADER_TABLE_SIZE => {
                    self.header_table_bytes = value;
                    self.header_table_bytes_min = self.header_table_bytes_min.min(value);
                }
                MAX_CONCURRENT_STREAMS => self.concurrent_streams = value,
                INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => {
                    let reason = "SETTINGS_INITIAL_WINDOW_SIZE is too large";
                    return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, reason));
                }
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL if value > 1 => {
                    return Err(ConnectionError::protocol("a setting is neither 0 nor 1"));
                }
                ENABLE_PUSH => self.has_enabled_push = value == 1,
                ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
                MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                    return Err(ConnectionError::protocol("SETTINGS_MAX_FRAME_SIZE is out of range"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What this side sends in its SETTINGS. The rest are the defaults of RFC 9113 §6.5.2.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnSettings {
    /// The maximum number of streams that the peer may have open.
    pub(super) concurrent_streams: u32,
    /// The maximum size of a decoded header block, where each field counts 32 bytes more.
    pub(super) header_list_bytes: u32,
    /// The window of a new stream.
    pub(super) initial_window: u32,
    /// Whether this side is a server that accepts requests for tunnels (RFC 8441 §3).
    pub(super) accepts_tunnels: bool,
    /// Whether this side is a client, which accepts no pushed responses.
    pub(super) is_client: bool,
}

impl OwnSettings {
    pub(super) fn encode(self, out: &mut BytesMut) {
        let parameters = [
            self.is_client.then_some((ENABLE_PUSH, 0)),
            (!self.is_client).then_some((MAX_CONCURRENT_STREAMS, self.concurrent_streams)),
            (self.initial_window != 65_535).then_some((INITIAL_WINDOW_SIZE, self.initial_window)),
            Some((MAX_HEADER_LIST_SIZE, self.header_list_bytes)),
            self.accepts_tunnels.then_some((ENABLE_CONNECT_PROTOCOL, 1)),
            // The priorities of RFC 7540 are ignored, as RFC 9218 §2.1 wants.
            (!self.is_client).then_some((NO_RFC7540_PRIORITIES, 1)),
        ];
        let count = parameters.iter().flatten().count();
        put_head(kind::SETTINGS, 0, 0, 6 * count, out);
        for (id, value) in parameters.into_iter().flatten() {
            out.put_u16(id);
            out.put_u32(value);
        }
    }
}

pub(super) fn put_settings_ack(out: &mut BytesMut) {
    put_head(kind::SETTINGS, flag::ACK, 0, 0, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(parameters: &[(u16, u32)]) -> Result<PeerSettings, ConnectionError> {
        let mut payload = Vec::new();
        for (id, value) in parameters {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut settings = PeerSettings::default();
        settings.apply(&payload).map(|()| settings)
    }

    #[test]
    fn the_last_value_of_a_parameter_counts_and_unknown_ones_are_ignored() {
        let settings =
            apply(&[(4, 1), (0xabcd, 7), (4, 0x7fff_ffff), (1, 0), (1, 9), (3, 9), (8, 1)]).unwrap();
        assert_eq!((settings.initial_window, settings.header_table_bytes_min), (0x7fff_ffff, 0));
        assert_eq!((settings.concurrent_streams, settings.extended_connect), (9, true));
    }

    #[test]
    fn values_out_of_range_are_errors() {
        for (parameter, code) in [
            ((2, 2), ErrorCode::PROTOCOL_ERROR),
            ((4, 0x8000_0000), ErrorCode::FLOW_CONTROL_ERROR),
            ((5, 16_383), ErrorCode::PROTOCOL_ERROR),
            ((5, 16_777_216), ErrorCode::PROTOCOL_ERROR),
            ((8, 2), ErrorCode::PROTOCOL_ERROR),
        ] {
            assert_eq!(apply(&[parameter]).unwrap_err().code, code, "{parameter:?}");
        }
        assert!(apply(&[(2, 0), (2, 1), (5, 16_384), (5, 16_777_215)]).is_ok());
    }

    #[test]
    fn a_server_and_a_client_send_only_their_own_parameters() {
        let own = OwnSettings {
            concurrent_streams: 100,
            header_list_bytes: 16_384,
            initial_window: 65_535,
            accepts_tunnels: false,
            is_client: false,
        };
        let mut out = BytesMut::new();
        own.encode(&mut out);
        assert_eq!(
            out[..],
            [0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100, 0, 6, 0, 0, 64, 0, 0, 9, 0, 0, 0, 1]
        );
        out.clear();
        OwnSettings { accepts_tunnels: true, ..own }.encode(&mut out);
        assert_eq!((out[2], &out[21..]), (24, &[0, 8, 0, 0, 0, 1, 0, 9, 0, 0, 0, 1][..]));
        out.clear();
        OwnSettings { is_client: true, initial_window: 1 << 20, ..own }.encode(&mut out);
        assert_eq!(
            out[..],
            [0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0, 16, 0, 0, 0, 6, 0, 0, 64, 0]
        );
    }
}
