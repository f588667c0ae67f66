//! How the variables of a request are framed: in records of FastCGI, or as uwsgi and SCGI do.

use bytes::{BufMut, BytesMut};
use rudy_fastcgi::RequestId;
use rudy_fastcgi::pairs::{Pairs, ParamsEncoder};

/// The protocol of an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum AppProtocol {
    /// FastCGI 1.0.
    #[default]
    Fastcgi,
    /// uwsgi, the protocol of uWSGI: <https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>.
    Uwsgi,
    /// SCGI: <https://python.ca/scgi/protocol.txt>.
    Scgi,
}

impl AppProtocol {
    /// Returns its name in traces.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fastcgi => "fastcgi",
            Self::Uwsgi => "uwsgi",
            Self::Scgi => "scgi",
        }
    }

    /// Whether connections carry several requests, one after the other.
    pub(super) fn keeps_connections(self) -> bool {
        self == Self::Fastcgi
    }
}

/// Why variables cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unframed {
    /// They have this many bytes, and uwsgi has room for 65,535.
    TooLarge(usize),
    /// One has a zero, with which SCGI would end it: the rest would be other variables.
    Zero,
}

/// Encodes the variables of a request.
pub(super) enum Variables<'a> {
    Records(ParamsEncoder<'a>),
    /// Others have no records: the variables, and then the body.
    Flat(Flat<'a>),
}

impl<'a> Variables<'a> {
    /// Begins those of a FastCGI request.
    pub(super) fn in_records(id: RequestId, out: &'a mut BytesMut) -> Self {
        Self::Records(ParamsEncoder::new(id, out))
    }

    /// Begins those of a request to a uwsgi app.
    pub(super) fn of_uwsgi(out: &'a mut BytesMut) -> Self {
        // The plugin of uWSGI (0 is that of Python), the size of the variables, and a second number for the plugin.
        out.put_bytes(0, UWSGI_HEADER);
        Self::Flat(Flat { out, has_lengths: true, has_zero: false })
    }

    /// Begins those of a request to an SCGI app. They begin with the length of the body, which must be known.
    pub(super) fn of_scgi(out: &'a mut BytesMut, body_bytes: u64) -> Self {
        let mut flat = Flat { out, has_lengths: false, has_zero: false };
        flat.push(&[b"CONTENT_LENGTH"], &[itoa::Buffer::new().format(body_bytes).as_bytes()]);
        flat.push(&[b"SCGI"], &[b"1"]);
        Self::Flat(flat)
    }

    /// Whether they have the length of the body already.
    pub(super) fn has_length(&self) -> bool {
        matches!(self, Self::Flat(Flat { has_lengths: false, .. }))
    }

    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        match self {
            Self::Records(params) => params.push(name, value),
            Self::Flat(flat) => drop(flat.push(&[name], &[value])),
        }
    }

    /// Adds a variable whose value is made of two parts.
    pub(super) fn push_joined(&mut self, name: &[u8], start: &[u8], end: &[u8]) {
        match self {
            Self::Records(params) => params.push_joined(name, start, end),
            Self::Flat(flat) => drop(flat.push(&[name], &[start, end])),
        }
    }

    /// Adds a variable whose name is a prefix and another name, which `spell` changes.
    pub(super) fn push_spelled(&mut self, prefix: &[u8], name: &[u8], spell: fn(&mut [u8]), value: &[u8]) {
        match self {
            Self::Records(params) => params.push_spelled(prefix, name, spell, value),
            Self::Flat(flat) => {
                let start = flat.push(&[prefix, name], &[value]) + prefix.len();
                spell(&mut flat.out[start..start + name.len()]);
            }
        }
    }

    /// Adds variables that were encoded as pairs of FastCGI.
    pub(super) fn push_encoded(&mut self, pairs: &[u8]) {
        match self {
            Self::Records(params) => params.push_encoded(pairs),
            Self::Flat(flat) => {
                for (name, value) in Pairs::encoded(pairs) {
                    flat.push(&[name], &[value]);
                }
            }
        }
    }

    /// Ends the variables.
    pub(super) fn finish(self) -> Result<(), Unframed> {
        match self {
            Self::Records(params) => {
                params.finish();
                Ok(())
            }
            Self::Flat(flat) => flat.finish(),
        }
    }
}

const UWSGI_HEADER: usize = 4;

/// Variables without records, at the start of `out`: each with two lengths (uwsgi), or with a zero after its name and after its value (SCGI).
pub(super) struct Flat<'a> {
    out: &'a mut BytesMut,
    has_lengths: bool,
    has_zero: bool,
}

impl Flat<'_> {
    /// Appends a variable, and returns where its name is.
    fn push(&mut self, name: &[&[u8]], value: &[&[u8]]) -> usize {
        let mut at = 0;
        for (is_value, parts) in [(false, name), (true, value)] {
            if self.has_lengths {
                let length: usize = parts.iter().map(|part| part.len()).sum();
                // What is longer does not fit anyway: see `finish`.
                self.out.put_u16_le(u16::try_from(length).unwrap_or(u16::MAX));
            }
            at = if is_value { at } else { self.out.len() };
            for part in parts {
                self.has_zero |= part.contains(&0);
                self.out.put_slice(part);
            }
            if !self.has_lengths {
                self.out.put_u8(0);
            }
        }
        at
    }

    fn finish(self) -> Result<(), Unframed> {
        if self.has_lengths {
            let size = self.out.len() - UWSGI_HEADER;
            let short = u16::try_from(size).map_err(|_| Unframed::TooLarge(size))?;
            self.out[1..3].copy_from_slice(&short.to_le_bytes());
            return Ok(());
        }
        if self.has_zero {
            return Err(Unframed::Zero);
        }
        // A netstring: the length, a colon, the variables and a comma.
        let variables = self.out.split();
        self.out.extend_from_slice(itoa::Buffer::new().format(variables.len()).as_bytes());
        self.out.put_u8(b':');
        self.out.extend_from_slice(&variables);
        self.out.put_u8(b',');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rudy_fastcgi::pairs::encode_pair;

    use super::*;

    fn push(mut variables: Variables<'_>) -> Result<(), Unframed> {
        let mut constant = BytesMut::new();
        encode_pair(b"A", b"b", &mut constant);
        variables.push_encoded(&constant);
        variables.push(b"EMPTY", b"");
        variables.push_joined(b"JOINED", b"/c", b"/d");
        variables.push_spelled(b"HTTP_", b"x-y", <[u8]>::make_ascii_uppercase, b"z");
        variables.finish()
    }

    #[test]
    fn uwsgi_has_two_lengths_for_each_variable_and_the_size_of_all() {
        let mut out = BytesMut::new();
        push(Variables::of_uwsgi(&mut out)).unwrap();
        let expected = b"\x01\0A\x01\0b\x05\0EMPTY\0\0\x06\0JOINED\x04\0/c/d\x08\0HTTP_X-Y\x01\0z";
        assert_eq!(&out[..4], [0, u8::try_from(expected.len()).unwrap(), 0, 0]);
        assert_eq!(out[4..], expected[..]);
    }

    #[test]
    fn uwsgi_has_room_for_64_kib_of_variables() {
        for (length, expected) in [
            (65_527, Ok(())),
            (65_528, Err(Unframed::TooLarge(65_536))),
            (70_000, Err(Unframed::TooLarge(70_008))),
        ] {
            let mut out = BytesMut::new();
            let mut variables = Variables::of_uwsgi(&mut out);
            variables.push(b"NAME", &vec![b'x'; length]);
            assert_eq!(variables.finish(), expected, "{length}");
        }
    }

    #[test]
    fn scgi_is_a_netstring_that_begins_with_the_length_of_the_body() {
        let mut out = BytesMut::new();
        push(Variables::of_scgi(&mut out, 27)).unwrap();
        let expected = b"59:CONTENT_LENGTH\x0027\0SCGI\x001\0A\0b\0EMPTY\0\0JOINED\0/c/d\0HTTP_X-Y\0z\0,";
        assert_eq!(out, expected[..]);
    }

    /// The rest of a value behind a zero would be variables that the client chooses, such as `REMOTE_USER`.
    #[test]
    fn a_zero_in_a_variable_is_an_error_in_scgi() {
        for (start, end) in [(&b"/a\0REMOTE_USER"[..], &b"/b"[..]), (b"/a", b"\0"), (b"", b"")] {
            let mut out = BytesMut::new();
            let mut variables = Variables::of_scgi(&mut out, 0);
            variables.push_joined(b"PATH_INFO", start, end);
            let expected = if start.is_empty() { Ok(()) } else { Err(Unframed::Zero) };
            assert_eq!(variables.finish(), expected);
        }
    }
}
