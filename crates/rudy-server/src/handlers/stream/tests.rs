//! Streams by a clock that the test moves.

use std::task::{Context, Poll, Waker};

use http::Method;
use rudy_net::{BodyPiece, BodyStream, RequestBody};

use super::*;
use crate::config::from_text;

const SECOND: Duration = Duration::from_secs(1);

fn stream(table: &str) -> Stream {
    Stream::new(&from_text(table).unwrap(), &Location::none()).unwrap()
}

fn request(path: &str) -> Request {
    http::Request::get(path).body(RequestBody::empty()).unwrap()
}

fn ask(stream: &Stream, request: &Request) -> Response {
    stream.answer(request, &RequestPath::parse(request.uri().path()).unwrap())
}

fn request_after(id: &'static str) -> Request {
    let mut request = request("/");
    request.headers_mut().insert("last-event-id", HeaderValue::from_static(id));
    request
}

fn just_before(moment: Instant) -> Instant {
    moment.checked_sub(Duration::from_nanos(1)).unwrap()
}

/// A client's stream, and the moment of its start.
struct Client {
    live: Box<dyn BodyStream>,
    start: Instant,
}

impl Client {
    fn new(table: &str, path: &str) -> Self {
        Self::asking(table, &request(path))
    }

    /// One that had this event last.
    fn back(table: &str, id: &'static str) -> Self {
        Self::asking(table, &request_after(id))
    }

    fn asking(table: &str, request: &Request) -> Self {
        let start = Instant::now();
        let Body::Stream(live) = ask(&stream(table), request).body else { panic!("a stream") };
        Self { live, start }
    }

    /// One that has had its welcome, with the moment at which its first chunk is due.
    fn welcomed(table: &str) -> (Self, Instant) {
        let mut client = Self::new(table, "/");
        let start = client.start;
        assert!(client.piece(start).is_some());
        let first = client.live.due().unwrap();
        (client, first)
    }

    /// What comes at `now`, if anything does.
    fn piece(&mut self, now: Instant) -> Option<String> {
        match self.live.poll_piece(&mut Context::from_waker(Waker::noop()), now, u64::MAX) {
            Poll::Ready(Some(Ok(BodyPiece::Data(piece)))) => Some(String::from_utf8(piece.to_vec()).unwrap()),
            Poll::Ready(Some(_)) => panic!("a stream has nothing but text"),
            Poll::Ready(None) => Some("the end".to_owned()),
            Poll::Pending => None,
        }
    }

    fn is_overrun(&mut self, now: Instant) -> bool {
        self.live.poll_blocked(&mut Context::from_waker(Waker::noop()), now).is_ready()
    }
}

#[test]
fn a_welcome_comes_at_once_and_then_a_chunk_each_interval() {
    let mut client = Client::new("", "/test/7");
    let start = client.start;
    assert_eq!(client.piece(start).unwrap(), "Goconntest welcomes you! Your Id: /test/7\n");
    assert_eq!(client.piece(start), None);
    let first = client.live.due().unwrap();
    // The stream began a little after `start`.
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
fn without_a_welcome_the_first_chunk_comes_first() {
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
        // Chunk 1 is on its way; the queue is full with chunk 1 + queue.
        let full = first + SECOND * queue;
        assert!(!client.is_overrun(first));
        assert!(!client.is_overrun(just_before(full)));
        assert!(client.is_overrun(full));
    }
}

#[test]
fn a_client_that_reads_again_in_time_misses_nothing() {
    let (mut client, first) = Client::welcomed("queue = 4\ntext = '{n}'");
    assert!(!client.is_overrun(first));
    let later = first + 3 * SECOND;
    for number in 1..=4 {
        assert_eq!(client.piece(later).unwrap(), format!("{number}\n"));
    }
    assert_eq!(client.piece(later), None);
    assert_eq!(client.live.due(), Some(first + 4 * SECOND));
}

#[test]
fn a_client_is_not_dropped_for_chunks_that_will_not_come() {
    let (mut client, first) = Client::welcomed("queue = 4\ncount = 3");
    assert!(!client.is_overrun(first + 1000 * SECOND));
}

#[test]
fn a_server_that_stood_still_sends_the_last_chunks_of_what_it_missed() {
    let (mut client, first) = Client::welcomed("queue = 3\ntext = '{n}'");
    let woken = first + 100 * SECOND;
    for number in [99, 100, 101] {
        assert_eq!(client.piece(woken).unwrap(), format!("{number}\n"));
    }
    assert_eq!(client.piece(woken), None);
    assert_eq!(client.live.due(), Some(woken + SECOND));
}

#[test]
fn a_chunk_that_never_comes_due_does_not_panic() {
    let (mut client, first) = Client::welcomed("interval = '1h'\nqueue = 1000000");
    assert!(!client.is_overrun(first));
    assert!(!client.is_overrun(first + 999_998 * 3600 * SECOND));
    assert!(client.is_overrun(first + 1_000_000 * 3600 * SECOND));
}

#[test]
fn events_are_numbered_and_nothing_of_a_path_breaks_their_lines() {
    for (path, as_it_is_shown) in [
        ("/a%0Ab%0D", "/a%0Ab%0D"),
        ("/caf%c3%a9?query#part", "/caf%C3%A9"),
        ("/a%2fb%25", "/a%2Fb%25"),
        ("/{\"}|^", "/%7B%22%7D%7C%5E"),
    ] {
        let Ok(uri) = path.parse::<http::Uri>() else { panic!("{path} is let through by `http`") };
        let mut client = Client::new("format = 'sse'\ntext = \"{n}\\n{path}\"", &uri.to_string());
        let start = client.start;
        let welcome = format!("id: 0\ndata: Goconntest welcomes you! Your Id: {as_it_is_shown}\n\n");
        assert_eq!(client.piece(start).unwrap(), welcome);
        let first = client.live.due().unwrap();
        assert_eq!(client.piece(first).unwrap(), format!("id: 1\ndata: 1\ndata: {as_it_is_shown}\n\n"));
    }
}

#[test]
fn a_browser_that_comes_back_goes_on_after_what_it_had() {
    for (id, had) in [("1", 1), ("41", 41), ("3000000", 3_000_000)] {
        let mut client = Client::back("format = 'sse'\ntext = '{n}'", id);
        let first = client.live.due().unwrap();
        assert_eq!(client.piece(just_before(first)), None);
        assert_eq!(client.piece(first).unwrap(), format!("id: {0}\ndata: {0}\n\n", had + 1));
        assert_eq!(client.live.due(), Some(first + SECOND));
    }
    // Not a number of ours, or not a stream with ids: it begins anew.
    for (format, id) in [
        ("sse", "0"),
        ("sse", "a"),
        ("sse", "-1"),
        ("sse", "18446744073709551615"),
        ("sse", "18446744073"),
        ("plain", "7"),
    ] {
        let mut client = Client::back(&format!("format = '{format}'"), id);
        assert!(client.piece(client.start).unwrap().contains("Goconntest"), "{format} {id}");
    }
}

#[test]
fn a_browser_that_had_all_is_told_not_to_come_back() {
    for (id, status) in [("2", 200), ("3", 204), ("4", 204), ("+4", 200)] {
        assert_eq!(ask(&stream("format = 'sse'\ncount = 3"), &request_after(id)).status(), status, "{id}");
    }
}

#[test]
fn the_head_keeps_everybody_between_from_gathering_chunks() {
    for (table, content_type) in [("", "text/plain; charset=utf-8"), ("format = 'sse'", "text/event-stream")]
    {
        let response = ask(&stream(table), &request("/"));
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
fn what_a_stream_keeps_of_a_request_is_bounded() {
    let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
    assert_eq!(ask(&stream(""), &request(&long)).status(), 414);
    assert_eq!(ask(&stream(""), &request(&long[1..])).status(), 200);
    assert_eq!(ask(&stream("text = '{n}'\nwelcome = ''"), &request(&long)).status(), 200);
    assert!(size_of::<Ticks>() <= 56, "{} bytes", size_of::<Ticks>());
}

#[test]
fn a_stream_is_only_read() {
    let mut request = request("/");
    *request.method_mut() = Method::POST;
    assert_eq!(ask(&stream(""), &request).status(), 405);
}

#[test]
fn what_cannot_be_streamed_is_refused_beforehand() {
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
    /// However late a client is asked for, and whether it reads or not: no chunk is early, none comes twice, none is left
    /// out before `queue` of them wait, and whoever does not read is dropped exactly then.
    #[test]
    fn chunks_come_in_order_when_they_are_due(steps in proptest::collection::vec((0_u32..3000, proptest::bool::ANY), 0..40)) {
        let (mut client, first) = Client::welcomed("queue = 4\ntext = '{n}'");
        let (mut now, mut had) = (first, 0);
        for (later_ms, reads) in steps {
            now += Duration::from_millis(later_ms.into());
            let newest = u32::try_from((now - first).as_secs()).unwrap() + 1;
            if !reads {
                let is_full = newest - had >= 4;
                proptest::prop_assert_eq!(client.is_overrun(now), is_full);
                if is_full {
                    break;
                }
                continue;
            }
            for number in newest.saturating_sub(4).max(had) + 1..=newest {
                proptest::prop_assert_eq!(client.piece(now), Some(format!("{number}\n")));
            }
            had = newest;
            proptest::prop_assert_eq!(client.piece(now), None);
            proptest::prop_assert_eq!(client.live.due(), Some(first + SECOND * had));
        }
    }
}
