//! Checks whether this machine has enough descriptors and ports for a number of connections.

use std::fs;
use std::num::NonZeroU32;

use rudy_command::CommandError;
use rudy_request::Remote;
use rudy_socket::raise_descriptor_limit;

/// Descriptors in addition to connections: the epoll of each thread, standard streams, output files.
const DESCRIPTOR_RESERVE: u64 = 32;

/// The default port range of Linux, 32768 to 60999.
const DEFAULT_PORTS: u64 = 28_232;

/// The resources that a run requires.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requirements<'a> {
    pub(crate) connections: NonZeroU32,
    pub(crate) threads: NonZeroU32,
    pub(crate) remote: &'a Remote,
    /// The number of local addresses to connect from.
    pub(crate) sources: usize,
}

/// Raises the limit of descriptors as far as allowed, and reports what is missing.
pub(crate) fn check(requirements: Requirements<'_>) -> Result<(), CommandError> {
    let connections = u64::from(requirements.connections.get());
    // Check ports first, because no limit of descriptors helps with them.
    if let Remote::Ip(_) = requirements.remote {
        check_ports(connections, requirements.sources as u64, local_ports())?;
    }
    let needed = connections + u64::from(requirements.threads.get()) + DESCRIPTOR_RESERVE;
    match descriptor_limit()? {
        Some(limit) if limit < needed => Err(CommandError::Environment(format!(
            "{connections} connections need {needed} descriptors, but the limit of this process is {limit}: raise the hard \
             limit (`ulimit -Hn {needed}` as root, LimitNOFILE= under systemd), or use fewer connections"
        ))),
        _ => Ok(()),
    }
}

/// The number of connections that the limit of descriptors allows, on one thread.
pub(crate) fn max_connections() -> Result<u32, CommandError> {
    let limit = descriptor_limit()?.unwrap_or(u64::MAX).saturating_sub(DESCRIPTOR_RESERVE + 1);
    Ok(u32::try_from(limit).unwrap_or(u32::MAX))
}

/// The limit of descriptors, raised as far as allowed. `None` if there is no limit.
fn descriptor_limit() -> Result<Option<u64>, CommandError> {
    raise_descriptor_limit().map_err(|error| {
        CommandError::Environment(format!("cannot raise the limit of open descriptors: {error}"))
    })
}

/// A connection is identified by its two addresses and ports, so each local address has this many ports per
/// remote.
fn check_ports(connections: u64, sources: u64, ports: u64) -> Result<(), CommandError> {
    if connections <= ports * sources.max(1) {
        return Ok(());
    }
    let needed = connections.div_ceil(ports);
    // A range loses two addresses; see `Sources`.
    let prefix = 32 - (needed + 2).next_power_of_two().trailing_zeros();
    Err(CommandError::Arguments(format!(
        "{connections} connections to one remote address need {needed} local addresses, since each has {ports} ports \
         (net.ipv4.ip_local_port_range): give them with --sources, such as --sources 127.0.0.0/{prefix} for a server on \
         this machine"
    )))
}

fn local_ports() -> u64 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|port| port.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => DEFAULT_PORTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_ports_need_more_addresses() {
        assert_eq!(check_ports(28_232, 0, DEFAULT_PORTS), Ok(()));
        assert_eq!(check_ports(400_000, 15, DEFAULT_PORTS), Ok(()));
        for (connections, sources, expected) in
            [(28_233, 0, "need 2 local addresses"), (500_000, 15, "need 18 local addresses")]
        {
            let Err(CommandError::Arguments(error)) = check_ports(connections, sources, DEFAULT_PORTS) else {
                panic!()
            };
            assert!(error.contains(expected), "{error}");
        }
        let Err(CommandError::Arguments(error)) = check_ports(400_000, 0, DEFAULT_PORTS) else { panic!() };
        assert!(error.contains("--sources 127.0.0.0/27"), "15 and two that are left out: {error}");
    }
}
