//! From a name to a connection that stands: its addresses are looked up, and tried one after the other.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rudy_net::close::Ending;
use rustix::event::PollFlags;

use super::error::GetError;
use super::wait::{Waiter, Woken};
use crate::access::look_up;
use crate::link::{Link, Remote};
use crate::{AccessError, Failure};

/// How long an address has for itself before the next one is tried beside it (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Looks a name up, in a thread of its own: the system's resolver cannot be interrupted, and may take minutes.
pub(super) fn resolve(
    host: &str,
    port: u16,
    waiter: &Waiter,
    until: Option<Instant>,
) -> Result<Vec<Remote>, GetError> {
    let (done, finished) = UnixStream::pair().map_err(GetError::Wait)?;
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    thread::spawn(move || {
        // Nobody listens any more if the time was over first.
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

/// Connects to the first address that lets it: the next one is tried when one has failed, or has said nothing for a while.
pub(super) fn connect(
    remotes: &[Remote],
    waiter: &Waiter,
    until: Option<Instant>,
) -> Result<(Link, Remote), GetError> {
    let mut attempts = Attempts { under_way: Vec::new(), failed: io::ErrorKind::NotFound.into() };
    let result = attempts.race(remotes, waiter, until);
    for (_, link) in attempts.under_way {
        link.close(Ending::Cut);
    }
    result
}

struct Attempts {
    under_way: Vec<(Remote, Link)>,
    /// What became of the last that failed.
    failed: io::Error,
}

impl Attempts {
    fn race(
        &mut self,
        remotes: &[Remote],
        waiter: &Waiter,
        until: Option<Instant>,
    ) -> Result<(Link, Remote), GetError> {
        let mut rest = remotes.iter();
        let mut next_at = Instant::now();
        loop {
            let now = Instant::now();
            if self.under_way.is_empty() || now >= next_at {
                match rest.next() {
                    Some(remote) => {
                        self.begin(remote);
                        next_at = now + ATTEMPT_DELAY;
                        continue;
                    }
                    None if self.under_way.is_empty() => {
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
            let before = self.under_way.len();
            if let Some(winner) = self.finish() {
                return Ok(winner);
            }
            if self.under_way.len() < before {
                next_at = Instant::now();
            }
        }
    }

    fn begin(&mut self, remote: &Remote) {
        match Link::connect(remote, None) {
            Ok(link) => self.under_way.push((remote.clone(), link)),
            Err(error) => self.failed = error,
        }
    }

    fn wait(&self, waiter: &Waiter, until: Option<Instant>, next: Option<Instant>) -> Result<(), GetError> {
        let sockets: Vec<_> = self.under_way.iter().map(|(_, link)| (link.as_fd(), PollFlags::OUT)).collect();
        match next.filter(|next| until.is_none_or(|until| *next < until)) {
            Some(next) => match waiter.wait(&sockets, Some(next)).map_err(GetError::Wait)? {
                Woken::Interrupted(signal) => Err(GetError::Interrupted(signal)),
                Woken::Ready | Woken::TimedOut => Ok(()),
            },
            None => wait(waiter, &sockets, until),
        }
    }

    /// Takes out the first that stands, and forgets those that failed.
    fn finish(&mut self) -> Option<(Link, Remote)> {
        let mut index = 0;
        while index < self.under_way.len() {
            match self.under_way[index].1.connected() {
                Ok(true) => {
                    let (remote, link) = self.under_way.remove(index);
                    return Some((link, remote));
                }
                Ok(false) => index += 1,
                Err(error) => {
                    self.failed = error;
                    self.under_way.remove(index).1.close(Ending::Cut);
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
