//! The client: many connections on one thread, each piece of an answer with the time at which it came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::Outcome;

/// Connections opened between two looks at those that there are, and the pause after them: 2,000 a second.
const OPENED_AT_ONCE: u32 = 20;
const OPENING_PAUSE: Duration = Duration::from_millis(10);

/// Streams that are being read.
pub(super) struct Streams {
    poller: rustix::fd::OwnedFd,
    open: Vec<Stream>,
    /// What a piece contains once, and nothing else does.
    mark: &'static [u8],
    interval: Duration,
    buffer: Vec<u8>,
}

struct Stream {
    socket: TcpStream,
    pieces: u32,
    first: Option<Instant>,
}

/// What came while the streams were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Pieces of all streams together.
    pub(super) pieces: u64,
    /// How late each piece after its stream's first was, in microseconds; 0 for early ones.
    pub(super) late_us: Vec<u64>,
    pub(super) early: u64,
}

impl Seen {
    /// The value that this share of the pieces does not exceed, in milliseconds.
    pub(super) fn late_ms(&mut self, share: f64) -> f64 {
        self.late_us.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of a count of some hundred thousands"
        )]
        let rank = (share * self.late_us.len() as f64).ceil() as usize;
        let value = self.late_us.get(rank.max(1) - 1).copied().unwrap_or_default();
        Duration::from_micros(value).as_secs_f64() * 1000.0
    }
}

impl Streams {
    /// Opens `count` streams, the answer to `GET target(number)` on each, at a bounded pace, and reads them meanwhile.
    pub(super) fn open(
        address: SocketAddr,
        count: u32,
        target: impl Fn(u32) -> String,
        mark: &'static [u8],
        interval: Duration,
    ) -> Outcome<Self> {
        let failed = |error: io::Error| format!("opening {count} streams: {error}");
        let poller = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut all = Self { poller, open: Vec::new(), mark, interval, buffer: vec![0; 64 * 1024] };
        for number in 0..count {
            all.add(address, &target(number)).map_err(failed)?;
            if number % OPENED_AT_ONCE == 0 {
                all.read_for(OPENING_PAUSE, &mut Seen::default())?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, address: SocketAddr, target: &str) -> io::Result<()> {
        let mut socket = TcpStream::connect(address)?;
        write!(socket, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        socket.set_nonblocking(true)?;
        let key = EventData::new_u64(self.open.len() as u64);
        epoll::add(&self.poller, &socket, key, EventFlags::IN)?;
        self.open.push(Stream { socket, pieces: 0, first: None });
        Ok(())
    }

    /// Reads what comes in this time.
    pub(super) fn read_for(&mut self, time: Duration, seen: &mut Seen) -> Outcome {
        let until = Instant::now() + time;
        let mut events = Vec::with_capacity(1024);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos().max(1)) };
            events.clear();
            epoll::wait(&self.poller, spare_capacity(&mut events), Some(&timeout))
                .map_err(|error| format!("waiting for the streams: {error}"))?;
            for event in &events {
                let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                self.read(number, seen).map_err(|error| format!("stream {number}: {error}"))?;
            }
        }
    }

    fn read(&mut self, number: usize, seen: &mut Seen) -> io::Result<()> {
        let stream = &mut self.open[number];
        let read = stream.socket.read(&mut self.buffer)?;
        if read == 0 {
            return Err(io::Error::other("the server closed it"));
        }
        let now = Instant::now();
        let pieces =
            self.buffer[..read].windows(self.mark.len()).filter(|window| *window == self.mark).count();
        for _ in 0..pieces {
            let first = *stream.first.get_or_insert(now);
            let due = first + self.interval * stream.pieces;
            stream.pieces += 1;
            seen.pieces += 1;
            if stream.pieces > 1 {
                seen.early += u64::from(now < due);
                let late = now.saturating_duration_since(due).as_micros();
                seen.late_us.push(u64::try_from(late).unwrap_or(u64::MAX));
            }
        }
        Ok(())
    }

    /// How many streams have had no piece at all.
    pub(super) fn silent(&self) -> usize {
        self.open.iter().filter(|stream| stream.first.is_none()).count()
    }
}

/// Asks `count` times at once, each on a connection of its own, and waits for all the answers: how many were 200, and the
/// time until the last.
pub(super) fn burst(address: SocketAddr, count: usize, target: &str) -> (usize, Duration) {
    let start = Instant::now();
    let asked: Vec<_> = (0..count)
        .map(|_| {
            let target = target.to_owned();
            thread::Builder::new().stack_size(64 * 1024).spawn(move || ask(address, &target).unwrap_or(false))
        })
        .collect();
    let good = asked.into_iter().filter_map(Result::ok).filter_map(|thread| thread.join().ok());
    (good.filter(|good| *good).count(), start.elapsed())
}

fn ask(address: SocketAddr, target: &str) -> io::Result<bool> {
    let mut socket = TcpStream::connect(address)?;
    write!(socket, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_pieces_is_a_rank_and_not_an_average() {
        let mut seen = Seen { late_us: (1..=1000).rev().map(|ms| ms * 1000).collect(), ..Seen::default() };
        for (share, ms) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0), (0.0, 1.0)] {
            assert!((seen.late_ms(share) - ms).abs() < 1e-9, "{share}");
        }
        assert!(Seen::default().late_ms(0.5).abs() < 1e-9);
    }
}
