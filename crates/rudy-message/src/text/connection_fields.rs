//! The fields of a head that affect the connection and the length of the body, for both roles.

use crate::syntax::{members, parse_digits};

/// The recorded values of Connection, Transfer-Encoding and Content-Length.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionFields {
    /// The Transfer-Encoding.
    pub coding: Coding,
    /// The Content-Length.
    pub length: Length,
    closes: bool,
    keeps_alive: bool,
}

/// The Transfer-Encoding of a head (RFC 9112 §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coding {
    /// No such field.
    #[default]
    Absent,
    /// The field is present without members.
    Empty,
    /// A single chunked.
    Chunked,
    /// Other codings only.
    Others,
    /// Other codings, then a single chunked.
    OthersThenChunked,
    /// Chunked that is not the last coding.
    Misplaced,
}

/// The Content-Length of a head (RFC 9110 §8.6).
#[derive(Debug, Clone, Copy, Default)]
pub enum Length {
    /// No such field.
    #[default]
    Absent,
    /// One line with a number.
    Once(u64),
    /// A value that is not a number.
    Bad,
    /// Several field lines. RFC 9110 allows equal ones, but they indicate a broken sender.
    Repeated,
}

impl ConnectionFields {
    /// Records a line of Connection.
    pub fn record_connection(&mut self, value: &[u8]) {
        // That of nearly all peers.
        if value.eq_ignore_ascii_case(b"keep-alive") {
            self.keeps_alive = true;
            return;
        }
        for option in members(value) {
            self.closes |= option.eq_ignore_ascii_case(b"close");
            self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Records a line of Content-Length.
    pub fn record_length(&mut self, value: &[u8]) {
        self.length = match (self.length, parse_digits(value)) {
            (Length::Absent, Some(length)) => Length::Once(length),
            (Length::Absent, None) => Length::Bad,
            _ => Length::Repeated,
        };
    }

    /// Records a line of Transfer-Encoding.
    pub fn record_codings(&mut self, value: &[u8]) {
        if self.coding == Coding::Absent {
            self.coding = Coding::Empty;
        }
        for coding in members(value) {
            self.coding = match (self.coding, coding.eq_ignore_ascii_case(b"chunked")) {
                (Coding::Absent | Coding::Empty, true) => Coding::Chunked,
                (Coding::Absent | Coding::Empty | Coding::Others, false) => Coding::Others,
                (Coding::Others, true) => Coding::OthersThenChunked,
                (Coding::Chunked | Coding::OthersThenChunked | Coding::Misplaced, _) => Coding::Misplaced,
            };
        }
    }

    /// Whether the peer keeps the connection open after this message (RFC 9112 §9.3).
    #[must_use]
    #[inline]
    pub fn keep_alive(&self, is_http10: bool) -> bool {
        !self.closes && (!is_http10 || self.keeps_alive)
    }
}
