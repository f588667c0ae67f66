//! The credentials of a request (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose};
use rudy_message::semantics::field::{FieldLines, KnownField};

use crate::passwords::Credentials;

/// Some programs leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the credentials of a request. `None` without any, and if they are malformed or of another scheme.
pub(super) fn credentials(fields: &impl FieldLines) -> Option<Credentials> {
    let mut lines = fields.lines(KnownField::Authorization);
    // RFC 9110 §11.6.2: the field has one value. Of two, an app could use the other one.
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (scheme, encoded) = line.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = BASE64.decode(encoded.trim_ascii()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(pair[..colon].to_vec()).ok()?;
    Some(Credentials { user, password: pair[colon + 1..].to_vec() })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::*;

    #[test]
    fn credentials_are_a_name_and_a_password_in_base64() {
        let read = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (header::AUTHORIZATION, HeaderValue::from_static(line)));
            let credentials = credentials(&lines.collect::<HeaderMap>())?;
            Some((credentials.user, String::from_utf8(credentials.password).unwrap()))
        };
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (line, expected) in [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", pair("Aladdin", "open sesame")),
            ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ", pair("Aladdin", "open sesame")),
            ("BASIC   YTpiOmM= ", pair("a", "b:c")),
            ("Basic dGVzdDoxMjPCow==", pair("test", "123£")),
            ("Basic Og==", pair("", "")),
            ("Basic QQ==", None),
            ("Basic", None),
            ("Basic %%%", None),
            ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", None),
        ] {
            assert_eq!(read(&[line]), expected, "{line}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&["Basic YTpi", "Basic YTpi"]), None);
    }
}
