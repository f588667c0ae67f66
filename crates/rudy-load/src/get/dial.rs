//! Connects to a name: looks up its addresses and tries them in turn.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rudy_net::close::CloseMode;
use rustix::event::PollFlags;

use super::error::GetError;
use super::wait::{Waiter, Woken};
use crate::access::look_up;
use crate::transport::{Remote, Transport};
use crate::{AccessError, Failure};

/// Delay before the next address is tried in parallel (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Looks up a name in a separate thread, because the system's resolver cannot be interrupted and may take
/// minutes. An address needs no lookup, and a thread for it would take longer than a request on this machine.
pub(super) fn resolve(
    host: &str,
    port: u16,
    waiter: &Waiter,
    until: Option<Instant>,
) -> Result<Vec<Remote>, GetError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![Remote::Ip((ip, port).into())]);
    }
    let (done, finished) = UnixStream::pair().map_err(GetError::Wait)?;
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    thread::spawn(move || {
        // The receiver is gone if the timeout came first.
        let _ = sender.send(look_up(&name, port));
        drop(finished);
    });
    loop {
        match receiver.try_recv() {
            Ok(found) => return Ok(found?),
            Err(mpsc::TryRecvError::Disconnected) => {
                let reason = io::Error::other("the resolver failed");
                return Err(AccessError::Lookup(host.to_owned(), reason).into());
            }
            Err(mpsc::TryRecvError::Empty) => wait(waiter, &[(done.as_fd(), PollFlags::IN)], until)?,
        }
    }
}

/// Connects to the first address that accepts. Tries the next address after a failure or a delay.
pub(super) fn connect(
    remotes: &[Remote],
    waiter: &Waiter,
    until: Option<Instant>,
) -> Result<(Transport, Remote), GetError> {
    let mut attempts = Attempts { under_way: Vec::new(), failed: io::ErrorKind::NotFound.into() };
    let result = attempts.race(remotes, waiter, until);
    for (_, transport) in attempts.under_way {
        transport.close(CloseMode::Reset);
    }
    result
}

struct Attempts {
    under_way: Vec<(Remote, Transport)>,
    /// The error of the last failed attempt.
    failed: io::Error,
}

impl Attempts {
    fn race(
        &mut self,
        remotes: &[Remote],
        waiter: &Waiter,
        until: Option<Instant>,
    ) -> Result<(Transport, Remote), GetError> {
        let mut rest = remotes.iter();
        let mut next_at = Instant::now();
        loop {
            let now = Instant::now();
            if self.pending.is_empty() || now >= next_at {
                match rest.next() {
                    Some(remote) => {
                        self.begin(remote);
                        next_at = now + ATTEMPT_DELAY;
                        continue;
                    }
                    None if self.pending.is_empty() => {
                        return Err(Failure::Connect(std::mem::replace(
                            &mut self.failed,
                            io::ErrorKind::Other.into(),
                        ))
                        .into());
                    }
                    None => {}
                }
            }
            let next = (rest.len() > 0).then_some(next_at);
            self.wait(waiter, until, next)?;
            let before = self.pending.len();
            if let Some(winner) = self.finish() {
                return Ok(winner);
            }
            if self.pending.len() < before {
                next_at = Instant::now();
            }
        }
    }

    fn begin(&mut self, remote: &Remote) {
        match Transport::connect(remote, None) {
            Ok(transport) => self.under_way.push((remote.clone(), transport)),
            Err(error) => self.failed = error,
        }
    }

    fn wait(&self, waiter: &Waiter, until: Option<Instant>, next: Option<Instant>) -> Result<(), GetError> {
        let sockets = self.under_way.iter().map(|(_, transport)| (transport.as_fd(), PollFlags::OUT));
        let sockets: Vec<_> = sockets.collect();
        match next.filter(|next| until.is_none_or(|until| *next < until)) {
            Some(next) => match waiter.wait(&sockets, Some(next)).map_err(GetError::Wait)? {
                Woken::Interrupted(signal) => Err(GetError::Interrupted(signal)),
                Woken::Ready | Woken::TimedOut => Ok(()),
            },
            None => wait(waiter, &sockets, until),
        }
    }

    /// Removes failed attempts, and returns the first connected one.
    fn finish(&mut self) -> Option<(Transport, Remote)> {
        let mut index = 0;
        while index < self.pending.len() {
            match self.pending[index].1.connected() {
                Ok(true) => {
                    let (remote, transport) = self.under_way.remove(index);
                    return Some((transport, remote));
                }
                Ok(false) => index += 1,
                Err(error) => {
                    self.failed = error;
                    self.pending.remove(index).1.close(CloseMode::Reset);
                }
            }
        }
        None
    }
}

fn wait(
    waiter: &Waiter,
    sockets: &[(std::os::fd::BorrowedFd<'_>, PollFlags)],
    until: Option<Instant>,
) -> Result<(), GetError> {
    match waiter.wait(sockets, until).map_err(GetError::Wait)? {
        Woken::Ready => Ok(()),
        Woken::TimedOut => Err(GetError::ConnectTimeout),
        Woken::Interrupted(signal) => Err(GetError::Interrupted(signal)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn open() -> (TcpListener, Remote) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Remote::Ip(listener.local_addr().unwrap());
        (listener, remote)
    }

    /// A bound port that does not listen. While it is bound, no other process can use it.
    fn closed() -> (Socket, Remote) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let remote = Remote::Ip(socket.local_addr().unwrap().as_socket().unwrap());
        (socket, remote)
    }

    /// An address that never responds: its accept queue is full, and Linux drops further connections.
    fn silent(waiter: &Waiter) -> (Socket, Vec<Transport>, Remote) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let remote = Remote::Ip(listener.local_addr().unwrap().as_socket().unwrap());
        let mut queue = Vec::new();
        loop {
            let transport = Transport::connect(&remote, None).unwrap();
            let soon = Instant::now() + Duration::from_millis(200);
            let woken = waiter.wait(&[(transport.as_fd(), PollFlags::OUT)], Some(soon)).unwrap();
            queue.push(transport);
            if woken == Woken::TimedOut {
                return (listener, queue, remote);
            }
        }
    }

    /// The deadline has passed, so that every wait for a thread fails.
    #[test]
    fn an_address_is_not_looked_up_by_a_thread() {
        let waiter = Waiter::catch().unwrap();
        let now = Some(Instant::now());
        for (host, address) in [("127.0.0.1", "127.0.0.1:81"), ("::1", "[::1]:81")] {
            let remotes = resolve(host, 81, &waiter, now).unwrap();
            assert_eq!(remotes, [Remote::Ip(address.parse().unwrap())]);
        }
    }

    #[test]
    fn the_next_address_is_tried_when_one_refuses_or_does_not_respond() {
        let waiter = Waiter::catch().unwrap();
        let (_listener, open) = open();
        let (_full, _queue, silent) = silent(&waiter);
        let ((_held, closed), (_other, other)) = (closed(), closed());
        let nowhere = Remote::Unix("/nowhere".into());
        for before in [
            vec![],
            vec![closed.clone()],
            vec![closed.clone(), other],
            vec![nowhere],
            vec![silent.clone()],
            vec![silent, closed],
        ] {
            let remotes = [&before[..], std::slice::from_ref(&open)].concat();
            let (transport, reached) = connect(&remotes, &waiter, None).unwrap();
            assert_eq!(reached, open, "{before:?}");
            assert!(transport.connected().unwrap());
        }
    }

    #[test]
    fn without_a_reachable_address_the_last_error_is_reported() {
        let waiter = Waiter::catch().unwrap();
        let ((_held, closed), (_other, other)) = (closed(), closed());
        let refused = connect(&[closed.clone(), other], &waiter, None).unwrap_err();
        assert!(refused.to_string().contains("refused"), "{refused}");
        let (_full, _queue, silent) = silent(&waiter);
        let until = Instant::now() + Duration::from_millis(20);
        let late = connect(&[closed, silent], &waiter, Some(until)).unwrap_err();
        assert!(matches!(late, GetError::ConnectTimeout), "{late}");
    }
}
