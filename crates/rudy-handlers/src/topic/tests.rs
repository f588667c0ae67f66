//! Publishers and subscribers, without sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

const HISTORY: History = History { messages: 3, bytes: 10_000 };

/// Counts wake-ups.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn topic() -> Arc<Topic> {
    Arc::new(Topic { epoch: 0xe, ..Topic::new(Framing::Sse) })
}

fn publish(topic: &Topic, lines: &[&str]) -> Id {
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line);
    }
    topic.publish(&batch, HISTORY)
}

fn subscribe(topic: &Arc<Topic>, start: StartAt) -> Subscriber {
    topic.subscribe(start, SubscribeOptions { preamble: String::new(), heartbeat: None }, Instant::now())
}

/// Returns everything that can be sent now.
fn sent(subscriber: &mut Subscriber) -> String {
    let mut cx = Context::from_waker(Waker::noop());
    let mut text = String::new();
    while let Poll::Ready(piece) = subscriber.poll_message(&mut cx, Instant::now()) {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

#[test]
fn all_subscribers_share_the_same_bytes() {
    let topic = topic();
    let mut subscribers = [subscribe(&topic, StartAt::Last(0)), subscribe(&topic, StartAt::Last(0))];
    assert_eq!(publish(&topic, &["one", "two"]), Id { epoch: 0xe, number: 2 });
    let mut cx = Context::from_waker(Waker::noop());
    let pieces = subscribers.each_mut().map(|l| match l.poll_message(&mut cx, Instant::now()) {
        Poll::Ready(piece) => piece,
        other @ Poll::Pending => panic!("{other:?}"),
    });
    assert_eq!(pieces[0], "id: e-1\ndata: one\n\nid: e-2\ndata: two\n\n");
    assert_eq!(pieces[0].as_ptr(), pieces[1].as_ptr(), "one copy for all");
}

#[test]
fn a_subscriber_resumes_after_the_last_message_it_has() {
    let topic = topic();
    for line in ["1", "2", "3", "4"] {
        publish(&topic, &[line]);
    }
    let id = |number| StartAt::After(Id { epoch: 0xe, number });
    let (two, three, four) = ("id: e-2\ndata: 2\n\n", "id: e-3\ndata: 3\n\n", "id: e-4\ndata: 4\n\n");
    let all = format!("{two}{three}{four}");
    for (start, expected) in [
        (StartAt::Last(0), String::new()),
        (StartAt::Last(1), four.to_owned()),
        (StartAt::Last(u64::MAX), all.clone()),
        (id(4), String::new()),
        (id(2), format!("{three}{four}")),
        (id(1), all.clone()),
        (id(0), format!("event: gap\ndata: {{\"missing\":1}}\n\n{all}")),
        (id(5), format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
        (id(u64::MAX), format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
        (
            StartAt::After(Id { epoch: 0xd, number: 3 }),
            format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}"),
        ),
        (StartAt::Unknown, format!("event: gap\ndata: {{\"missing\":null}}\n\n{all}")),
    ] {
        assert_eq!(sent(&mut subscribe(&topic, start)), expected, "{start:?}");
    }
}

#[test]
fn a_waiting_subscriber_is_woken_once() {
    let topic = topic();
    let counters: Vec<_> = (0..3 * WAKE_BATCH).map(|_| Arc::new(CountingWaker::default())).collect();
    let mut subscribers: Vec<_> = counters.iter().map(|_| subscribe(&topic, StartAt::Last(0))).collect();
    for (subscriber, counter) in subscribers.iter_mut().zip(&counters) {
        let waker = Waker::from(counter.clone());
        assert!(subscriber.poll_message(&mut Context::from_waker(&waker), Instant::now()).is_pending());
    }
    publish(&topic, &["one", "two"]);
    publish(&topic, &["three"]);
    publish(&topic, &[]);
    assert!(
        counters.iter().all(|counter| counter.0.load(Ordering::Relaxed) == 1),
        "no subscriber waits after the first message"
    );
}

#[test]
fn a_slow_subscriber_gets_a_gap_notice_and_a_stalled_one_is_dropped() {
    let topic = topic();
    let mut subscriber = subscribe(&topic, StartAt::Last(0));
    let mut cx = Context::from_waker(Waker::noop());
    for line in ["1", "2", "3"] {
        publish(&topic, &[line]);
        assert!(subscriber.poll_blocked(&mut cx, Instant::now()).is_pending());
    }
    publish(&topic, &["4"]);
    assert!(subscriber.poll_blocked(&mut cx, Instant::now()).is_ready());
    assert!(sent(&mut subscriber).starts_with("event: gap\ndata: {\"missing\":1}\n\nid: e-2\n"));
    assert!(subscriber.poll_blocked(&mut cx, Instant::now()).is_pending());
}

#[test]
fn a_heartbeat_is_sent_when_it_is_due() {
    let topic = topic();
    let start = Instant::now();
    let longest = Duration::from_secs(20);
    let options = SubscribeOptions { preamble: "retry: 1\n\n".to_owned(), heartbeat: Some(longest) };
    let mut subscriber = topic.subscribe(StartAt::Last(0), options, start);
    let mut cx = Context::from_waker(Waker::noop());
    let mut poll = |subscriber: &mut Subscriber, now| match subscriber.poll_message(&mut cx, now) {
        Poll::Ready(piece) => piece,
        Poll::Pending => Bytes::new(),
    };
    assert_eq!(poll(&mut subscriber, start), "retry: 1\n\n");
    let due = subscriber.due().unwrap();
    assert!(due >= start + longest.mul_f64(0.74) && due <= start + longest);
    assert_eq!(poll(&mut subscriber, start), "");
    assert_eq!(poll(&mut subscriber, due), ":\n\n");
    assert_eq!(poll(&mut subscriber, due), "");
    let later = due + Duration::from_secs(5);
    publish(&topic, &["x"]);
    assert_eq!(poll(&mut subscriber, later), "id: e-1\ndata: x\n\n");
    let next = subscriber.due().unwrap();
    assert_eq!(next - later, due - start, "a message counts as a heartbeat");
    assert!(subscriber.poll_blocked(&mut cx, next).is_pending());
    assert!(subscriber.due().unwrap() > next, "a stalled client does not become due repeatedly");
}

#[test]
fn heartbeat_intervals_differ() {
    let longest = Duration::from_secs(20);
    let mut periods: Vec<_> = (0..1000).map(|slot| heartbeat_interval(longest, slot)).collect();
    periods.sort_unstable();
    assert!(periods[0] >= longest.mul_f64(0.75) && periods[999] <= longest);
    assert!(periods.windows(2).all(|pair| pair[1] < pair[0] + Duration::from_millis(20)));
}

#[test]
fn a_topic_without_subscribers_expires() {
    let topic = topic();
    let hour = Duration::from_hours(1);
    assert!(topic.is_expired(Instant::now(), hour), "nothing was published");
    let subscriber = subscribe(&topic, StartAt::Last(0));
    assert!(!topic.is_expired(Instant::now() + 2 * hour, hour), "it has a subscriber");
    publish(&topic, &["x"]);
    drop(subscriber);
    assert!(!topic.is_expired(Instant::now(), hour), "a subscriber may come back");
    assert!(!topic.is_idle(Instant::now(), hour) && topic.is_idle(Instant::now() + hour, hour));
    assert!(topic.is_expired(Instant::now() + 2 * hour, hour));
}

#[test]
fn a_subscriber_is_small() {
    // With its connection, it must not exceed 1.5 KiB.
    assert!(size_of::<Subscriber>() <= 128, "{} bytes", size_of::<Subscriber>());
}

#[test]
fn no_message_is_lost_between_threads() {
    const LINES: usize = 2000;
    let topic = topic();
    let history = History { messages: 2 * LINES as u64, bytes: u64::MAX };
    let publisher = |topic: Arc<Topic>| {
        move || {
            for _ in 0..LINES {
                let mut batch = Batch::default();
                batch.push("x");
                topic.publish(&batch, history);
            }
        }
    };
    let mut subscribers: Vec<_> = (0..4).map(|_| subscribe(&topic, StartAt::Last(0))).collect();
    std::thread::scope(|scope| {
        scope.spawn(publisher(topic.clone()));
        scope.spawn(publisher(topic.clone()));
        for subscriber in &mut subscribers {
            scope.spawn(move || {
                // Parks until it is woken: after a lost wake-up the test does not end.
                let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                let mut cx = Context::from_waker(&waker);
                let mut events = 0;
                while events < 2 * LINES {
                    match subscriber.poll_message(&mut cx, Instant::now()) {
                        Poll::Ready(piece) => {
                            events += piece.windows(2).filter(|pair| pair == b"\n\n").count();
                        }
                        Poll::Pending => std::thread::park(),
                    }
                }
            });
        }
    });
    assert!(subscribers.iter().all(|subscriber| subscriber.next == 2 * LINES as u64 + 1));
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
