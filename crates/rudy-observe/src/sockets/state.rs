//! The states of a TCP connection.

use std::fmt;

/// A state of a TCP connection (RFC 9293, section 3.3.2), in the order in which a connection goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waits for connections.
    Listen,
    /// Has asked for a connection.
    SynSent,
    /// Was asked for a connection, and has said yes.
    SynReceived,
    /// Open.
    Established,
    /// The peer has closed, and this side has not: where it stays, the program has forgotten it.
    CloseWait,
    /// Both have closed, the peer first: its last acknowledgement is missing.
    LastAck,
    /// This side has closed: the acknowledgement of that is missing.
    FinWait1,
    /// This side has closed, and the peer has not.
    FinWait2,
    /// Both have closed at once: the last acknowledgement is missing.
    Closing,
    /// Both have closed, this side first: kept for a minute for what may still be on its way.
    TimeWait,
    /// Neither open nor opening.
    Closed,
}

impl State {
    /// From the number that the kernel has in `/proc/net/tcp` (`include/net/tcp_states.h`).
    pub(super) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // 12 is one whose handshake is not done, which has no socket yet (`TCP_NEW_SYN_RECV`).
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

    /// Whether the peer's FIN has come. It has a sequence number, so until the end is read the kernel counts it as a byte
    /// to read, behind all others.
    pub(super) fn has_fin_of_peer(self) -> bool {
        matches!(self, Self::CloseWait | Self::LastAck | Self::Closing | Self::TimeWait)
    }

    /// Whether its own SYN or FIN is not acknowledged, which the kernel counts as a byte to send in the same way.
    pub(super) fn has_own_mark(self) -> bool {
        matches!(self, Self::SynSent | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// As `netstat` and `lsof` write it.
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
