//! What a connection holds while its client waits for a response and has sent more, counted where memory is allocated.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rudy_net::engine::{self, Engine, Options, Report, Source};
use rudy_net::listen::{Address, Bound, Inherited, Listener};
use rudy_net::{Client, Limits, Outcome, Reply, Request, Service};

/// Bytes that are allocated at this time.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe by its signature; the work is the system's")]
// SAFETY: every call is passed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONNECTIONS: usize = 50;
/// The connection's task, its exchange, and what its handler keeps.
const SMALL: usize = 3 * 1024;
/// How long is waited for what must come. Only a failing test waits so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Never answers; what it is at is dropped with the connection.
struct Silent(Arc<Limits>);

impl Service for Silent {
    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        Reply::Later(Box::pin(async move {
            let _body_that_is_not_read = request;
            std::future::pending().await
        }))
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.0
    }

    fn refused(&self, _client: &Client<'_>, _reason: &str, _outcome: &Outcome) {}
}

struct Fixed(Arc<Silent>);

impl Source for Fixed {
    type Service = Silent;
    type Current = Arc<Silent>;

    fn current(&self) -> Arc<Silent> {
        self.0.clone()
    }
}

fn server() -> (Box<dyn Engine>, SocketAddr) {
    let options = Options { cores: NonZeroUsize::new(1), ..Options::default() };
    let service = Fixed(Arc::new(Silent(Arc::default())));
    let engine = engine::start(&options, Arc::new(service), Arc::new(|_: &Report| {})).unwrap();
    let address: Address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&address, engine.workers().len(), &Inherited::default()).unwrap();
    let [Bound::Ip(bound), ..] = listener.bound() else { panic!("a TCP address") };
    let bound = *bound;
    engine.listen(listener).unwrap();
    (engine, bound)
}

/// One test, so that little else allocates.
#[test]
fn a_connection_that_waits_holds_as_much_as_a_head_may_have_at_most() {
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head_bytes = Limits::default().http.head_bytes;
    // A buffer has room for a quarter more than it holds.
    let full = head_bytes + head_bytes / 4 + SMALL;
    let pipeline = GET.repeat(60 * 1024 / GET.len());
    for (name, request, most) in [
        ("nothing", GET.to_owned(), SMALL),
        ("a pipeline", pipeline.clone(), full),
        ("a body that is not read", POST.to_owned() + &pipeline, full),
        ("chunks that are not read", CHUNKED.to_owned() + &"1\r\na\r\n".repeat(10_000), full),
    ] {
        let held = held_by_each(&request);
        assert!(held <= most, "{name}: {held} bytes, of {most} at most");
    }
}

/// Bytes that each of many connections holds whose clients have sent this, and wait.
fn held_by_each(request: &str) -> usize {
    let (engine, address) = server();
    let counters = &engine.workers()[0].counters;
    let connect = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // What is allocated once: the thread's buffers, the first block of the timers.
    let first: Vec<_> = (0..64).map(|_| connect()).collect();
    let requests = |count: usize| {
        let deadline = Instant::now() + PATIENCE;
        while counters.requests.get() < count as u64 {
            assert!(Instant::now() < deadline, "{} of {count} requests", counters.requests.get());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    requests(first.len());
    let mut streams = Vec::with_capacity(CONNECTIONS);
    let before = HELD.load(Ordering::Relaxed);
    streams.extend((0..CONNECTIONS).map(|_| connect()));
    requests(first.len() + CONNECTIONS);
    // Each has read all that it is willing to, when one that came later has been refused.
    let mut last = TcpStream::connect(address).unwrap();
    last.write_all(b"bad\r\n\r\n").unwrap();
    last.read_to_end(&mut Vec::new()).unwrap();
    HELD.load(Ordering::Relaxed).saturating_sub(before) / CONNECTIONS
}
