use proptest::prelude::*;

use super::*;

fn client(address: &str) -> ProxiedClient {
    ProxiedClient::Address(address.parse().unwrap())
}

fn v2(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [V2_SIGNATURE, &[version_and_command, family], &length, rest].concat()
}

/// The IPv4 address block: 192.0.2.7:5000 to 198.51.100.1:443.
const V4: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 1, 0x13, 0x88, 0x01, 0xbb];

fn v6(source: &str) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    [&address(source)[..], &address("2001:db8::1"), &[0x13, 0x88, 0x01, 0xbb]].concat()
}

fn valid_headers() -> Vec<(Vec<u8>, ProxiedClient)> {
    let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let v1 = [
        ("PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n".to_owned(), client("192.0.2.7:5000")),
        ("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n".to_owned(), client("0.0.0.0:0")),
        ("PROXY TCP6 2001:db8::7 ::1 65535 1\r\n".to_owned(), client("[2001:db8::7]:65535")),
        ("PROXY TCP6 :: :: 1 1\r\n".to_owned(), client("[::]:1")),
        ("PROXY TCP6 ::ffff:192.0.2.7 ::1 5000 443\r\n".to_owned(), client("192.0.2.7:5000")),
        (format!("PROXY TCP6 {longest} {longest} 65535 65535\r\n"), client(&format!("[{longest}]:65535"))),
        ("PROXY UNKNOWN\r\n".to_owned(), ProxiedClient::Unknown),
        (format!("PROXY UNKNOWN {longest} {longest} 65535 65535\r\n"), ProxiedClient::Unknown),
        ("PROXY UNKNOWN  what ever it\tis\r\n".to_owned(), ProxiedClient::Unknown),
    ];
    let tlvs = [V4, &[0x04; 3000]].concat();
    let v2 = [
        (v2(0x21, 0x11, V4), client("192.0.2.7:5000")),
        (v2(0x21, 0x11, &tlvs), client("192.0.2.7:5000")),
        (v2(0x21, 0x21, &v6("2001:db8::7")), client("[2001:db8::7]:5000")),
        (v2(0x21, 0x21, &v6("::ffff:192.0.2.7")), client("192.0.2.7:5000")),
        (v2(0x21, 0x00, &[]), ProxiedClient::Unknown),
        (v2(0x21, 0x12, V4), ProxiedClient::Unknown),
        (v2(0x21, 0x31, &[0; 216]), ProxiedClient::Unknown),
        (v2(0x20, 0x00, &[]), ProxiedClient::ProxyItself),
        (v2(0x20, 0x11, V4), ProxiedClient::ProxyItself),
        (v2(0x20, 0xff, b"anything"), ProxiedClient::ProxyItself),
        (v2(0x21, 0x00, &[0; V2_BYTES_MAX - V2_FIXED_BYTES]), ProxiedClient::Unknown),
    ];
    v1.map(|(text, client)| (text.into_bytes(), client)).into_iter().chain(v2).collect()
}

/// Parses like the driver: reads at most `chunk_size` bytes at a time, and never past the end of the header.
/// Also returns the number of bytes read.
fn read(bytes: &[u8], chunk_size: usize) -> (Result<ProxiedClient, ProxyHeaderError>, usize) {
    let mut read = 0;
    loop {
        match parse(&bytes[..read]) {
            Ok(ParseStatus::Complete(client)) => return (Ok(client), read),
            Ok(ParseStatus::Incomplete(needs)) => {
                assert!(needs > 0 && read + needs <= V2_BYTES_MAX.max(V1_BYTES_MAX));
                let more = needs.min(chunk_size).min(bytes.len() - read);
                assert!(more > 0, "{} is reported as incomplete", bytes.escape_ascii());
                read += more;
            }
            Err(error) => return (Err(error), read),
        }
    }
}

#[test]
fn every_header_is_parsed_at_every_split_and_nothing_after_it_is_read() {
    for (header, client) in valid_headers() {
        let bytes = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        for chunk_size in [1, 2, 3, 7, 16, usize::MAX] {
            assert_eq!(read(&bytes, chunk_size), (Ok(client), header.len()), "{}", header.escape_ascii());
        }
        for end in 0..header.len() {
            let Ok(ParseStatus::Incomplete(needs)) = parse(&header[..end]) else {
                panic!("{} is not whole", header[..end].escape_ascii());
            };
            assert!(end + needs <= header.len(), "{} of {}", end, header.escape_ascii());
        }
    }
}

#[test]
fn bytes_that_are_not_a_header_are_rejected_at_the_first_wrong_byte() {
    for (bytes, wrong_at) in [
        (&b"GET / HTTP/1.1\r\n"[..], 1),
        (b"POST / HTTP/1.1\r\n", 2),
        (b"PROPFIND / HTTP/1.1\r\n", 4),
        (b"PROXY\r\n", 6),
        (b"proxy TCP4", 1),
        (b" PROXY TCP4", 1),
        (b"\x16\x03\x01\x02\x00\x01", 1),
        (b"\r\nGET / HTTP/1.1", 3),
        (b"\r\n\r\n\0\r\nQUIT\r\n", 12),
        (b"\n", 1),
        (b"\0", 1),
    ] {
        assert_eq!(read(bytes, 1), (Err(ProxyHeaderError::NotAHeader), wrong_at), "{}", bytes.escape_ascii());
        assert_eq!(parse(bytes), Err(ProxyHeaderError::NotAHeader), "{}", bytes.escape_ascii());
    }
}

#[test]
fn malformed_version_1_headers_are_rejected() {
    for line in [
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\rx",
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443 \r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443 1\r\n",
        "PROXY TCP4  192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY TCP4\t192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 5000 65536\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +500 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 -1 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 0x50 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1  443\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.1 5000 443\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 5000 443\r\n",
        "PROXY TCP4 ::1 198.51.100.1 5000 443\r\n",
        "PROXY TCP4 192.0.2.7 ::1 5000 443\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY TCP6 [::1] ::1 5000 443\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 5000 443\r\n",
        "PROXY TCP5 192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY UDP4 192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY tcp4 192.0.2.7 198.51.100.1 5000 443\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY \r\n",
        "PROXY TCP4 \u{661}92.0.2.7 198.51.100.1 5000 443\r\n",
    ] {
        let result = read(line.as_bytes(), 1).0;
        assert_eq!(result, Err(ProxyHeaderError::Malformed), "{}", line.escape_debug());
    }
    let endless = ["PROXY TCP4 ", &"1".repeat(200)].concat();
    assert_eq!(read(endless.as_bytes(), usize::MAX).0, Err(ProxyHeaderError::TooLong));
    let long = ["PROXY UNKNOWN ", &"x".repeat(V1_BYTES_MAX), "\r\n"].concat();
    let (result, read_bytes) = read(long.as_bytes(), usize::MAX);
    assert_eq!(result, Err(ProxyHeaderError::TooLong));
    assert!(read_bytes <= V1_BYTES_MAX, "{read_bytes}");
}

#[test]
fn malformed_version_2_headers_are_rejected() {
    for (name, header, expected) in [
        ("an old version", v2(0x11, 0x11, V4), ProxyHeaderError::Malformed),
        ("a future version", v2(0x31, 0x11, V4), ProxyHeaderError::Malformed),
        ("an unknown command", v2(0x22, 0x11, V4), ProxyHeaderError::Malformed),
        ("an unknown family", v2(0x21, 0x41, V4), ProxyHeaderError::Malformed),
        ("an unknown protocol", v2(0x21, 0x13, V4), ProxyHeaderError::Malformed),
        ("no addresses", v2(0x21, 0x11, &[]), ProxyHeaderError::Malformed),
        ("a byte too few for IPv4", v2(0x21, 0x11, &V4[..11]), ProxyHeaderError::Malformed),
        ("IPv6 with an IPv4 address block", v2(0x21, 0x21, V4), ProxyHeaderError::Malformed),
        ("a byte too few for IPv6", v2(0x21, 0x21, &v6("::1")[..35]), ProxyHeaderError::Malformed),
        ("too long", v2(0x21, 0x11, &[0; V2_BYTES_MAX - 15]), ProxyHeaderError::TooLong),
        (
            "the maximum length that the field can hold",
            v2(0x20, 0x00, &vec![0; 65535]),
            ProxyHeaderError::TooLong,
        ),
    ] {
        assert_eq!(read(&header, usize::MAX).0, Err(expected), "{name}");
        assert_eq!(read(&header, 1).0, Err(expected), "{name}, byte by byte");
    }
}

#[test]
fn errors_describe_the_problem() {
    for (error, part) in [
        (ProxyHeaderError::NotAHeader, "does not start with a PROXY protocol header"),
        (ProxyHeaderError::TooLong, "at most 107 bytes"),
        (ProxyHeaderError::Malformed, "malformed"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn pieces_are_parsed_like_the_whole(
        start in proptest::sample::select(vec!["", "PROXY ", "PROXY TCP4 1.2.3.4 ", "\r\n\r\n\0\r\nQUIT\n!", "\r\n\r\n\0\r\nQUIT\n !"]),
        rest in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        // Trailing zeros supply the announced length.
        let bytes = [start.as_bytes(), &rest, b"\r\n", &[0; 4200][..]].concat();
        let (whole, read_at_once) = read(&bytes, usize::MAX);
        let (pieces, read_in_pieces) = read(&bytes, 1);
        // In pieces, a line may exceed the limit before it is recognised as malformed.
        prop_assert_eq!(whole.ok(), pieces.ok());
        if whole.is_ok() {
            prop_assert_eq!(read_at_once, read_in_pieces);
        }
    }
}

#[test]
fn an_encoded_header_has_the_client_and_its_destination() {
    let encoded = |client, destination: Option<&str>| {
        encode(client, destination.map(|destination| destination.parse().unwrap()))
    };
    let known = client("192.0.2.7:5000");
    assert_eq!(encoded(known, Some("198.51.100.1:443")), v2(0x21, 0x11, V4));
    assert_eq!(
        encoded(client("[2001:db8::7]:5000"), Some("[2001:db8::1]:443")),
        v2(0x21, 0x21, &v6("2001:db8::7"))
    );
    assert_eq!(encoded(known, Some("[2001:db8::1]:443")), v2(0x21, 0x21, &v6("::ffff:192.0.2.7")));
    assert_eq!(encoded(ProxiedClient::ProxyItself, Some("198.51.100.1:443")), v2(0x20, 0x00, &[]));
    for destination in [None, Some("198.51.100.1:443"), Some("[2001:db8::1]:443")] {
        for client in [known, client("[2001:db8::7]:1"), ProxiedClient::Unknown, ProxiedClient::ProxyItself] {
            assert_eq!(parse(&encoded(client, destination)), Ok(ParseStatus::Complete(client)));
        }
    }
}
