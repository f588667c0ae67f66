//! The upgrade as seen by the new process: receives sockets and requests from the old process, and reports its state.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::{env, future, io, process};

use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::listen_address::Address;
use rustix::net::sockopt::socket_type;

use super::channel::{Channel, Message};
use super::{
    BEGIN, DATAGRAMS, END, FAILED, LISTENER, PREDECESSOR_VARIABLE, QUIC_SECRET, READS, READY, RELAYS, RELOAD,
    REOPEN, SOCKET, STOP, STOPPING, TAKE_OWNERSHIP, UPGRADE,
};
use crate::run::exit::Failure;
use crate::run::quic_keys;
use crate::run::signals::{Action, Stop};

/// The process that this one replaces.
#[derive(Clone)]
pub(in crate::run) struct Predecessor {
    channel: Arc<Channel>,
    pid: u32,
}

/// A listener of the replaced process.
struct Passed {
    address: Address,
    sockets: Vec<OwnedFd>,
    /// The sockets of HTTP/3, the ways to the replaced process, and the number of this one.
    datagrams: Vec<OwnedFd>,
    relays: Vec<OwnedFd>,
    generation: u8,
}

/// A request of the replaced process.
#[derive(Clone, Copy)]
pub(in crate::run) enum Request {
    /// An action for this process.
    Signal(Action),
    /// Exit immediately.
    End,
    /// The replaced process has ended.
    Ended,
}

impl Predecessor {
    /// Returns the process that started this one for an upgrade, if any. Must be called on a tokio runtime.
    pub(in crate::run) fn find() -> Result<Option<Self>, Failure> {
        let Some(pid) = env::var(PREDECESSOR_VARIABLE).ok().and_then(|pid| pid.parse().ok()) else {
            return Ok(None);
        };
        let channel = || {
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            check(&stdin)?;
            Channel::new(stdin).map(Arc::new)
        };
        let what = format!("take over from process {pid} ({PREDECESSOR_VARIABLE})");
        channel().map(|channel| Some(Self { channel, pid })).map_err(Failure::cannot(&what))
    }

    /// Its process id.
    pub(in crate::run) fn pid(&self) -> u32 {
        self.pid
    }

    /// Receives its sockets and its secrets of QUIC, and adds them to `inherited`.
    pub(in crate::run) async fn receive_sockets(
        &self,
        inherited: &mut InheritedSockets,
    ) -> Result<(), Failure> {
        let mut listeners = Vec::<Passed>::new();
        loop {
            let received = self.channel.receive().await.map_err(Failure::cannot("receive sockets"))?;
            let Some(Message { text, descriptors }) = received else {
                return Err(Failure::Cannot("receive sockets: the other process has ended".to_owned()));
            };
            match text.split_once(' ').unwrap_or((&text, "")) {
                (BEGIN, _) => break,
                (SOCKET, name) => {
                    for socket in descriptors {
                        inherited.add_socket(name.to_owned(), socket);
                    }
                }
                (QUIC_SECRET, secret) => inherited.quic_keys = quic_keys::from_text(secret),
                (LISTENER, address) => passed(&mut listeners, address)?.sockets.extend(descriptors),
                (DATAGRAMS, text) => {
                    let (generation, address) = text.split_once(' ').unwrap_or_default();
                    let listener = passed(&mut listeners, address)?;
                    listener.generation = generation.parse().unwrap_or_default();
                    listener.datagrams.extend(descriptors);
                }
                (RELAYS, address) => passed(&mut listeners, address)?.relays.extend(descriptors),
                // A message of another version.
                _ => {}
            }
        }
        for Passed { address, sockets, datagrams, relays, generation } in listeners {
            let mut listener = Listener::shared(address, sockets).map_err(Failure::Listen)?;
            listener.add_datagrams(datagrams, relays, generation).map_err(Failure::Listen)?;
            inherited.add_listener(listener);
        }
        Ok(())
    }

    /// Reports that this process serves, and that it reads the datagrams at these addresses.
    pub(in crate::run) fn notify_ready(&self, reads: &[Address]) {
        for address in reads {
            self.channel.send_now(&format!("{READS} {address}"));
        }
        self.channel.send_now(&format!("{READY} {}", process::id()));
    }

    /// Reports why this process cannot serve.
    pub(in crate::run) fn failed(&self, failure: &Failure) {
        self.channel.send_now(&format!("{FAILED} {}", failure.first_line()));
    }

    /// Reports that this process is stopping, so that the old one does not take over.
    pub(in crate::run) fn stopping(&self) {
        self.channel.send_now(STOPPING);
    }

    /// Waits for the next request. Cancel-safe.
    pub(in crate::run) async fn next(&self) -> Request {
        loop {
            // Treat an error like the end of the process, because it would occur again.
            let Ok(Some(Message { text, .. })) = self.channel.receive().await else { return Request::Ended };
            let mut words = text.split(' ');
            match (words.next().unwrap_or_default(), words.next()) {
                (RELOAD, _) => return Request::Signal(Action::Reload),
                (REOPEN, _) => return Request::Signal(Action::ReopenLog),
                (TAKE_OWNERSHIP, _) => return Request::Signal(Action::TakeOwnership),
                (UPGRADE, _) => return Request::Signal(Action::Upgrade),
                (STOP, Some(name)) => return Request::Signal(Action::Stop(Stop::named(name))),
                (END, _) => return Request::End,
                // A message of another version.
                _ => {}
            }
        }
    }
}

/// Returns what was passed for an address, of which there may be several messages.
fn passed<'a>(listeners: &'a mut Vec<Passed>, address: &str) -> Result<&'a mut Passed, Failure> {
    let address = address.parse::<Address>().map_err(|error| Failure::Cannot(error.to_string()))?;
    let index = listeners.iter().position(|known| known.address == address).unwrap_or_else(|| {
        listeners.push(Passed {
            address,
            sockets: Vec::new(),
            datagrams: Vec::new(),
            relays: Vec::new(),
            generation: 0,
        });
        listeners.len() - 1
    });
    Ok(&mut listeners[index])
}

/// Waits for the next request of the replaced process; forever if there is none.
pub(in crate::run) async fn next_request_of(predecessor: Option<&Predecessor>) -> Request {
    match predecessor {
        Some(predecessor) => predecessor.next().await,
        None => future::pending().await,
    }
}

/// Fails if standard input is not the channel, because the variable can be inherited by accident.
fn check(stdin: &OwnedFd) -> io::Result<()> {
    let is_channel = socket_type(stdin).is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET);
    if !is_channel {
        return Err(io::Error::other(
            "standard input is not the socket of the upgrade; unset the variable to start a server",
        ));
    }
    // The flag belongs to the open file description, and a wrapper script may have changed it.
    rustix::io::ioctl_fionbio(stdin, true)?;
    Ok(())
}
