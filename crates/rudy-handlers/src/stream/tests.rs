//! Tests of streams with a simulated clock.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::Method;
use rudy_config::from_text;
use rudy_service::{BodyPiece, BodyStream, RequestBody};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn stream(table: &str) -> Stream {
    Stream::new(&from_text(table).unwrap(), &Location::none()).unwrap()
}

fn request(path: &str) -> Request<'static> {
    http::Request::get(path).body(RequestBody::empty()).map(Request::from).unwrap()
}

fn respond(stream: &Stream, request: &Request) -> Response {
    stream.respond(request, &RequestPath::parse(request.uri().path()).unwrap())
}

fn request_after(id: &'static str) -> Request<'static> {
    let mut request = request("/");
    request.headers_mut().insert("last-event-id", HeaderValue::from_static(id));
    request
}

fn just_before(moment: Instant) -> Instant {
    moment.checked_sub(Duration::from_nanos(1)).unwrap()
}

/// The stream of a client, and the time of its start.
struct Client {
    live: Box<dyn BodyStream>,
    start: Instant,
}

impl Client {
    fn new(table: &str, path: &str) -> Self {
        Self::requesting(table, &request(path))
    }

    /// Creates a client that received this event last.
    fn reconnecting(table: &str, id: &'static str) -> Self {
        Self::requesting(table, &request_after(id))
    }

    fn requesting(table: &str, request: &Request) -> Self {
        let start = Instant::now();
        let Body::Stream(live) = respond(&stream(table), request).body else { panic!("a stream") };
        Self { live, start }
    }

    /// Creates a client that has received its welcome. Returns when its first chunk is due.
    fn welcomed(table: &str) -> (Self, Instant) {
        let mut client = Self::new(table, "/");
        let start = client.start;
        assert!(client.piece(start).is_some());
        let first = client.live.due().unwrap();
        (client, first)
    }

    /// Returns the piece at `now`, if there is one.
    fn piece(&mut self, now: Instant) -> Option<String> {
        match self.live.poll_piece(&mut Context::from_waker(Waker::noop()), now, u64::MAX) {
            Poll::Ready(Some(Ok(BodyPiece::Data(piece)))) => Some(String::from_utf8(piece.to_vec()).unwrap()),
            Poll::Ready(Some(_)) => panic!("a stream consists of text"),
            Poll::Ready(None) => Some("the end".to_owned()),
            Poll::Pending => None,
        }
    }

    fn is_overflowing(&mut self, now: Instant) -> bool {
        self.live.poll_blocked(&mut Context::from_waker(Waker::noop()), now).is_ready()
    }
}

#[test]
fn a_welcome_is_sent_at_once_and_then_a_chunk_at_each_interval() {
    let mut client = Client::new("", "/test/7");
    let start = client.start;
    assert_eq!(client.piece(start).unwrap(), "Goconntest welcomes you! Your Id: /test/7\n");
    assert_eq!(client.piece(start), None);
    let first = client.live.due().unwrap();
    // The stream started a little after `start`.
    assert!(first >= start && first < Instant::now() + SECOND);
    for number in 1..=3 {
        let due = client.live.due().unwrap();
        assert_eq!(due, first + SECOND * (number - 1));
        assert_eq!(client.piece(just_before(due)), None);
        assert_eq!(client.piece(due).unwrap(), format!("Chunk {number} for id /test/7\n"));
        assert_eq!(client.piece(due), None);
    }
}

#[test]
fn a_million_chunks_sent_late_do_not_drift() {
    let (mut client, first) = Client::welcomed("interval = '10ms'\ntext = '{n}'");
    for number in 1..=1_000_000 {
        let due = client.live.due().unwrap();
        assert_eq!(due, first + Duration::from_millis(10) * (number - 1));
        assert_eq!(client.piece(due + Duration::from_millis(9)).unwrap(), format!("{number}\n"));
    }
}

#[test]
fn a_stream_with_a_count_ends_after_its_last_chunk() {
    let (mut client, first) = Client::welcomed("count = 2\ntext = '{n}'");
    assert_eq!(client.piece(first).unwrap(), "1\n");
    assert_eq!(client.piece(first), None);
    assert_eq!(client.piece(first + SECOND).unwrap(), "2\n");
    assert_eq!(client.piece(first + SECOND).unwrap(), "the end");
    assert_eq!(client.live.due(), None);
}

#[test]
fn without_a_welcome_the_stream_starts_with_the_first_chunk() {
    let mut client = Client::new("welcome = ''\ntext = '{n}'", "/");
    assert_eq!(client.piece(client.start), None);
    let first = client.live.due().unwrap();
    assert_eq!(client.piece(first).unwrap(), "1\n");
}

#[test]
fn a_client_that_does_not_read_is_dropped_when_its_queue_is_full() {
    for queue in [1, 2, 16] {
        let (mut client, first) = Client::welcomed(&format!("queue = {queue}\ntext = '{{n}}'"));
        assert_eq!(client.piece(first).unwrap(), "1\n");
        // Chunk 1 is being sent; the queue is full with chunk 1 + queue.
        let full = first + SECOND * queue;
        assert!(!client.is_overflowing(first));
        assert!(!client.is_overflowing(just_before(full)));
        assert!(client.is_overflowing(full));
    }
}

#[test]
fn a_client_that_resumes_reading_in_time_misses_no_chunk() {
    let (mut client, first) = Client::welcomed("queue = 4\ntext = '{n}'");
    assert!(!client.is_overflowing(first));
    let later = first + 3 * SECOND;
    for number in 1..=4 {
        assert_eq!(client.piece(later).unwrap(), format!("{number}\n"));
    }
    assert_eq!(client.piece(later), None);
    assert_eq!(client.live.due(), Some(first + 4 * SECOND));
}

#[test]
fn a_client_is_not_dropped_for_chunks_after_the_last_one() {
    let (mut client, first) = Client::welcomed("queue = 4\ncount = 3");
    assert!(!client.is_overflowing(first + 1000 * SECOND));
}

#[test]
fn after_a_pause_the_server_sends_only_the_last_chunks() {
    let (mut client, first) = Client::welcomed("queue = 3\ntext = '{n}'");
    let woken = first + 100 * SECOND;
    for number in [99, 100, 101] {
        assert_eq!(client.piece(woken).unwrap(), format!("{number}\n"));
    }
    assert_eq!(client.piece(woken), None);
    assert_eq!(client.live.due(), Some(woken + SECOND));
}

#[test]
fn a_chunk_that_is_never_due_does_not_panic() {
    let (mut client, first) = Client::welcomed("interval = '1h'\nqueue = 1000000");
    assert!(!client.is_overflowing(first));
    assert!(!client.is_overflowing(first + 999_998 * 3600 * SECOND));
    assert!(client.is_overflowing(first + 1_000_000 * 3600 * SECOND));
}

#[test]
fn events_are_numbered_and_paths_contain_no_line_breaks() {
    for (path, shown) in [
        ("/a%0Ab%0D", "/a%0Ab%0D"),
        ("/caf%c3%a9?query#part", "/caf%C3%A9"),
        ("/a%2fb%25", "/a%2Fb%25"),
        ("/{\"}|^", "/%7B%22%7D%7C%5E"),
    ] {
        let Ok(uri) = path.parse::<http::Uri>() else { panic!("{path} is valid for `http`") };
        let mut client = Client::new("format = 'sse'\ntext = \"{n}\\n{path}\"", &uri.to_string());
        let start = client.start;
        let welcome = format!("id: 0\ndata: Goconntest welcomes you! Your Id: {shown}\n\n");
        assert_eq!(client.piece(start).unwrap(), welcome);
        let first = client.live.due().unwrap();
        assert_eq!(client.piece(first).unwrap(), format!("id: 1\ndata: 1\ndata: {shown}\n\n"));
    }
}

#[test]
fn a_browser_that_reconnects_resumes_after_its_last_event() {
    for (id, received) in [("1", 1), ("41", 41), ("3000000", 3_000_000)] {
        let mut client = Client::reconnecting("format = 'sse'\ntext = '{n}'", id);
        let first = client.live.due().unwrap();
        assert_eq!(client.piece(just_before(first)), None);
        assert_eq!(client.piece(first).unwrap(), format!("id: {0}\ndata: {0}\n\n", received + 1));
        assert_eq!(client.live.due(), Some(first + SECOND));
    }
    // An invalid id, or a stream without ids: it starts at the beginning.
    for (format, id) in [
        ("sse", "0"),
        ("sse", "a"),
        ("sse", "-1"),
        ("sse", "18446744073709551615"),
        ("sse", "18446744073"),
        ("plain", "7"),
    ] {
        let mut client = Client::reconnecting(&format!("format = '{format}'"), id);
        assert!(client.piece(client.start).unwrap().contains("Goconntest"), "{format} {id}");
    }
}

#[test]
fn a_browser_that_has_all_events_must_not_reconnect() {
    for (id, status) in [("2", 200), ("3", 204), ("4", 204), ("+4", 200)] {
        assert_eq!(
            respond(&stream("format = 'sse'\ncount = 3"), &request_after(id)).status(),
            status,
            "{id}"
        );
    }
}

#[test]
fn the_header_fields_disable_buffering() {
    for (table, content_type) in [("", "text/plain; charset=utf-8"), ("format = 'sse'", "text/event-stream")]
    {
        let response = respond(&stream(table), &request("/"));
        assert_eq!(response.status(), StatusCode::OK);
        for (name, value) in [
            ("content-type", content_type),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(response.headers()[name], value, "{table}");
        }
        assert_eq!(response.body.length(), None);
    }
}

#[test]
fn the_memory_of_a_stream_is_bounded() {
    let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
    assert_eq!(respond(&stream(""), &request(&long)).status(), 414);
    assert_eq!(respond(&stream(""), &request(&long[1..])).status(), 200);
    assert_eq!(respond(&stream("text = '{n}'\nwelcome = ''"), &request(&long)).status(), 200);
    assert!(size_of::<Ticks>() <= 56, "{} bytes", size_of::<Ticks>());
}

#[test]
fn a_stream_rejects_other_methods() {
    let mut request = request("/");
    request.set_method(Method::POST);
    assert_eq!(respond(&stream(""), &request).status(), 405);
}

#[test]
fn invalid_settings_are_errors() {
    for (table, errors) in [
        ("interval = '9ms'", 1),
        ("interval = '61m'", 1),
        ("text = '{N}{id}'", 1),
        ("text = '{id}'\nwelcome = '{name}'\ninterval = '10ms'", 2),
        ("interval = '10ms'\nwelcome = ''", 0),
    ] {
        let stream = from_text(table).and_then(|table| Stream::new(&table, &Location::none()));
        assert_eq!(stream.err().map_or(0, |errors| errors.len()), errors, "{table}");
    }
}

proptest::proptest! {
    /// For any delays, and whether a client reads or not: no chunk is early, repeated, or skipped before
    /// `queue` of them wait. A client that does not read is dropped exactly then.
    #[test]
    fn chunks_come_in_order_when_they_are_due(steps in proptest::collection::vec((0_u32..3000, proptest::bool::ANY), 0..40)) {
        let (mut client, first) = Client::welcomed("queue = 4\ntext = '{n}'");
        let (mut now, mut received) = (first, 0);
        for (later_ms, reads) in steps {
            now += Duration::from_millis(later_ms.into());
            let newest = u32::try_from((now - first).as_secs()).unwrap() + 1;
            if !reads {
                let is_full = newest - received >= 4;
                proptest::prop_assert_eq!(client.is_overflowing(now), is_full);
                if is_full {
                    break;
                }
                continue;
            }
            for number in newest.saturating_sub(4).max(received) + 1..=newest {
                proptest::prop_assert_eq!(client.piece(now), Some(format!("{number}\n")));
            }
            received = newest;
            proptest::prop_assert_eq!(client.piece(now), None);
            proptest::prop_assert_eq!(client.live.due(), Some(first + SECOND * received));
        }
    }
}
