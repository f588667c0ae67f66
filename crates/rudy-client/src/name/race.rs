//! Connects to one of the addresses of a name: RFC 8305 (Happy Eyeballs) in its simplest form.
//!
//! The addresses are tried in order. The next attempt starts when one fails, or after [`ATTEMPT_DELAY`];
//! earlier attempts continue, and the first connection is used. If all attempts fail, the name is looked up
//! and new addresses are tried. One `connect_timeout` covers everything.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use rudy_runtime::clock;
use tokio::time::timeout;

use super::Name;
use crate::Socket;

/// How long to wait for an address before the next one is tried in parallel (RFC 8305 §5, "Connection Attempt
/// Delay").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The maximum number of addresses in an error message.
const SHOWN_MAX: usize = 4;

impl Name {
    /// Connects to one of the addresses within `time`.
    ///
    /// # Errors
    ///
    /// There is no address, or none accepts a connection. The error lists the reason for each.
    pub(crate) async fn connect(&self, time: Duration) -> io::Result<Socket> {
        self.race(time, Socket::connect).await
    }

    /// As [`Self::connect`], with another function to connect.
    pub(super) async fn race<T, F>(&self, time: Duration, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
    where
        F: Future<Output = io::Result<T>>,
    {
        let waiting = self.alternatives.order(clock::now());
        let mut race = Race { name: self, connect, waiting, running: Vec::new(), failed: Vec::new() };
        let connected = timeout(time, race.run()).await.unwrap_or_default();
        connected.ok_or_else(|| race.failure(time))
    }
}

/// The attempts for one connection.
struct Race<'a, C, F> {
    name: &'a Name,
    connect: C,
    /// Not tried yet.
    waiting: Vec<SocketAddr>,
    running: Vec<(SocketAddr, Pin<Box<F>>)>,
    failed: Vec<(SocketAddr, io::Error)>,
}

impl<T, C, F> Race<'_, C, F>
where
    C: Fn(SocketAddr) -> F,
    F: Future<Output = io::Result<T>>,
{
    /// Returns the first connection, or `None` if all attempts fail.
    async fn run(&mut self) -> Option<T> {
        if let Some(connected) = self.try_waiting().await {
            return Some(connected);
        }
        let mut refreshed = pin!(self.name.refresh());
        tokio::select! {
            biased;
            Some(connected) = self.finish() => return Some(connected),
            () = &mut refreshed => {}
        }
        let addresses = self.name.alternatives.order(clock::now());
        self.waiting = addresses.into_iter().filter(|address| !self.has_tried(address)).collect();
        match self.try_waiting().await {
            Some(connected) => Some(connected),
            None => self.finish().await,
        }
    }

    /// Tries the remaining addresses. Returns `None` when the last attempt has failed or has had its delay.
    async fn try_waiting(&mut self) -> Option<T> {
        for address in std::mem::take(&mut self.waiting) {
            self.running.push((address, Box::pin((self.connect)(address))));
            match timeout(ATTEMPT_DELAY, self.next_result()).await {
                Ok(Some(connected)) => return Some(connected),
                Ok(None) => {}
                Err(_) => self.name.alternatives.avoid(address, clock::now()),
            }
        }
        None
    }

    /// Waits for the running attempts. Returns `None` when all have failed.
    async fn finish(&mut self) -> Option<T> {
        while !self.running.is_empty() {
            if let Some(connected) = self.next_result().await {
                return Some(connected);
            }
        }
        None
    }

    /// Waits until an attempt ends. Returns `None` if it failed.
    async fn next_result(&mut self) -> Option<T> {
        let running = &mut self.running;
        let (index, connected) = poll_fn(|cx| {
            let mut attempts = running.iter_mut().enumerate();
            let ended = attempts.find_map(|(index, (_, attempt))| match attempt.as_mut().poll(cx) {
                Poll::Ready(connected) => Some((index, connected)),
                Poll::Pending => None,
            });
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let (address, _) = self.running.swap_remove(index);
        connected
            .inspect_err(|_| self.name.alternatives.avoid(address, clock::now()))
            .map_err(|error| self.failed.push((address, error)))
            .ok()
    }

    fn has_tried(&self, address: &SocketAddr) -> bool {
        self.failed.iter().any(|(tried, _)| tried == address)
            || self.running.iter().any(|(tried, _)| tried == address)
    }

    /// Returns the error with the addresses that were tried.
    fn failure(&self, time: Duration) -> io::Error {
        let timed_out = self.running.iter().map(|(address, _)| {
            format!("{address} accepts no connection within {time:?} (`connect_timeout`)")
        });
        let failed = self.failed.iter().map(|(address, error)| format!("{address}: {error}"));
        let why: Vec<_> = failed.chain(timed_out).collect();
        if why.is_empty() {
            return io::Error::other(self.name.why_unresolved());
        }
        let more = match why.len().saturating_sub(SHOWN_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        io::Error::other(why[..why.len().min(SHOWN_MAX)].join("; ") + &more)
    }
}
