//! Behaviour of the engines with a thread for each connection.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rudy_net::engine::{Engine, Model, Options, Problem, Report};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{
    Greeter, LAST_REQUEST, REQUEST, assert_greeted, eventually, exchange, is_child, listen_tcp, read_all,
    start, sum, waiting,
};

fn options(model: Model, threads_max: usize) -> Options {
    Options { model, threads_max: NonZeroUsize::new(threads_max), ..Options::default() }
}

fn pool(threads: usize) -> Model {
    Model::Pool(NonZeroUsize::new(threads).unwrap())
}

/// Sends a request on a new connection, and reads to the end on a new thread.
fn ask(address: SocketAddr) -> JoinHandle<String> {
    let stream = ask_here(address);
    std::thread::spawn(|| read_all(stream))
}

fn queued(engine: &dyn Engine) -> u64 {
    sum(engine, |counters| &counters.queued)
}

#[test]
fn connections_without_a_free_thread_wait_and_are_counted() {
    for options in [options(Model::Thread, 2), options(pool(2), 1), options(Model::Serial, 1)] {
        let threads = if options.model == Model::Serial { 1 } else { 2 };
        let (service, called, permits) = waiting();
        let (engine, reports) = start(&options, service);
        let address = listen_tcp(&*engine);
        let clients: Vec<_> = (0..6).map(|_| ask(address)).collect();
        for responses in 0..6 - threads {
            // As many requests are in progress as there are threads; each response lets another one start.
            let expected = (responses + threads) as u64;
            eventually("all threads are busy", || called.load(Ordering::SeqCst) == expected);
            eventually("the next one waits", || queued(&*engine) > responses as u64);
            permits.add_permits(1);
        }
        permits.add_permits(threads);
        for client in clients {
            assert_greeted(&client.join().unwrap());
        }
        assert_eq!(called.load(Ordering::SeqCst), 6);
        assert_eq!(queued(&*engine), 6 - threads as u64, "{}", options.model);
        assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0, "no connection is rejected");
        assert!(reports.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn connections_that_wait_for_a_thread_receive_a_response_before_the_end() {
    let (service, called, permits) = waiting();
    let (engine, _) = start(&options(Model::Serial, 1), service);
    let address = listen_tcp(&*engine);
    let clients: Vec<_> = (0..5).map(|_| ask(address)).collect();
    eventually("the thread is busy", || called.load(Ordering::SeqCst) == 1);
    permits.add_permits(5);
    assert_eq!(engine.stop(Duration::from_mins(10)).await.aborted, 0);
    for client in clients {
        assert_greeted(&client.join().unwrap());
    }
}

#[test]
fn a_dropped_engine_aborts_connections_with_and_without_a_thread() {
    let (service, called, _permits) = waiting();
    let (engine, _) = start(&options(Model::Thread, 1), service);
    let address = listen_tcp(&*engine);
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut client in &clients {
        client.write_all(REQUEST).unwrap();
    }
    eventually("the thread is busy", || called.load(Ordering::SeqCst) == 1);
    drop(engine);
    for mut client in clients {
        assert!(!matches!(client.read(&mut [0]), Ok(1..)));
    }
}

/// Returns the names of this process's connection threads.
fn connection_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("rudy-conn-")).collect()
}

#[test]
fn a_thread_ends_with_its_connection_but_pool_threads_stay() {
    if !is_child("threads::a_thread_ends_with_its_connection_but_pool_threads_stay") {
        return;
    }
    let greeter = || Greeter { limits: Arc::default() };
    let (engine, _) = start(&options(Model::Thread, 100), greeter());
    let address = listen_tcp(&*engine);
    let mut clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
    for client in &clients {
        assert_greeted(&exchange(client, REQUEST).unwrap());
    }
    assert_eq!(connection_threads().len(), 5);
    clients.truncate(2);
    eventually("the threads of three have ended", || connection_threads().len() == 2);
    for client in &clients {
        assert_greeted(&exchange(client, REQUEST).unwrap());
    }
    drop(engine);
    eventually("all have ended", || connection_threads().is_empty());

    let (engine, _) = start(&options(pool(3), 1), greeter());
    eventually("they have names", || connection_threads().len() == 3);
    let address = listen_tcp(&*engine);
    for _ in 0..10 {
        assert_greeted(&exchange(TcpStream::connect(address).unwrap(), LAST_REQUEST).unwrap());
    }
    assert_eq!(connection_threads().len(), 3);
    drop(engine);
    eventually("all have ended", || connection_threads().is_empty());
}

#[test]
fn a_connection_waits_until_a_thread_can_be_started() {
    if !is_child("threads::a_connection_waits_until_a_thread_can_be_started") {
        return;
    }
    // The thread limit does not apply to root. The engine's threads inherit the user of this one.
    let _ = rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534));
    let (engine, reports) = start(&options(Model::Thread, 100), Greeter { limits: Arc::default() });
    let address = listen_tcp(&*engine);
    let unlimited = getrlimit(Resource::Nproc);
    let limited = Rlimit { current: Some(0), ..unlimited };

    let first = TcpStream::connect(address).unwrap();
    assert_greeted(&exchange(&first, REQUEST).unwrap());
    setrlimit(Resource::Nproc, limited).unwrap();
    let second = ask_here(address);
    eventually("the problem is reported", || reports.lock().unwrap().len() == 1);
    assert_greeted(&exchange(&first, REQUEST).unwrap());
    setrlimit(Resource::Nproc, unlimited).unwrap();
    assert_greeted(&read_all(second));
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0);
    let seen = reports.lock().unwrap().clone();
    assert!(matches!(&seen[0], Report::Started { problem: Problem::Threads, .. }), "{seen:?}");
}

#[tokio::test]
async fn a_connection_without_a_thread_does_not_delay_a_stop() {
    if !is_child("threads::a_connection_without_a_thread_does_not_delay_a_stop") {
        return;
    }
    let _ = rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534));
    let (engine, reports) = start(&options(Model::Thread, 100), Greeter { limits: Arc::default() });
    let address = listen_tcp(&*engine);
    setrlimit(Resource::Nproc, Rlimit { current: Some(0), ..getrlimit(Resource::Nproc) }).unwrap();
    let mut stream = ask_here(address);
    eventually("the problem is reported", || !reports.lock().unwrap().is_empty());
    assert_eq!(engine.stop(Duration::ZERO).await.aborted, 1);
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
}

fn ask_here(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(LAST_REQUEST).unwrap();
    stream
}
