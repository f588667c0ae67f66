//! Scans the fields of a head once: checks each line and records the fields that affect the connection.

use std::ops::Range;

use http::Version;

use super::connection_fields::{Coding, ConnectionFields, Length};
use super::fields::read_field;
use super::host::split_authority;
use crate::semantics::field::{KnownField, KnownFields, NameStarts};
use crate::syntax::{any_byte, members};
use crate::{BodyLength, Malformed, MessageLimits, Rejection};

/// The maximum number of fields, regardless of the configured limit: a larger [`http::HeaderMap`] may be unable to grow.
const FIELDS_MAX: usize = 6000;

/// The result of scanning the fields of a head.
#[derive(Debug, Default)]
pub(crate) struct FieldScan {
    pub(crate) positions: FieldPositions,
    pub(crate) connection: ConnectionFields,
    host: Host,
    /// Whether Expect has only 100-continue; `None` without Expect.
    expects_continue: Option<bool>,
    malformed: Option<Malformed>,
}

/// The positions of the known fields in a head.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldPositions {
    /// The start of the value of the first line of each field that is present.
    starts: [u32; KnownField::COUNT],
    pub(crate) present: KnownFields,
    /// Those that have several lines.
    repeated: KnownFields,
    pub(crate) name_starts: NameStarts,
    /// Whether a name has other characters than letters, digits and hyphens.
    pub(crate) has_unusual_names: bool,
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
    /// Scans `count` lines from `start` on, which all end in CRLF.
    pub(crate) fn of(bytes: &[u8], start: usize, count: usize) -> Self {
        let mut scan = Self::default();
        let mut at = start;
        for length in memchr::memchr_iter(b'\n', &bytes[start..]).take(count) {
            let line_feed = start + length;
            scan.scan_line(bytes, at..line_feed - 1);
            at = line_feed + 1;
        }
        scan
    }

    /// Scans one line. The first malformed line determines the error.
    pub(crate) fn scan_line(&mut self, bytes: &[u8], line: Range<usize>) {
        let start = line.start;
        match read_field(&bytes[line]) {
            Ok((name, value)) => {
                self.positions.name_starts.insert(name);
                self.positions.has_unusual_names |=
                    any_byte(name, |byte| !byte.is_ascii_alphanumeric() && byte != b'-');
                if let Some(field) = KnownField::of(name) {
                    self.positions.record(field, start + name.len() + 1);
                    self.record(field, value);
                }
            }
            Err(malformed) => self.malformed = self.malformed.or(Some(malformed)),
        }
    }

    /// Checks that all lines are valid fields, and that a map can hold them.
    pub(crate) fn check_lines(&self, count: usize) -> Result<(), Malformed> {
        let too_many = (count > FIELDS_MAX).then_some(Malformed::SectionTooLarge);
        too_many.or(self.malformed).map_or(Ok(()), Err)
    }

    fn record(&mut self, field: KnownField, value: &[u8]) {
        match field {
            KnownField::Connection => self.connection.record_connection(value),
            KnownField::ContentLength => self.connection.record_length(value),
            KnownField::TransferEncoding => self.connection.record_codings(value),
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

    /// Checks Host (RFC 9112 §3.2): exactly one in HTTP/1.1, at most one in HTTP/1.0, and always valid.
    pub(crate) fn check_host(&self, version: Version, needs_host: bool) -> Result<(), Rejection> {
        match self.host {
            _ if self.positions.is_repeated(KnownField::Host) => Err(Rejection::RepeatedHost),
            Host::Missing if version == Version::HTTP_11 => Err(Rejection::MissingHost),
            Host::Empty if needs_host => Err(Rejection::BadHost),
            Host::Bad => Err(Rejection::BadHost),
            Host::Missing | Host::Empty | Host::Named => Ok(()),
        }
    }

    /// Returns the length of the body (RFC 9112 §6.3). Chunked must be the last coding, and is the only one supported (§6.1).
    pub(crate) fn body_length(
        &self,
        version: Version,
        limits: &MessageLimits,
    ) -> Result<BodyLength, Rejection> {
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

    /// Whether the client waits for `100 Continue` (RFC 9110 §10.1.1). Expect has no meaning in HTTP/1.0.
    pub(crate) fn expects_continue(&self, version: Version) -> Result<bool, Rejection> {
        match self.expects_continue {
            Some(false) if version == Version::HTTP_11 => Err(Rejection::ExpectationFailed),
            expects => Ok(version == Version::HTTP_11 && expects == Some(true)),
        }
    }
}

impl FieldPositions {
    fn record(&mut self, field: KnownField, start: usize) {
        if self.present.contains(field) {
            self.repeated.insert(field);
            return;
        }
        self.present.insert(field);
        // A head is far smaller than 4 GiB.
        self.starts[field as usize] = u32::try_from(start).unwrap_or(u32::MAX);
    }

    /// Returns the position of the value of the first line of a field, with the white space around it.
    pub(crate) fn of(&self, field: KnownField, bytes: &[u8]) -> Option<Range<usize>> {
        if !self.present.contains(field) {
            return None;
        }
        let start = self.starts[field as usize] as usize;
        let length = memchr::memchr(b'\n', bytes.get(start..)?)?;
        Some(start..start + length)
    }

    /// Returns the places of the lines of these fields, in their order. `None` if one of them has several lines.
    pub(crate) fn lines_of(&self, fields: KnownFields, bytes: &[u8]) -> Option<LinePlaces> {
        let fields = fields.intersection(self.present);
        if !fields.intersection(self.repeated).is_empty() {
            return None;
        }
        let mut found = LinePlaces::default();
        for field in fields.iter() {
            let value = self.of(field, bytes)?;
            // A colon follows the name.
            found.places[found.count] = (value.start - field.length() - 1, value.end + 1);
            found.count += 1;
        }
        found.places[..found.count].sort_unstable();
        Some(found)
    }

    pub(crate) fn is_repeated(&self, field: KnownField) -> bool {
        self.repeated.contains(field)
    }
}

/// The places of lines in a head, with their ends, in their order.
#[derive(Debug, Default)]
pub(crate) struct LinePlaces {
    places: [(usize, usize); KnownField::COUNT],
    count: usize,
}

impl LinePlaces {
    pub(crate) fn as_slice(&self) -> &[(usize, usize)] {
        &self.places[..self.count]
    }
}
