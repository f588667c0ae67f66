//! The states of a TCP connection.

use std::fmt;

/// A state of a TCP connection (RFC 9293, section 3.3.2), in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Listening.
    Listen,
    /// Connecting: the SYN was sent.
    SynSent,
    /// A SYN was received and acknowledged.
    SynReceived,
    /// Open.
    Established,
    /// The peer has closed, this side has not. A leak if it stays.
    CloseWait,
    /// Both have closed, the peer first; the last acknowledgement is missing.
    LastAck,
    /// This side has closed; the acknowledgement is missing.
    FinWait1,
    /// This side has closed, the peer has not.
    FinWait2,
    /// Both have closed at once; the last acknowledgement is missing.
    Closing,
    /// Both have closed, this side first. The kernel holds it for a minute for late packets.
    TimeWait,
    /// Not connected.
    Closed,
}

impl State {
    /// Converts the number in `/proc/net/tcp` (`include/net/tcp_states.h`).
    pub(super) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // 12 is an incomplete handshake, which has no socket yet (`TCP_NEW_SYN_RECV`).
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            _ => return None,
        })
    }

    /// Whether the peer's FIN was received. Until it is read, the kernel counts it as an unread byte, because
    /// it has a sequence number.
    pub(super) fn has_fin_of_peer(self) -> bool {
        matches!(self, Self::CloseWait | Self::LastAck | Self::Closing | Self::TimeWait)
    }

    /// Whether the local SYN or FIN is not acknowledged, which the kernel counts as an unsent byte in the
    /// same way.
    pub(super) fn has_own_mark(self) -> bool {
        matches!(self, Self::SynSent | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// The notation of `netstat` and `lsof`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::FinWait1 => "FIN_WAIT1",
            Self::FinWait2 => "FIN_WAIT2",
            Self::Closing => "CLOSING",
            Self::TimeWait => "TIME_WAIT",
            Self::Closed => "CLOSED",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
