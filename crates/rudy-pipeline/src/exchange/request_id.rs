//! The id of a request: `X-Request-Id`, which logs of several programs have in common.

use std::cell::Cell;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use rudy_config::Table;
use rudy_message::RequestHead;
use rudy_service::Request;

use rudy_runtime::random::bits;

use crate::own_fields::replace_field;

/// The field of requests and responses.
static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id that a proxy has made.
const ID_BYTES_MAX: usize = 128;

/// The ids of requests.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short = bool, what = "`true`, `false` or a table", default)]
pub struct RequestIdTable {
    /// Whether responses have the id, so that users can report it.
    pub response: bool,
    #[setting(skip)]
    is_off: bool,
}

impl From<bool> for RequestIdTable {
    fn from(is_on: bool) -> Self {
        Self { response: false, is_off: !is_on }
    }
}

impl RequestIdTable {
    /// Returns the table, unless it is `false`.
    #[must_use]
    pub fn if_on(self) -> Option<Self> {
        (!self.is_off).then_some(self)
    }
}

/// The id of a request: visible ASCII characters without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Makes an id of 20 characters: 60 random bits of this thread, and a number of 40 bits that it never repeats.
    pub fn make() -> Self {
        thread_local! {
            static NEXT: Cell<(u64, u64)> = Cell::new((bits(), bits()));
        }
        let (thread, number) = NEXT.get();
        NEXT.set((thread, number.wrapping_add(1)));
        let mut id = [0; 20];
        write_base32(thread, &mut id[..12]);
        // An odd factor maps 40 bits to 40 bits one to one, and hides how many requests came in between.
        write_base32(number.wrapping_mul(0x9E_3779_B97F), &mut id[12..]);
        Self(HeaderValue::from_bytes(&id).expect("letters and digits are a valid value"))
    }

    /// Returns the id that a trusted proxy has made; `None` if it sent none, several, or characters that an id does not need.
    pub fn of_proxy(head: &RequestHead<'_>) -> Option<Self> {
        let mut lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(X_REQUEST_ID.as_str()));
        let (_, value) = lines.next()?;
        let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(byte);
        let is_id = !value.is_empty() && value.len() <= ID_BYTES_MAX && value.iter().all(is_valid);
        if !is_id || lines.next().is_some() {
            return None;
        }
        HeaderValue::from_bytes(value).ok().map(Self)
    }

    /// Sets the field of a request, instead of that of the client.
    pub fn set_in_request(&self, request: &mut Request<'_>) {
        replace_field(&X_REQUEST_ID, [self.0.clone()], request);
    }

    /// Sets the field of a response.
    pub fn set_in_response(self, fields: &mut HeaderMap) {
        fields.insert(&X_REQUEST_ID, self.0);
    }

    /// Returns the id as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// Writes five bits per character, as Crockford's Base32 does: without the letters I, L, O and U.
fn write_base32(mut bits: u64, text: &mut [u8]) {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    for place in text.iter_mut().rev() {
        *place = DIGITS[(bits & 31) as usize];
        bits >>= 5;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn ids_of_all_threads_differ() {
        let make = || (0..10_000).map(|_| RequestId::make().to_string()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(make)).collect();
        let ids: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 40_000);
        assert!(ids.iter().all(|id| id.len() == 20 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    }

    #[test]
    fn a_field_of_the_client_is_replaced_in_all_spellings() {
        let mut request = Request::default();
        for (name, value) in [
            ("x-request-id", "a"),
            ("x-request-id", "b"),
            ("x_request_id", "c"),
            ("connection", "x-request-id"),
        ] {
            request.add(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        RequestId(HeaderValue::from_static("id")).set_in_request(&mut request);
        assert_eq!(request.headers().len(), 1);
        assert_eq!(request.headers()["x-request-id"], "id");
    }
}
