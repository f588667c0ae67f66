//! What lines show without a part: addresses of clients, and queries.

use std::borrow::Cow;
use std::net::SocketAddr;

use percent_encoding::percent_decode;
use rudy_config::{OneOrMany, Table};
use rudy_message::semantics::forwarded::Node;
use rudy_pipeline::network::masked;
use rudy_service::Peer;

/// What is hidden in lines. The default is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Masking {
    /// Replaces the last 8 bits of IPv4 addresses of clients and the last 80 bits of IPv6 addresses by zeros, also in `header.NAME`.
    #[setting(name = "mask_addresses")]
    pub addresses: bool,
    /// Query parameters whose values are replaced by `***` in targets, in `Referer` and in other fields with URLs. Upper and lower case
    /// are the same.
    #[setting(name = "mask_query", read = OneOrMany<String>, example = ["token", "password"])]
    pub query: Vec<String>,
}

impl Masking {
    /// Returns the address to show for that of a client.
    pub(super) fn address(&self, peer: Peer) -> Peer {
        match peer {
            Peer::Ip(address) if self.addresses => {
                Peer::Ip(SocketAddr::new(masked(address.ip()), address.port()))
            }
            Peer::Unnamed(Some(proxy)) if self.addresses => Peer::Unnamed(Some(masked(proxy))),
            other => other,
        }
    }

    /// Returns a text in which members of a list that are addresses are masked.
    pub(super) fn addresses_in<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.addresses {
            return Cow::Borrowed(text);
        }
        let member = |member: &[u8]| match Node::from_x_forwarded_for(member.trim_ascii()) {
            Some(Node::Address(ip, _)) => masked(ip).to_string().into_bytes(),
            Some(Node::Hidden) | None => member.trim_ascii().to_vec(),
        };
        Cow::Owned(text.split(|byte| *byte == b',').map(member).collect::<Vec<_>>().join(&b", "[..]))
    }

    /// Returns a URL, or a part of one, without the values of its query and fragment that are hidden.
    pub(super) fn query_of<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if self.query.is_empty() {
            return Cow::Borrowed(text);
        }
        let Some(start) = text.iter().position(|byte| b"?#".contains(byte)) else {
            return Cow::Borrowed(text);
        };
        let (mut shown, query) = (text[..start].to_vec(), &text[start..]);
        for pair in query.chunk_by(|_, next| !b"&#".contains(next)) {
            match self.value_start(pair) {
                Some(value) => shown.extend_from_slice(&[&pair[..value], b"***"].concat()),
                None => shown.extend_from_slice(pair),
            }
        }
        Cow::Owned(shown)
    }

    /// Returns where the value begins that is hidden in a pair, which begins with its separator. A semicolon or a question mark may
    /// separate pairs for some applications, and be a part of a value for others. So all that follows a hidden name is hidden.
    fn value_start(&self, pair: &[u8]) -> Option<usize> {
        let equals = pair.iter().enumerate().filter(|(_, byte)| **byte == b'=').map(|(at, _)| at);
        equals.map(|at| at + 1).find(|end| {
            let before = &pair[..end - 1];
            let name = before.rsplit(|byte| b"?#&;=".contains(byte)).next().unwrap_or_default();
            self.hides(name)
        })
    }

    fn hides(&self, name: &[u8]) -> bool {
        let name = Cow::from(percent_decode(name));
        self.query.iter().any(|hidden| hidden.as_bytes().eq_ignore_ascii_case(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masking() -> Masking {
        Masking { addresses: true, query: vec!["token".to_owned(), "password".to_owned()] }
    }

    #[test]
    fn values_of_hidden_parameters_are_replaced() {
        for (url, shown) in [
            ("/a", "/a"),
            ("/token=1", "/token=1"),
            ("/a?b=c", "/a?b=c"),
            ("/a?token=secret", "/a?token=***"),
            ("/a?token=", "/a?token=***"),
            ("/a?token", "/a?token"),
            ("/a?b=c&token=secret&d=e&password=x", "/a?b=c&token=***&d=e&password=***"),
            ("/a?TOKEN=secret&tokens=1&my-token=2", "/a?TOKEN=***&tokens=1&my-token=2"),
            ("/a?%74oken=secret&toke%6E=s&%746fken=1", "/a?%74oken=***&toke%6E=***&%746fken=1"),
            ("/a?t%6f%6ben=secret&%=1&%7=2&token%=3", "/a?t%6f%6ben=***&%=1&%7=2&token%=3"),
            ("https://a/?b=c#token=secret&x=y", "https://a/?b=c#token=***&x=y"),
            ("https://a/#password=secret", "https://a/#password=***"),
            // Semicolons, question marks and equals signs in values and between pairs.
            ("/a?token=a;b=c?d=e&f=g", "/a?token=***&f=g"),
            ("/a?b=c;token=secret;d=e&f=g", "/a?b=c;token=***&f=g"),
            ("/a?next=/b?token=secret", "/a?next=/b?token=***"),
            ("/a?b=token=secret", "/a?b=token=***"),
            ("?token=secret", "?token=***"),
            ("&token=1", "&token=1"),
        ] {
            assert_eq!(masking().query_of(url.as_bytes()), shown.as_bytes(), "{url}");
            let unmasked = Masking::default().query_of(url.as_bytes()).into_owned();
            assert_eq!(unmasked, url.as_bytes());
        }
    }

    #[test]
    fn addresses_lose_their_ends() {
        for (address, shown) in [
            ("192.0.2.7", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("::ffff:192.0.2.7", "192.0.2.0"),
            ("203.0.113.9,  10.0.0.1:80,unknown", "203.0.113.0, 10.0.0.0, unknown"),
            ("[2001:db8:1:2::1]:443", "2001:db8:1::"),
            ("text", "text"),
            ("", ""),
        ] {
            assert_eq!(masking().addresses_in(address.as_bytes()), shown.as_bytes());
            assert_eq!(Masking::default().addresses_in(address.as_bytes()), address.as_bytes());
        }
        let peer = Peer::Ip("192.0.2.7:80".parse().unwrap());
        assert_eq!(masking().address(peer).to_string(), "192.0.2.0:80");
        assert_eq!(masking().address(Peer::Unix), Peer::Unix);
        assert_eq!(Masking::default().address(peer), peer);
    }
}
