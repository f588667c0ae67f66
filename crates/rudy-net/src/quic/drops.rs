//! Datagrams that the kernel has dropped, because the receive buffer of the socket was full.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The minimum time between two questions to the kernel.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number of values of `SO_MEMINFO` (`SK_MEMINFO_VARS`), and the place of the drops among them (`SK_MEMINFO_DROPS`).
const VALUES: usize = 9;
const DROPS: usize = 8;

/// The drops of a socket that are counted.
#[derive(Debug, Default)]
pub(super) struct Drops {
    counted: u32,
    due: Option<Instant>,
}

impl Drops {
    /// Returns how many datagrams were dropped since the last call, after something has arrived. Asks the kernel at most once a second.
    pub(super) fn take(&mut self, socket: &impl AsFd, now: Instant) -> u64 {
        if self.due.is_some_and(|due| now < due) {
            return 0;
        }
        self.due = Some(now + INTERVAL);
        let all = dropped(socket).unwrap_or(self.counted);
        u64::from(all.wrapping_sub(std::mem::replace(&mut self.counted, all)))
    }
}

/// Returns the number of datagrams that a socket has dropped, modulo 2^32; `None` if the kernel does not tell (before Linux 4.12).
#[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
fn dropped(socket: &impl AsFd) -> Option<u32> {
    let mut values = [0_u32; VALUES];
    let mut length = libc::socklen_t::try_from(size_of_val(&values)).ok()?;
    // SAFETY: the kernel writes at most `length` bytes, which `values` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(values[DROPS])
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rudy_runtime::clock;
    use socket2::SockRef;

    use super::*;

    #[test]
    fn drops_are_counted_once() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        SockRef::from(&socket).set_recv_buffer_size(1).unwrap();
        let mut drops = Drops::default();
        let now = clock::now();
        assert_eq!(drops.take(&socket, now), 0);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            client.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
        }
        let mut arrived = 0;
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 1000]).is_ok() {
            arrived += 1;
        }
        assert_eq!(drops.take(&socket, now), 0, "the kernel is not asked again");
        assert_eq!(drops.take(&socket, now + INTERVAL), 100 - arrived);
        assert_eq!(drops.take(&socket, now + 2 * INTERVAL), 0);
    }
}
