//! Connects to a name: looks up its addresses and tries them in turn (Happy Eyeballs, RFC 8305).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rudy_socket::close::CloseMode;
use rustix::event::PollFlags;

use crate::access::look_up;
use crate::waiter::{WaitResult, Waiter};
use crate::{AccessError, Error, Failure, Remote, Transport};

/// Delay before the next address is tried in parallel (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Looks up a name in a separate thread, because the system's resolver cannot be interrupted and may take minutes. An
/// IP address needs no lookup; a thread would take longer than a request to this machine.
pub fn resolve(host: &str, port: u16, waiter: &Waiter, until: Option<Instant>) -> Result<Vec<Remote>, Error> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![Remote::Ip((ip, port).into())]);
    }
    // The second end is closed when the lookup is done, which makes the first one readable.
    let (lookup_done, done_signal) = UnixStream::pair().map_err(Error::Wait)?;
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    thread::spawn(move || {
        // The receiver is gone if the timeout came first.
        let _ = sender.send(look_up(&name, port));
        drop(done_signal);
    });
    loop {
        match receiver.try_recv() {
            Ok(result) => return Ok(result?),
            Err(mpsc::TryRecvError::Disconnected) => {
                let reason = io::Error::other("the resolver failed");
                return Err(AccessError::Lookup(host.to_owned(), reason).into());
            }
            Err(mpsc::TryRecvError::Empty) => wait(waiter, &[(lookup_done.as_fd(), PollFlags::IN)], until)?,
        }
    }
}

/// Connects to the first address that accepts. Tries the next address after a failure or a delay.
pub fn connect(
    remotes: &[Remote],
    waiter: &Waiter,
    until: Option<Instant>,
) -> Result<(Transport, Remote), Error> {
    let mut attempts = Attempts { in_flight: Vec::new(), last_error: io::ErrorKind::NotFound.into() };
    let result = attempts.connect_first(remotes, waiter, until);
    for (_, transport) in attempts.in_flight {
        transport.close(CloseMode::Reset);
    }
    result
}

/// The connection attempts to the addresses of a server.
struct Attempts {
    in_flight: Vec<(Remote, Transport)>,
    /// The error of the last failed attempt.
    last_error: io::Error,
}

impl Attempts {
    fn connect_first(
        &mut self,
        remotes: &[Remote],
        waiter: &Waiter,
        until: Option<Instant>,
    ) -> Result<(Transport, Remote), Error> {
        let mut remaining = remotes.iter();
        let mut next_attempt = Instant::now();
        loop {
            let now = Instant::now();
            if self.in_flight.is_empty() || now >= next_attempt {
                match remaining.next() {
                    Some(remote) => {
                        self.start(remote);
                        next_attempt = now + ATTEMPT_DELAY;
                        continue;
                    }
                    None if self.in_flight.is_empty() => {
                        return Err(Failure::Connect(std::mem::replace(
                            &mut self.last_error,
                            io::ErrorKind::Other.into(),
                        ))
                        .into());
                    }
                    None => {}
                }
            }
            let next = (remaining.len() > 0).then_some(next_attempt);
            self.wait(waiter, until, next)?;
            let before = self.in_flight.len();
            if let Some(connected) = self.take_connected() {
                return Ok(connected);
            }
            if self.in_flight.len() < before {
                next_attempt = Instant::now();
            }
        }
    }

    fn start(&mut self, remote: &Remote) {
        match Transport::connect(remote, None) {
            Ok(transport) => self.in_flight.push((remote.clone(), transport)),
            Err(error) => self.last_error = error,
        }
    }

    fn wait(&self, waiter: &Waiter, until: Option<Instant>, next: Option<Instant>) -> Result<(), Error> {
        let sockets = self.in_flight.iter().map(|(_, transport)| (transport.as_fd(), PollFlags::OUT));
        let sockets: Vec<_> = sockets.collect();
        match next.filter(|next| until.is_none_or(|until| *next < until)) {
            Some(next) => match waiter.wait(&sockets, Some(next)).map_err(Error::Wait)? {
                WaitResult::Interrupted(signal) => Err(Error::Interrupted(signal)),
                WaitResult::Ready | WaitResult::TimedOut => Ok(()),
            },
            None => wait(waiter, &sockets, until),
        }
    }

    /// Removes failed attempts, and returns the first connected one.
    fn take_connected(&mut self) -> Option<(Transport, Remote)> {
        let mut index = 0;
        while index < self.in_flight.len() {
            match self.in_flight[index].1.connected() {
                Ok(true) => {
                    let (remote, transport) = self.in_flight.remove(index);
                    return Some((transport, remote));
                }
                Ok(false) => index += 1,
                Err(error) => {
                    self.last_error = error;
                    self.in_flight.remove(index).1.close(CloseMode::Reset);
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
) -> Result<(), Error> {
    match waiter.wait(sockets, until).map_err(Error::Wait)? {
        WaitResult::Ready => Ok(()),
        WaitResult::TimedOut => Err(Error::ConnectTimeout),
        WaitResult::Interrupted(signal) => Err(Error::Interrupted(signal)),
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
    fn unresponsive(waiter: &Waiter) -> (Socket, Vec<Transport>, Remote) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let remote = Remote::Ip(listener.local_addr().unwrap().as_socket().unwrap());
        let mut queue = Vec::new();
        loop {
            let transport = Transport::connect(&remote, None).unwrap();
            let soon = Instant::now() + Duration::from_millis(200);
            let result = waiter.wait(&[(transport.as_fd(), PollFlags::OUT)], Some(soon)).unwrap();
            queue.push(transport);
            if result == WaitResult::TimedOut {
                return (listener, queue, remote);
            }
        }
    }

    /// The deadline has passed, so a wait for a thread would fail.
    #[test]
    fn an_ip_address_is_resolved_without_a_thread() {
        let waiter = Waiter::catch().unwrap();
        let now = Some(Instant::now());
        for (host, address) in [("127.0.0.1", "127.0.0.1:81"), ("::1", "[::1]:81")] {
            let remotes = resolve(host, 81, &waiter, now).unwrap();
            assert_eq!(remotes, [Remote::Ip(address.parse().unwrap())]);
        }
    }

    #[test]
    fn the_next_address_is_tried_after_a_failure_or_a_delay() {
        let waiter = Waiter::catch().unwrap();
        let (_listener, open) = open();
        let (_full, _queue, unresponsive) = unresponsive(&waiter);
        let ((_held, closed), (_other, other)) = (closed(), closed());
        let nowhere = Remote::Unix("/nowhere".into());
        for before in [
            vec![],
            vec![closed.clone()],
            vec![closed.clone(), other],
            vec![nowhere],
            vec![unresponsive.clone()],
            vec![unresponsive, closed],
        ] {
            let remotes = [&before[..], std::slice::from_ref(&open)].concat();
            let (transport, reached) = connect(&remotes, &waiter, None).unwrap();
            assert_eq!(reached, open, "{before:?}");
            assert!(transport.connected().unwrap());
        }
    }

    #[test]
    fn if_no_address_accepts_the_last_error_is_returned() {
        let waiter = Waiter::catch().unwrap();
        let ((_held, closed), (_other, other)) = (closed(), closed());
        let error = connect(&[closed.clone(), other], &waiter, None).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
        let (_full, _queue, unresponsive) = unresponsive(&waiter);
        let until = Instant::now() + Duration::from_millis(20);
        let error = connect(&[closed, unresponsive], &waiter, Some(until)).unwrap_err();
        assert!(matches!(error, Error::ConnectTimeout), "{error}");
    }
}
