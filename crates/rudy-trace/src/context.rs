//! The field `traceparent` (W3C Trace Context §3.2).

use crate::ids::{read_digits, write_digits};
use crate::{SpanId, TraceId};

/// The size of a value of version 00.
pub const VALUE_BYTES: usize = 55;

/// The flag of a trace whose spans are recorded (§3.2.2.5.1).
const SAMPLED: u8 = 1;

/// The flag of a trace whose id is random in its last seven bytes (Trace Context Level 2 §3.2.2.5.2), which is passed on with the id.
const RANDOM: u8 = 2;

/// What a request says about its trace: the span that it is a child of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: TraceId,
    /// The span of the sender.
    pub span: SpanId,
    flags: u8,
}

impl Parent {
    /// Begins a trace with ids that were just made of random bits.
    #[must_use]
    pub fn begin(trace: TraceId, span: SpanId) -> Self {
        Self { trace, span, flags: 0 }
    }

    /// Parses the value of the field. `None` if it is invalid: then a trace begins, and `tracestate` does not count (§3.2.2).
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let (known, more) = value.split_at_checked(VALUE_BYTES)?;
        let [version] = read_digits(&known[..2])?;
        // §3.2.4: a later version may have more, after another dash. 255 is no version (§3.2.2.1).
        let is_whole = more.is_empty() || version != 0 && more[0] == b'-';
        if version == 255 || !is_whole || [2, 35, 52].iter().any(|dash| known[*dash] != b'-') {
            return None;
        }
        let (trace, span) = (read_digits(&known[3..35])?, read_digits(&known[36..52])?);
        let [flags] = read_digits(&known[53..])?;
        // §3.2.2.3 and §3.2.2.4: ids of zeros are invalid.
        let is_valid = trace != [0; 16] && span != [0; 8];
        // Flags of which this version does not know the meaning are not passed on (§3.2.2.5.2).
        is_valid.then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            flags: flags & (SAMPLED | RANDOM),
        })
    }

    /// Returns the parent of what another span of the same trace asks for.
    #[must_use]
    pub fn with_span(self, span: SpanId) -> Self {
        Self { span, ..self }
    }

    /// Whether the sender records its spans.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Sets whether spans are recorded.
    #[must_use]
    pub fn with_sampled(self, is_sampled: bool) -> Self {
        Self { flags: self.flags & !SAMPLED | u8::from(is_sampled), ..self }
    }

    /// Returns the flags.
    #[must_use]
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// Returns the value of the field, in version 00.
    #[must_use]
    pub fn value(self) -> [u8; VALUE_BYTES] {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_digits(&self.trace.0, &mut value[3..35]);
        write_digits(&self.span.0, &mut value[36..52]);
        write_digits(&[self.flags], &mut value[53..]);
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Returns what is sent for a value that is passed on.
    fn passed(value: &str) -> Option<String> {
        Parent::parse(value.as_bytes()).map(|parent| String::from_utf8(parent.value().to_vec()).unwrap())
    }

    #[test]
    fn section_3_2_2_a_value_of_version_00_has_four_parts_with_lowercase_digits() {
        assert_eq!(passed(VALID).as_deref(), Some(VALID));
        for invalid in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b70-01",
            "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473\u{e9}-00f067aa0ba902b7-01",
        ] {
            assert_eq!(passed(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn section_3_2_2_1_there_is_no_version_255() {
        assert_eq!(passed(&VALID.replacen("00", "ff", 1)), None);
    }

    #[test]
    fn sections_3_2_2_3_and_4_ids_of_zeros_are_invalid() {
        assert_eq!(passed("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), None);
        assert_eq!(passed("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"), None);
        assert_eq!((TraceId::from_bits([0, 0]).0[15], SpanId::from_bits(0).0[7]), (1, 1));
    }

    #[test]
    fn section_3_2_2_5_unknown_flags_are_not_passed_on() {
        for (given, sent, is_sampled) in
            [("00", "00", false), ("01", "01", true), ("ff", "03", true), ("fe", "02", false)]
        {
            let value = |flags| VALID[..53].to_owned() + flags;
            let parent = Parent::parse(value(given).as_bytes()).unwrap();
            assert_eq!(parent.value(), value(sent).as_bytes(), "{given}");
            assert_eq!(parent.is_sampled(), is_sampled, "{given}");
            assert_eq!(parent.with_sampled(!is_sampled).is_sampled(), !is_sampled);
            assert_eq!(parent.with_sampled(!is_sampled).with_sampled(is_sampled), parent);
        }
    }

    #[test]
    fn section_3_2_4_a_later_version_may_have_more_parts() {
        for value in [
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
            "fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        ] {
            assert_eq!(passed(value).as_deref(), Some(VALID), "{value}");
        }
        assert_eq!(passed("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what"), None);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_received(trace: [u64; 2], span: u64, is_sampled: bool) {
            let sent = Parent::begin(TraceId::from_bits(trace), SpanId::from_bits(span)).with_sampled(is_sampled);
            prop_assert_eq!(Parent::parse(&sent.value()), Some(sent));
        }
    }
}
