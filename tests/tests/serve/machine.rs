//! Property tests of the state machine, with an independent client.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use rudy_http::Limits;
use rudy_http::h1::{Phase, ServerConnection};
use rudy_message::{DateLine, ResponseHead};
use rudy_tests::conformance::wire::{WireResponse, read_responses};
use rudy_tests::conformance::{Case, End, Expected, Http2, Step, Transcript, pure};
use rudy_tests::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The splits of the input do not change the output, and the output is valid for any input.
    #[test]
    fn mutated_requests_have_the_same_responses_at_every_split(
        requests in proptest::collection::vec(request(), 1..4),
        mutations in proptest::collection::vec(mutation(), 0..3),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut bytes = requests.concat();
        for mutation in &mutations {
            mutation.apply(&mut bytes);
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();

        let whole = decode_events(&[&bytes]);
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(&decode_events(&pieces), &whole);
        prop_assert_eq!(&decode_events(&bytes.chunks(1).collect::<Vec<_>>()), &whole);
        if whole.end != End::Upgraded {
            let responses = responses(&whole);
            prop_assert!(responses.is_ok(), "{responses:?}: {whole}");
        }
    }

    /// A client decodes exactly the response of the service.
    #[test]
    fn an_encoded_response_can_be_decoded(request_info in request_info(), response in response()) {
        let (output, phase) = encode(&request_info, &response);
        let read = read_responses(&output, &[request_info.method]);
        prop_assert!(read.is_ok(), "{:?}: {}", read, output.escape_ascii());
        let read = read.unwrap();
        prop_assert_eq!(read.len(), 1);

        let has_body = request_info.method != "HEAD" && ![204, 304].contains(&response.status);
        prop_assert_eq!(read[0].status, response.status);
        prop_assert!(read[0].complete);
        prop_assert_eq!(&read[0].body, &if has_body { response.pieces.concat() } else { Vec::new() });
        let values: Vec<_> = read[0].values("x-a").collect();
        prop_assert_eq!(values, response.field.iter().map(String::as_str).collect::<Vec<_>>());
        let is_chunked = read[0].values("transfer-encoding").next().is_some();
        prop_assert_eq!(is_chunked, has_body && !response.length_is_known && request_info.version == "1.1");
        prop_assert_eq!(read[0].trailers.len(), usize::from(is_chunked && response.trailer));
        // The response announces the close exactly if the connection closes.
        let announces_close = read[0].values("connection").any(|option| option == "close");
        prop_assert_eq!(announces_close, phase == Phase::Close);
        let ends_with_connection = has_body && !response.length_is_known && request_info.version == "1.0";
        prop_assert_eq!(announces_close, ends_with_connection || !request_info.keep_alive);
    }
}

/// A request that is valid, or nearly.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = proptest::sample::select(vec!["GET", "HEAD", "POST", "OPTIONS", "BREW"]);
    let targets = "/hello /stream /echo /early /inspect /empty /unchanged * http://a/hello /upgrade";
    let targets: Vec<_> = targets.split(' ').collect();
    let version = proptest::sample::select(vec!["1.1", "1.1", "1.1", "1.0", "1.2"]);
    let fields = ["Host: a", "Connection: close", "Expect: 100-continue", "X-A:  b\tc ", "Cookie: \u{e4}"];
    let fields = proptest::sample::subsequence(fields.map(|field| format!("{field}\r\n")).to_vec(), 0..5);
    let body = proptest::sample::select(vec![
        "\r\n",
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
        "Content-Length: 0\r\n\r\n\r\n",
    ]);
    (method, proptest::sample::select(targets), version, fields, body).prop_map(
        |(method, target, version, fields, body)| {
            let host = if fields.iter().any(|field| field == "Host: a\r\n") { "" } else { "Host: b\r\n" };
            format!("{method} {target} HTTP/{version}\r\n{host}{}{body}", fields.concat()).into_bytes()
        },
    )
}

/// A change of the bytes of a request.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    let byte = || prop_oneof![proptest::sample::select(b"\r\n :\t\0;,/0aZ\xff\x16".to_vec()), any::<u8>()];
    prop_oneof![
        (at(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (at(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        (at(), 1..20_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (at(), 1..20_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
    ]
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let (Self::Replace(at, _) | Self::Insert(at, _) | Self::Remove(at, _) | Self::Repeat(at, _)) = self;
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match self {
            Self::Replace(_, byte) => bytes[at] = *byte,
            Self::Insert(_, byte) => bytes.insert(at, *byte),
            Self::Remove(_, length) => drop(bytes.drain(at..(at + length).min(bytes.len()))),
            Self::Repeat(_, length) => {
                let piece = bytes[at..(at + length).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Returns the conversation with a client that sends these pieces.
fn decode_events(pieces: &[&[u8]]) -> Transcript {
    let case = Case {
        name: String::new(),
        place: String::new(),
        limits: Limits { drain_bytes: 16, ..Limits::default() },
        steps: pieces.iter().map(|piece| Step::Send(piece.to_vec())).collect(),
        expected: Expected::Bytes(Vec::new()),
        saw: None,
        http2: Http2::Same,
        end: End::Open,
    };
    pure::run(&case, usize::MAX, usize::MAX)
}

/// Parses the responses. The client would know its methods; here, only those of parsed requests are known, so the last response can
/// be to a HEAD or not.
fn responses(seen: &Transcript) -> Result<Vec<WireResponse>, String> {
    let requests = seen.saw.iter().filter(|line| !line.starts_with("body ") && !line.starts_with("trailer "));
    let mut methods: Vec<_> = requests.filter_map(|line| line.split(' ').next()).collect();
    let result = read_responses(&seen.output, &methods);
    methods.push("HEAD");
    result.and_then(|responses| {
        let is_whole = responses.iter().all(|response| response.complete);
        if is_whole { Ok(responses) } else { read_responses(&seen.output, &methods) }
    })
}

#[derive(Debug, Clone)]
struct RequestInfo {
    method: &'static str,
    version: &'static str,
    keep_alive: bool,
}

fn request_info() -> impl Strategy<Value = RequestInfo> {
    let methods = proptest::sample::select(vec!["GET", "HEAD", "POST"]);
    let versions = proptest::sample::select(vec!["1.0", "1.1"]);
    (methods, versions, any::<bool>()).prop_map(|(method, version, keep_alive)| RequestInfo {
        method,
        version,
        keep_alive,
    })
}

#[derive(Debug, Clone)]
struct Response {
    status: u16,
    field: Option<String>,
    pieces: Vec<Vec<u8>>,
    length_is_known: bool,
    trailer: bool,
}

fn response() -> impl Strategy<Value = Response> {
    let status = proptest::sample::select(vec![200, 201, 204, 206, 301, 304, 404, 418, 500, 599, 999]);
    let pieces = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..5);
    (status, proptest::option::of("[!-~]([ -~]{0,20}[!-~])?"), pieces, any::<bool>(), any::<bool>()).prop_map(
        |(status, field, pieces, length_is_known, trailer)| Response {
            status,
            field,
            pieces,
            length_is_known,
            trailer,
        },
    )
}

/// Returns the encoded response, and the phase of the connection after it.
fn encode(request_info: &RequestInfo, response: &Response) -> (Vec<u8>, Phase) {
    let (limits, now) = (Limits::default(), Instant::now());
    let mut machine = ServerConnection::new(now);
    let option = if request_info.keep_alive { "keep-alive" } else { "close" };
    let head = format!(
        "{} / HTTP/{}\r\nHost: a\r\nConnection: {option}\r\n\r\n",
        request_info.method, request_info.version
    );
    let event = machine.receive(head.as_bytes(), now, &limits).expect("the request is in order");
    assert!(event.is_some(), "the request is whole");

    let (mut out, mut fields, mut trailers) = (BytesMut::new(), HeaderMap::new(), HeaderMap::new());
    if let Some(value) = &response.field {
        fields.insert("x-a", HeaderValue::from_str(value).expect("printable"));
    }
    // The service cannot set fields of the connection, in the head or as trailers.
    for name in ["connection", "content-length", "transfer-encoding", "date"] {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static("7"));
    }
    if response.trailer {
        trailers.insert("x-t", HeaderValue::from_static("1"));
        trailers.insert("content-length", HeaderValue::from_static("7"));
    }
    let status = StatusCode::from_u16(response.status).expect("three digits");
    let length =
        response.length_is_known.then(|| response.pieces.iter().map(|piece| piece.len() as u64).sum());
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    machine.begin(ResponseHead::Fields(status, &fields), length, &limits, &date, &mut out);
    for piece in &response.pieces {
        machine.encode_piece(piece, &mut out).expect("the length is the announced one");
    }
    machine.finish(Some(&trailers), now, &mut out).expect("the length is the announced one");
    (out.to_vec(), machine.phase())
}
