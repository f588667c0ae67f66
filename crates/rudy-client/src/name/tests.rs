//! Tests of names with scripted lookups, and with simulated connections where no network is needed.

use std::collections::VecDeque;
use std::fs::File;
use std::future::pending;
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_log::ErrorLog;
use tokio::sync::Notify;

use super::Name;
use super::lookup::LookupTiming;
use crate::plain::{Plain, options};
use crate::resolver::{Resolver, ScriptedLookup};
use crate::{CheckoutError, Endpoint, Upstream, Wanted};

const LONG: Duration = Duration::from_mins(1);

/// Lookups only when a request needs one.
const ON_DEMAND: LookupTiming =
    LookupTiming { interval: Duration::from_hours(1), pause: Duration::ZERO, wait_timeout: LONG };

fn at(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn all_at(ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().copied().map(at).collect()
}

/// The result of a lookup: addresses with these ports, or a failure.
type Script = Option<&'static [u16]>;

/// A name whose lookups return these results in order, and then fail.
fn scripted(script: &[Script], timing: LookupTiming) -> Arc<Name> {
    let script = Mutex::new(script.iter().copied().collect::<VecDeque<_>>());
    let look_up = move |host: &str, port: u16| {
        assert_eq!((host, port), ("app", 9000));
        let answer = script.lock().pop_front().flatten();
        answer.map(all_at).ok_or_else(|| io::Error::other("no such host"))
    };
    Arc::new(Name::with("app", 9000, Resolver::Scripted(ScriptedLookup(Arc::new(look_up))), timing))
}

fn log() -> (ErrorLog, File) {
    let file = tempfile::tempfile().unwrap();
    (ErrorLog::to(file.try_clone().unwrap()).unwrap(), file)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

fn connection_refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Runs the lookup task in the background.
fn look_up_periodically(name: &Arc<Name>) {
    let name = name.clone();
    tokio::spawn(async move {
        loop {
            name.look_up(&log().0).await;
            name.next_lookup().await;
        }
    });
}

#[test]
fn after_a_refused_connection_the_next_address_is_tried_at_once() {
    run(async {
        let name = scripted(&[Some(&[1, 2, 3])], LookupTiming::default());
        name.look_up(&log().0).await;
        let tried = Mutex::new(Vec::new());
        let connect = |address: SocketAddr| {
            tried.lock().push(address.port());
            async move { if address.port() < 3 { connection_refused() } else { Ok(address.port()) } }
        };
        assert_eq!(name.race(LONG, connect).await.unwrap(), 3);
        // The failed addresses come last now.
        assert_eq!(name.race(LONG, connect).await.unwrap(), 3);
        assert_eq!(*tried.lock(), [1, 2, 3, 3]);
    });
}

#[test]
fn a_silent_address_delays_no_other_and_may_still_connect() {
    run(async {
        let name = scripted(&[Some(&[1, 2])], LookupTiming::default());
        name.look_up(&log().0).await;
        let silent = |address: SocketAddr| async move {
            if address.port() == 1 { pending().await } else { Ok(address.port()) }
        };
        assert_eq!(name.race(LONG, silent).await.unwrap(), 2);
        assert_eq!(name.alternatives.order(Instant::now()), all_at(&[2, 1]));
        // Address 2 comes first now, and connects after the attempt of 1 has started.
        let begun = Notify::new();
        let late = |address: SocketAddr| {
            let begun = &begun;
            async move {
                if address.port() == 2 {
                    begun.notified().await;
                    return Ok(2);
                }
                begun.notify_one();
                pending().await
            }
        };
        assert_eq!(name.race(LONG, late).await.unwrap(), 2);
    });
}

#[test]
fn all_addresses_share_one_connect_timeout_and_the_error_lists_them() {
    run(async {
        let name = scripted(&[Some(&[1, 2, 3, 4, 5, 6])], LookupTiming::default());
        name.look_up(&log().0).await;
        let connect = |address: SocketAddr| async move {
            if address.port() == 6 { pending::<io::Result<()>>().await } else { connection_refused() }
        };
        let time = Duration::from_millis(10);
        let expected = "127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused; \
                        127.0.0.1:3: connection refused; 127.0.0.1:4: connection refused; and 2 more";
        assert_eq!(name.race(time, connect).await.unwrap_err().to_string(), expected);
        let expected = "127.0.0.1:6 accepts no connection within 10ms (`connect_timeout`)";
        let name = scripted(&[Some(&[6])], LookupTiming::default());
        name.look_up(&log().0).await;
        assert_eq!(name.race(time, connect).await.unwrap_err().to_string(), expected);
    });
}

#[test]
fn if_no_address_accepts_the_name_is_looked_up_and_new_addresses_are_tried() {
    for is_silent in [false, true] {
        run(async {
            let name = scripted(&[Some(&[1]), Some(&[1, 2])], ON_DEMAND);
            look_up_periodically(&name);
            // The first request waits for the first lookup.
            for expected in [1, 2, 2] {
                let tried = Mutex::new(Vec::new());
                let connect = |address: SocketAddr| {
                    tried.lock().push(address.port());
                    async move {
                        match address.port() {
                            port if port == expected => Ok(port),
                            _ if is_silent => pending().await,
                            _ => connection_refused(),
                        }
                    }
                };
                assert_eq!(name.race(LONG, connect).await.unwrap(), expected);
                let mut tried = tried.into_inner();
                tried.dedup();
                assert!(tried.len() <= 2, "each is tried once: {tried:?}");
            }
            assert_eq!(name.state.borrow().ended, 2);
        });
    }
}

#[test]
fn a_recent_result_is_not_looked_up_again() {
    run(async {
        let name = scripted(&[Some(&[1])], LookupTiming { pause: LONG, ..ON_DEMAND });
        look_up_periodically(&name);
        let connect = |_| async { connection_refused::<()>() };
        for _ in 0..3 {
            let error = name.race(LONG, connect).await.unwrap_err().to_string();
            assert_eq!(error, "127.0.0.1:1: connection refused");
        }
        assert_eq!(name.state.borrow().ended, 1);
        assert!(!name.state.borrow().is_requested);
    });
}

#[test]
fn requests_do_not_wait_for_a_lookup_that_hangs() {
    run(async {
        let (end, ended) = mpsc::channel();
        let ended = Mutex::new(ended);
        let look_up = move |_: &str, _| ended.lock().recv().map_err(io::Error::other);
        let timing = LookupTiming { wait_timeout: Duration::from_millis(10), ..ON_DEMAND };
        let name =
            Arc::new(Name::with("app", 9000, Resolver::Scripted(ScriptedLookup(Arc::new(look_up))), timing));
        look_up_periodically(&name);
        let connect = |address: SocketAddr| async move { Ok(address.port()) };
        for _ in 0..3 {
            let error = name.race(LONG, connect).await.unwrap_err().to_string();
            assert_eq!(error, "the name is being looked up");
        }
        end.send(all_at(&[1])).unwrap();
        drop(name.state.subscribe().wait_for(|state| state.ended == 1).await.unwrap());
        assert_eq!(name.race(LONG, connect).await.unwrap(), 1);
        // Otherwise the runtime would wait for the thread.
        drop(end);
    });
}

#[test]
fn the_last_good_addresses_stay_and_each_change_is_logged_once() {
    let steps: &[(Script, &[u16], &str)] = &[
        (None, &[], "error: app:9000 does not resolve: no such host; requests to it get 502 until it does"),
        (None, &[], ""),
        (Some(&[1]), &[1], "notice: app:9000 resolves to 127.0.0.1"),
        (Some(&[1, 1]), &[1], ""),
        (Some(&[2, 1]), &[2, 1], "notice: app:9000 resolves to 127.0.0.1, 127.0.0.1"),
        (Some(&[1, 2]), &[1, 2], ""),
        (None, &[1, 2], ""),
        (Some(&[]), &[1, 2], ""),
        (Some(&[1, 2]), &[1, 2], "notice: app:9000 resolves to 127.0.0.1, 127.0.0.1"),
    ];
    let script: Vec<_> = steps.iter().map(|(answer, ..)| *answer).collect();
    let name = scripted(&script, LookupTiming::default());
    let (log, mut file) = log();
    run(async {
        for (step, (_, expected, _)) in steps.iter().enumerate() {
            name.look_up(&log).await;
            assert_eq!(name.alternatives.addresses(), all_at(expected), "step {step}");
        }
    });
    log.close();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    let mut expected: Vec<_> = steps.iter().map(|(.., line)| *line).filter(|line| !line.is_empty()).collect();
    // The second failure within a minute is only counted.
    expected.push("error: a name does not resolve (app:9000): 1 more since the last line about it");
    assert_eq!(lines, expected);
}

/// Waits until the client end of an accepted connection is closed.
fn wait_until_closed(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn connections_to_removed_addresses_are_closed_and_lookups_end_with_the_upstream() {
    let listeners = [2, 3].map(|host| TcpListener::bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap());
    let [old, new] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let moved = Arc::new(AtomicBool::new(false));
    let (alive, ended): (Sender<()>, _) = mpsc::channel();
    let has_moved = moved.clone();
    let look_up = move |_: &str, _| {
        let _ = &alive;
        Ok(vec![if has_moved.load(Relaxed) { new } else { old }])
    };
    let name =
        Arc::new(Name::with("app", 9000, Resolver::Scripted(ScriptedLookup(Arc::new(look_up))), ON_DEMAND));
    let upstream = Arc::new(Upstream::<Plain>::new(options(), None, ()));
    upstream.pool().add(0, Endpoint::Name(name.clone()), 3, Instant::now());
    upstream.look_up_names(&log().0).unwrap();
    run(async {
        let open = || async {
            upstream.checkout(&mut Wanted::New.into(), None, || Ok::<_, CheckoutError>(())).await.unwrap()
        };
        let [idle, mut used] = [open().await, open().await];
        assert!(matches!(used.endpoint(), Endpoint::Ip(address) if address == old));
        idle.release();
        assert_eq!(upstream.pool().idle(), 1);
        moved.store(true, Relaxed);
        // The first may wait for a lookup that began before.
        name.refresh().await;
        name.refresh().await;
        wait_until_closed(&listeners[0]);
        // The pool updates its count just after the socket is closed.
        while upstream.pool().open() > 1 {
            thread::yield_now();
        }
        assert_eq!((upstream.pool().open(), upstream.pool().idle()), (1, 0), "the one in use stays");
        used.release();
        wait_until_closed(&listeners[0]);
        while upstream.pool().open() > 0 {
            thread::yield_now();
        }
        let mut other = open().await;
        assert!(matches!(other.endpoint(), Endpoint::Ip(address) if address == new));
        other.release();
        assert_eq!((upstream.pool().open(), upstream.pool().idle()), (1, 1));
    });
    drop((upstream, name));
    assert!(ended.recv_timeout(LONG).is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected));
}
