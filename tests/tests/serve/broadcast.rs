//! Publish and subscribe over sockets: all subscribers of a path receive the published lines.

use rudy_tests::prelude::*;

const SITE: &str = r#"
listen = ["127.0.0.1:0"]
keep_alive = true

[[site]]
route = [
    { path = "/topics/*", broadcast = { publish = "loopback", retry = "3s", history = 3, heartbeat = "0s" } },
    { path = "/beats", broadcast = { publish = "loopback", heartbeat = "1s" } },
    { path = "/bulk", broadcast = { publish = "loopback", history_bytes = "1KiB" } },
    { path = "/status", status = { allow = "loopback" } },
]
"#;

/// The default limit of topics of a site.
const TOPICS: usize = 100;

fn serve(model: Model) -> Server {
    Server::build().config(SITE).engine(model).start()
}

fn publish(server: &Server, path: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
    server.send([head.as_bytes(), body].concat()).response()
}

/// Returns the id of the last message that was published.
fn id(response: &Response) -> String {
    assert_eq!(response.status, 204, "{response:?}");
    response.field("last-event-id").expect("the response has an event id").to_owned()
}

/// A subscriber.
struct Subscriber {
    connection: Connection,
    text: String,
    events: VecDeque<String>,
}

impl Subscriber {
    fn new(server: &Server, target: &str, fields: &str) -> Self {
        let mut connection = server.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
        let head = connection.head();
        assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
        let mut subscriber = Self { connection, text: String::new(), events: VecDeque::new() };
        // The subscription is active once the first event has arrived.
        assert!(subscriber.event().starts_with("retry: "));
        subscriber
    }

    /// Returns the next event, without its empty line.
    fn event(&mut self) -> String {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.text += &self.connection.chunk().expect("the response is endless");
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                self.events.push_back(event.to_owned());
                self.text = rest.to_owned();
            }
        }
    }

    /// Returns the text of the next message.
    fn data(&mut self) -> String {
        let event = self.event();
        event.split_once("\ndata: ").unwrap_or_else(|| panic!("no message: {event:?}")).1.to_owned()
    }
}

#[test]
fn all_subscribers_of_a_path_receive_published_lines() {
    // A subscriber occupies the only thread of the serial engine.
    for model in engines().into_iter().filter(|model| *model != Model::Serial) {
        let server = serve(model);
        // Of two threads, one is for the publisher.
        let count = if matches!(model, Model::Pool(_)) { 1 } else { 5 };
        let mut subscribers: Vec<_> =
            (0..count).map(|_| Subscriber::new(&server, "/topics/news", "")).collect();
        publish(&server, "/topics/others", b"not for them\n");
        let last = id(&publish(&server, "/topics/news", b"one\r\ntwo\n\nfour"));
        let (epoch, number) = last.split_once('-').unwrap();
        assert_eq!(number, "4", "{model}");
        for subscriber in &mut subscribers {
            for (number, text) in ["one", "two", "", "four"].into_iter().enumerate() {
                let expected = format!("id: {epoch}-{}\ndata: {text}", number + 1);
                assert_eq!(subscriber.event(), expected, "{model}");
            }
        }
    }
}

#[test]
fn a_client_that_reconnects_resumes_after_its_last_message() {
    // A closed subscription is noticed at the next message, and occupies its thread until then.
    let server = serve(Model::PerCore);
    let ids =
        ["1\n", "2\n", "3\n", "4\n", "5\n"].map(|line| id(&publish(&server, "/topics/a", line.as_bytes())));
    let after = |id: &str| Subscriber::new(&server, "/topics/a", &format!("Last-Event-ID: {id}\r\n"));
    let mut subscriber = after(&ids[2]);
    assert_eq!([subscriber.data(), subscriber.data()], ["4", "5"]);
    drop(subscriber);
    let mut subscriber = Subscriber::new(&server, &format!("/topics/a?last_event_id={}", ids[3]), "");
    assert_eq!(subscriber.data(), "5");
    drop(subscriber);
    let mut too_late = after(&ids[0]);
    assert_eq!(too_late.event(), "event: gap\ndata: {\"missing\":1}");
    assert_eq!(too_late.data(), "3");
    drop(too_late);
    // As after a restart: the id is not of this topic.
    let mut unknown_id = after("64f1e2d3c4b5a-4");
    assert_eq!(unknown_id.event(), "event: gap\ndata: {\"missing\":null}");
    assert_eq!(unknown_id.data(), "3");
}

#[test]
fn lines_are_published_as_they_arrive() {
    let server = serve(Model::PerCore);
    let mut subscriber = Subscriber::new(&server, "/topics/a", "");
    let mut publisher =
        server.send(b"PUT /topics/a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    publisher.send(b"6\r\none\ntw\r\n");
    assert_eq!(subscriber.data(), "one");
    publisher.send(b"2\r\no\n\r\n");
    assert_eq!(subscriber.data(), "two");
    publisher.send(b"5\r\nthree\r\n0\r\n\r\n");
    assert_eq!(subscriber.data(), "three");
    assert!(id(&publisher.response()).ends_with("-3"));
}

#[test]
fn an_invalid_line_is_reported_and_earlier_lines_are_published() {
    let server = serve(Model::PerCore);
    let mut subscriber = Subscriber::new(&server, "/topics/a", "");
    let long = [b"fine\n", &b"x".repeat(64 * 1024 + 1)[..]].concat();
    for (body, status, says) in [
        (&b""[..], 400, "the body has no lines"),
        (b"fine\n\xff\nnot reached\n", 400, "Line 2: it is not UTF-8. 1 lines before it were published."),
        (&long, 413, "Line 2: it is longer than 65536 bytes."),
    ] {
        let response = publish(&server, "/topics/a", body);
        assert_eq!(response.status, status);
        assert!(response.text().contains(says), "{}", response.text());
        if !body.is_empty() {
            assert_eq!(subscriber.data(), "fine");
        }
    }
    publish(&server, "/topics/a", b"next\n");
    assert_eq!(subscriber.data(), "next");
}

#[test]
fn an_idle_stream_gets_heartbeats() {
    let server = serve(Model::PerCore);
    let mut subscriber = Subscriber::new(&server, "/beats", "");
    assert_eq!([subscriber.event(), subscriber.event()], [":", ":"]);
    publish(&server, "/beats", b"x\n");
    while subscriber.event() == ":" {}
}

#[test]
fn a_stalled_subscriber_is_dropped_and_counted() {
    let server = serve(Model::PerCore);
    let stalled = Subscriber::new(&server, "/bulk", "");
    let lines = format!("{}\n", "x".repeat(60_000)).repeat(20);
    let mut published = 0;
    wait_until("it is dropped", || {
        id(&publish(&server, "/bulk", lines.as_bytes()));
        published += 20;
        server.json("/status")["connections"]["dropped"] == 1
    });
    drop(stalled);
    let mut late = Subscriber::new(&server, "/bulk?last_event_id=0-0", "");
    assert_eq!(late.event(), "event: gap\ndata: {\"missing\":null}");
    let event = late.event();
    let (id, _) = event.split_once('\n').unwrap();
    assert!(id.ends_with(&format!("-{published}")), "{id} of {published}");
}

#[test]
fn subscribers_of_unpublished_names_do_not_count_towards_the_limit() {
    let server = serve(Model::PerCore);
    let mut subscribers: Vec<_> =
        (0..=TOPICS).map(|n| Subscriber::new(&server, &format!("/topics/{n}"), "")).collect();
    id(&publish(&server, "/topics/news", b"one\n"));
    // Publishing to a name with subscribers reaches them.
    id(&publish(&server, "/topics/7", b"two\n"));
    assert_eq!(subscribers[7].data(), "two");
    for n in 2..TOPICS {
        id(&publish(&server, &format!("/topics/published-{n}"), b"x\n"));
    }
    assert_eq!(publish(&server, "/topics/8", b"x\n").status, 503, "over the limit of `topics`");
}

#[test]
fn subscribers_survive_a_reload() {
    let mut server = serve(Model::PerCore);
    let mut subscriber = Subscriber::new(&server, "/topics/a", "");
    let first = id(&publish(&server, "/topics/a", b"before\n"));
    assert_eq!(subscriber.data(), "before");
    server.reload("the configuration was reloaded");
    let second = id(&publish(&server, "/topics/a", b"after\n"));
    assert_eq!(subscriber.data(), "after");
    assert_eq!((first.split_once('-').unwrap().0, "2"), second.split_once('-').unwrap());
}
