//! Notifies systemd of state changes: `sd_notify(3)`, `Type=notify-reload`. The crate `sd-notify` 0.5 does not support abstract
//! socket names.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// A state of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Serving, or serving again after a reload.
    Ready,
    /// Reloading the configuration.
    Reloading,
    /// Stopping.
    Stopping,
    /// The main process of the service has changed to this one.
    MainPid(u32),
}

/// Notifies the service manager, if `NOTIFY_SOCKET` is set.
pub(super) fn notify(state: State) -> io::Result<()> {
    match env::var_os("NOTIFY_SOCKET") {
        Some(name) if !name.is_empty() => send(&name, &message(state)),
        _ => Ok(()),
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1".to_owned(),
        State::Reloading => {
            // systemd distinguishes reloads by their start time.
            let now = clock_gettime(ClockId::Monotonic);
            format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
        }
        State::Stopping => "STOPPING=1".to_owned(),
        State::MainPid(pid) => format!("MAINPID={pid}"),
    }
}

fn send(name: &OsStr, message: &str) -> io::Result<()> {
    // A name that begins with `@` is in the abstract namespace, not in the file system.
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let unique = format!("rudy-test-{}", std::process::id());
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&unique).unwrap()).unwrap();
        for (name, receiver) in [(path.as_os_str(), by_path), (OsStr::new(&format!("@{unique}")), by_name)] {
            send(name, &message(State::Ready)).unwrap();
            let mut buffer = [0; 64];
            let n = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], b"READY=1");
        }
    }

    #[test]
    fn a_reload_message_has_its_start_time() {
        let message = message(State::Reloading);
        let micros = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.parse::<u64>().unwrap() > 0);
    }
}
