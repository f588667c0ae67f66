//! Names of owners and issuers of certificates as text.

use x509_parser::asn1_rs::ToDer;
use x509_parser::prelude::{AttributeTypeAndValue, RelativeDistinguishedName, X509Name};

/// The keywords that OpenSSL uses, and so Apache and nginx.
const KEYWORDS: [(&str, &str); 18] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// Formats a name as RFC 4514 does, the most specific part first: `CN=alice,OU=Ops,O=Example`. Characters outside of ASCII are not
/// escaped.
pub(crate) fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let part =
        |part: &&RelativeDistinguishedName<'_>| part.iter().map(attribute).collect::<Vec<_>>().join("+");
    parts.iter().rev().map(part).collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let id = attribute.attr_type().to_id_string();
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == id).map(|(_, keyword)| *keyword);
    match (keyword, attribute.as_str()) {
        (Some(keyword), Ok(value)) => format!("{keyword}={}", escape(value)),
        // RFC 4514 §2.4: the bytes of a value without a known form.
        (keyword, _) => {
            let value = attribute.attr_value();
            let bytes = value.to_der_vec().unwrap_or_default();
            format!("{}=#{}", keyword.unwrap_or(&id), hex(&bytes))
        }
    }
}

/// Formats bytes as hexadecimal digits in upper case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// RFC 4514 §2.4. Control characters are escaped too, because the name is a line in logs.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (index, c) in value.chars().enumerate() {
        match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => escaped.extend(['\\', c]),
            '#' if index == 0 => escaped.push_str("\\#"),
            ' ' if index == 0 || index == last => escaped.push_str("\\ "),
            c if c.is_ascii_control() => escaped.extend(["\\", &hex(&[c as u8])]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        for (value, expected) in [
            ("alice", "alice"),
            ("a,b+c\"d\\e<f>g;h=i", "a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h=i"),
            ("#1 #2", "\\#1 #2"),
            ("  a  ", "\\  a \\ "),
            (" ", "\\ "),
            ("Äpfel", "Äpfel"),
            ("a\nb\0", "a\\0Ab\\00"),
        ] {
            assert_eq!(escape(value), expected);
        }
    }
}
