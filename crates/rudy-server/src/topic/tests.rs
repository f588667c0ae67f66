//! Those who publish and those who listen, without sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

const HISTORY: History = History { messages: 3, bytes: 10_000 };

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn topic() -> Arc<Topic> {
    Arc::new(Topic { epoch: 0xe, ..Topic::new(Framing::Sse) })
}

fn publish(topic: &Topic, lines: &[&str]) -> Id {
    let mut draft = Draft::default();
    for line in lines {
        draft.push(line);
    }
    topic.publish(&draft, HISTORY)
}

fn listen(topic: &Arc<Topic>, start: Start) -> Listener {
    topic.listen(start, Listening { hello: String::new(), heartbeat: None }, Instant::now())
}

/// All that there is to send now.
fn sent(listener: &mut Listener) -> String {
    let mut cx = Context::from_waker(Waker::noop());
    let mut text = String::new();
    while let Poll::Ready(piece) = listener.poll_message(&mut cx, Instant::now()) {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

#[test]
fn everybody_who_listens_gets_the_same_bytes() {
    let topic = topic();
    let mut listeners = [listen(&topic, Start::Last(0)), listen(&topic, Start::Last(0))];
    assert_eq!(publish(&topic, &["one", "two"]), Id { epoch: 0xe, number: 2 });
    let mut cx = Context::from_waker(Waker::noop());
    let pieces = listeners.each_mut().map(|l| match l.poll_message(&mut cx, Instant::now()) {
        Poll::Ready(piece) => piece,
        other @ Poll::Pending => panic!("{other:?}"),
    });
    assert_eq!(pieces[0], "id: e-1\ndata: one\n\nid: e-2\ndata: two\n\n");
    assert_eq!(pieces[0].as_ptr(), pieces[1].as_ptr(), "one copy for all");
}

#[test]
fn a_listener_goes_on_after_the_last_message_it_knows() {
    let topic = topic();
    for line in ["1", "2", "3", "4"] {
        publish(&topic, &[line]);
    }
    let id = |number| Start::After(Id { epoch: 0xe, number });
    let (two, three, four) = ("id: e-2\ndata: 2\n\n", "id: e-3\ndata: 3\n\n", "id: e-4\ndata: 4\n\n");
    let all = format!("{two}{three}{four}");
    for (start, expected) in [
        (Start::Last(0), String::new()),
        (Start::Last(1), four.to_owned()),
        (Start::Last(u64::MAX), all.clone()),
        (id(4), String::new()),
        (id(2), format!("{three}{four}")),
        (id(1), all.clone()),
        (id(0), format!("event: gap\ndata: {{\"missing\":1}}\n\n{all}")),
        (id(5), format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
        (id(u64::MAX), format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
        (
            Start::After(Id { epoch: 0xd, number: 3 }),
            format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}"),
        ),
        (Start::Unknown, format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
    ] {
        assert_eq!(sent(&mut listen(&topic, start)), expected, "{start:?}");
    }
}

#[test]
fn who_waits_is_woken_once_for_each_publication() {
    let topic = topic();
    let bells: Vec<_> = (0..3 * BATCH).map(|_| Arc::new(Bell::default())).collect();
    let mut listeners: Vec<_> = bells.iter().map(|_| listen(&topic, Start::Last(0))).collect();
    for (listener, bell) in listeners.iter_mut().zip(&bells) {
        let waker = Waker::from(bell.clone());
        assert!(listener.poll_message(&mut Context::from_waker(&waker), Instant::now()).is_pending());
    }
    publish(&topic, &["one", "two"]);
    publish(&topic, &["three"]);
    publish(&topic, &[]);
    assert!(bells.iter().all(|bell| bell.0.load(Ordering::Relaxed) == 1), "nobody waits after the first");
}

#[test]
fn a_listener_that_reads_is_told_of_a_gap_and_one_that_does_not_is_dropped() {
    let topic = topic();
    let mut listener = listen(&topic, Start::Last(0));
    let mut cx = Context::from_waker(Waker::noop());
    for line in ["1", "2", "3"] {
        publish(&topic, &[line]);
        assert!(listener.poll_blocked(&mut cx, Instant::now()).is_pending());
    }
    publish(&topic, &["4"]);
    assert!(listener.poll_blocked(&mut cx, Instant::now()).is_ready());
    assert!(sent(&mut listener).starts_with("event: gap\ndata: {\"missing\":1}\n\nid: e-2\n"));
    assert!(listener.poll_blocked(&mut cx, Instant::now()).is_pending());
}

#[test]
fn silence_is_broken_by_a_comment_that_is_due() {
    let topic = topic();
    let start = Instant::now();
    let longest = Duration::from_secs(20);
    let listening = Listening { hello: "retry: 1\n\n".to_owned(), heartbeat: Some(longest) };
    let mut listener = topic.listen(Start::Last(0), listening, start);
    let mut cx = Context::from_waker(Waker::noop());
    let mut poll = |listener: &mut Listener, now| match listener.poll_message(&mut cx, now) {
        Poll::Ready(piece) => piece,
        Poll::Pending => Bytes::new(),
    };
    assert_eq!(poll(&mut listener, start), "retry: 1\n\n");
    let due = listener.due().unwrap();
    assert!(due >= start + longest.mul_f64(0.74) && due <= start + longest);
    assert_eq!(poll(&mut listener, start), "");
    assert_eq!(poll(&mut listener, due), ":\n\n");
    assert_eq!(poll(&mut listener, due), "");
    let later = due + Duration::from_secs(5);
    publish(&topic, &["x"]);
    assert_eq!(poll(&mut listener, later), "id: e-1\ndata: x\n\n");
    let next = listener.due().unwrap();
    assert_eq!(next - later, due - start, "a message is a sign of life too");
    assert!(listener.poll_blocked(&mut cx, next).is_pending());
    assert!(listener.due().unwrap() > next, "a client that does not read is not due again and again");
}

#[test]
fn heartbeats_are_spread() {
    let longest = Duration::from_secs(20);
    let mut periods: Vec<_> = (0..1000).map(|slot| spread(longest, slot)).collect();
    periods.sort_unstable();
    assert!(periods[0] >= longest.mul_f64(0.75) && periods[999] <= longest);
    assert!(periods.windows(2).all(|pair| pair[1] < pair[0] + Duration::from_millis(20)));
}

#[test]
fn a_topic_is_over_when_nobody_listens_and_nothing_is_left_to_come_for() {
    let topic = topic();
    let hour = Duration::from_hours(1);
    assert!(topic.is_over(Instant::now(), hour), "nothing was published");
    let listener = listen(&topic, Start::Last(0));
    assert!(!topic.is_over(Instant::now() + 2 * hour, hour), "somebody listens");
    publish(&topic, &["x"]);
    drop(listener);
    assert!(!topic.is_over(Instant::now(), hour), "somebody may come back");
    assert!(!topic.is_deserted(Instant::now(), hour) && topic.is_deserted(Instant::now() + hour, hour));
    assert!(topic.is_over(Instant::now() + 2 * hour, hour));
}

#[test]
fn a_listener_is_small() {
    // With its connection, 1.5 KiB are allowed.
    assert!(size_of::<Listener>() <= 128, "{} bytes", size_of::<Listener>());
}

#[test]
fn nothing_is_lost_between_threads_that_publish_and_listen() {
    const LINES: usize = 2000;
    let topic = topic();
    let history = History { messages: 2 * LINES as u64, bytes: u64::MAX };
    let publisher = |topic: Arc<Topic>| {
        move || {
            for _ in 0..LINES {
                let mut draft = Draft::default();
                draft.push("x");
                topic.publish(&draft, history);
            }
        }
    };
    let mut listeners: Vec<_> = (0..4).map(|_| listen(&topic, Start::Last(0))).collect();
    std::thread::scope(|scope| {
        scope.spawn(publisher(topic.clone()));
        scope.spawn(publisher(topic.clone()));
        for listener in &mut listeners {
            scope.spawn(move || {
                // Parks until it is woken: a wake that is lost is a test that never ends.
                let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                let mut cx = Context::from_waker(&waker);
                let mut events = 0;
                while events < 2 * LINES {
                    match listener.poll_message(&mut cx, Instant::now()) {
                        Poll::Ready(piece) => {
                            events += piece.windows(2).filter(|pair| pair == b"\n\n").count();
                        }
                        Poll::Pending => std::thread::park(),
                    }
                }
            });
        }
    });
    assert!(listeners.iter().all(|listener| listener.next == 2 * LINES as u64 + 1));
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
