//! The priority of a response (RFC 9218 §4).

use rudy_message::syntax::members;

/// The priority that a client gives to a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the client can use parts of the response, so that responses of the same urgency share the connection. Others are
    /// sent one after the other.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads a Priority field: a dictionary of structured fields, such as `u=1, i`. Invalid members are ignored.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in members(value) {
            // Parameters have no meaning.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_has_an_urgency_and_may_be_incremental() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("i", 3, true),
            ("u=7,i", 7, true),
            (" u=5 , i=?1 ", 5, true),
            ("i, i=?0", 3, false),
            ("u=1;x=2, i;y", 1, true),
            ("u=8", 3, false),
            ("u=-1, u=, u, i=1, x=\"u=1\"", 3, false),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        }
    }
}
