//! One look at the fields of a head: each is checked, and what decides about the request is noted.

use std::ops::Range;

use http::Version;

use super::Rejection;
use crate::Limits;
use crate::h1::BodyLength;
use crate::h1::connection_fields::{Coding, ConnectionFields, Length};
use crate::h1::fields::read_field;
use crate::h1::host::split_authority;
use crate::h1::malformed::Malformed;
use crate::semantics::field::KnownField;
use crate::syntax::members;

/// More fields than this are refused whatever the limit: a [`http::HeaderMap`] of more may be unable to grow.
const FIELDS_MAX: usize = 6000;

/// What the fields of a head say.
#[derive(Debug, Default)]
pub(super) struct FieldScan {
    pub(super) places: Places,
    pub(super) connection: ConnectionFields,
    host: Host,
    /// What Expect has: whether it is 100-continue and nothing else.
    expects_continue: Option<bool>,
    malformed: Option<Malformed>,
}

/// Where the known fields are.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Where the value of the first of each begins; 0 if there is none.
    starts: [u32; KnownField::COUNT],
    /// A bit for each.
    repeated: u32,
}

/// The first Host of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Host {
    #[default]
    Missing,
    Bad,
    Empty,
    Named,
}

impl FieldScan {
    /// Looks at `count` lines from `start` on. All lines are known to end in CRLF.
    pub(super) fn of(bytes: &[u8], start: usize, count: usize) -> Self {
        let mut scan = Self::default();
        let mut at = start;
        for length in memchr::memchr_iter(b'\n', &bytes[start..]).take(count) {
            let line_feed = start + length;
            scan.note_line(bytes, at..line_feed - 1);
            at = line_feed + 1;
        }
        scan
    }

    /// Looks at the next line. Of several mistakes the first one counts.
    pub(super) fn note_line(&mut self, bytes: &[u8], line: Range<usize>) {
        let start = line.start;
        match read_field(&bytes[line]) {
            Ok((name, value)) => {
                if let Some(field) = KnownField::of(name) {
                    self.places.note(field, start + name.len() + 1);
                    self.note(field, value);
                }
            }
            Err(malformed) => self.malformed = self.malformed.or(Some(malformed)),
        }
    }

    /// Whether all lines were fields, and no more than can be held.
    pub(super) fn check_lines(&self, count: usize) -> Result<(), Malformed> {
        let too_many = (count > FIELDS_MAX).then_some(Malformed::SectionTooLarge);
        too_many.or(self.malformed).map_or(Ok(()), Err)
    }

    fn note(&mut self, field: KnownField, value: &[u8]) {
        match field {
            KnownField::Connection => self.connection.note_connection(value),
            KnownField::ContentLength => self.connection.note_length(value),
            KnownField::TransferEncoding => self.connection.note_codings(value),
            KnownField::Host => {
                self.host = match split_authority(value) {
                    None => Host::Bad,
                    Some((b"", _)) => Host::Empty,
                    Some(_) => Host::Named,
                }
            }
            KnownField::Expect => {
                for expectation in members(value) {
                    let is_continue = expectation.eq_ignore_ascii_case(b"100-continue");
                    self.expects_continue = Some(is_continue && self.expects_continue != Some(false));
                }
            }
            _ => {}
        }
    }

    /// RFC 9112 §3.2: exactly one Host on HTTP/1.1, never two, always a valid one.
    pub(super) fn check_host(&self, version: Version, needs_host: bool) -> Result<(), Rejection> {
        match self.host {
            _ if self.places.is_repeated(KnownField::Host) => Err(Rejection::RepeatedHost),
            Host::Missing if version == Version::HTTP_11 => Err(Rejection::MissingHost),
            Host::Empty if needs_host => Err(Rejection::BadHost),
            Host::Bad => Err(Rejection::BadHost),
            Host::Missing | Host::Empty | Host::Named => Ok(()),
        }
    }

    /// RFC 9112 §6.3, for requests; §6.1: chunked is the final coding, once, and the only one known here.
    pub(super) fn body_length(&self, version: Version, limits: &Limits) -> Result<BodyLength, Rejection> {
        match (self.connection.coding, self.connection.length) {
            (Coding::Absent, Length::Absent) => Ok(BodyLength::Known(0)),
            (Coding::Absent, Length::Once(length)) if length > limits.body_bytes => {
                Err(Rejection::BodyTooLarge)
            }
            (Coding::Absent, Length::Once(length)) => Ok(BodyLength::Known(length)),
            (Coding::Absent, Length::Bad | Length::Repeated) => Err(Rejection::BadContentLength),
            (_, Length::Once(_) | Length::Bad | Length::Repeated) => Err(Rejection::AmbiguousLength),
            (_, Length::Absent) if version == Version::HTTP_10 => Err(Rejection::BadTransferCoding),
            (Coding::Chunked, Length::Absent) => Ok(BodyLength::Chunked),
            (Coding::OthersThenChunked, Length::Absent) => Err(Rejection::UnsupportedTransferCoding),
            (Coding::Empty | Coding::Others | Coding::Misplaced, Length::Absent) => {
                Err(Rejection::BadTransferCoding)
            }
        }
    }

    /// RFC 9110 §10.1.1; the field means nothing on HTTP/1.0.
    pub(super) fn expects_continue(&self, version: Version) -> Result<bool, Rejection> {
        match self.expects_continue {
            Some(false) if version == Version::HTTP_11 => Err(Rejection::ExpectationFailed),
            expects => Ok(version == Version::HTTP_11 && expects == Some(true)),
        }
    }
}

impl Places {
    fn note(&mut self, field: KnownField, start: usize) {
        let place = &mut self.starts[field as usize];
        if *place == 0 {
            // A head is far smaller than 4 GiB.
            *place = u32::try_from(start).unwrap_or(u32::MAX);
        } else {
            self.repeated |= 1 << field as u32;
        }
    }

    /// Where the first of these fields has its value, with the white space around it.
    pub(super) fn of(&self, field: KnownField, bytes: &[u8]) -> Option<Range<usize>> {
        if !self.has(field) {
            return None;
        }
        let start = self.starts[field as usize] as usize;
        let length = memchr::memchr(b'\n', bytes.get(start..)?)?;
        Some(start..start + length)
    }

    #[inline]
    pub(super) fn has(&self, field: KnownField) -> bool {
        self.starts[field as usize] > 0
    }

    pub(super) fn is_repeated(&self, field: KnownField) -> bool {
        self.repeated & 1 << field as u32 != 0
    }
}
