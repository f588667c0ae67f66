//! The numbers of the workers on their threads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use http::StatusCode;
use rudy_net::engine::{Model, Options};
use rudy_service::{
    Client, ExchangeOutcome, Limits, Reply, Request, Response, Service, WorkerThread, current_runtime,
};
use tokio::runtime::Handle;

use crate::support::{LAST_REQUEST, assert_greeted, eventually, exchange, listen_tcp, start};

/// More than any machine that runs the tests has, so that the numbers cannot come from the cores.
const CORES: usize = 5;

/// The numbers that each thread has had.
type Seen = Arc<Mutex<BTreeMap<String, BTreeSet<Option<usize>>>>>;

struct Numbered {
    limits: Arc<Limits>,
    seen: Seen,
}

impl Service for Numbered {
    fn call(&self, _request: Request, _client: &Client<'_>) -> Reply {
        let seen = self.seen.clone();
        Reply::Later(Box::pin(async move {
            note(&seen);
            // On the thread that the runtime has for it.
            tokio::task::spawn_blocking(|| assert_eq!(current_runtime(), Some(Handle::current().id())))
                .await
                .unwrap();
            note(&seen);
            Response::text(StatusCode::OK, "text/plain", "hello")
        }))
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

fn note(seen: &Seen) {
    assert_eq!(current_runtime(), Some(Handle::current().id()));
    let number = WorkerThread::current().map(WorkerThread::number);
    let id: ThreadId = thread::current().id();
    seen.lock().unwrap().entry(format!("{id:?}")).or_default().insert(number);
}

#[test]
fn each_thread_has_the_number_of_its_worker() {
    assert_eq!(WorkerThread::current(), None, "the thread of a test is no worker");
    for model in Model::all(NonZeroUsize::new(3).unwrap()) {
        let options = Options { model, cores: NonZeroUsize::new(CORES), ..Options::default() };
        let seen = Seen::default();
        let (engine, _) = start(&options, Numbered { limits: Arc::default(), seen: seen.clone() });
        let address = listen_tcp(&*engine);
        assert_eq!(engine.workers().len(), options.worker_count());
        let ask = || {
            let stream = TcpStream::connect(address).unwrap();
            assert_greeted(&exchange(stream, LAST_REQUEST).unwrap());
            seen.lock().unwrap().len()
        };
        if model == Model::PerCore {
            eventually("each worker has had a request", || ask() == CORES);
        } else {
            (0..20).for_each(|_| assert!(ask() > 0));
        }
        let seen = seen.lock().unwrap();
        assert!(seen.values().all(|numbers| numbers.len() == 1), "{model}: {seen:?}");
        assert!(seen.values().flatten().all(Option::is_some), "{model}: {seen:?}");
        let mut numbers: Vec<_> = seen.values().flatten().flatten().copied().collect();
        numbers.sort_unstable();
        match model {
            Model::PerCore => assert_eq!(numbers, (0..CORES).collect::<Vec<_>>(), "{seen:?}"),
            Model::Task | Model::Mailbox => {
                assert!(numbers.iter().all(|number| *number < CORES), "{model}: {seen:?}");
                assert!(numbers.is_sorted_by(|one, next| one < next), "{model}: {seen:?}");
            }
            Model::Serial | Model::Thread | Model::Pool(_) => {
                assert!(numbers.iter().all(|number| *number == 0), "{model}: {seen:?}");
            }
        }
    }
}
