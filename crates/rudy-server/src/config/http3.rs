//! HTTP/3: how connections send, and what the kernel must permit.

use rudy_config::Words;
use rudy_net::listen::UDP_RECEIVE_BYTES;

use super::Config;

/// The algorithm that decides how much is in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum CongestionControl {
    /// Reacts to loss.
    #[default]
    Cubic,
    /// Finds out the bandwidth and the round trip time.
    Bbr,
}

/// The limit of the kernel on receive buffers. Some containers do not have it.
const RECEIVE_LIMIT: &str = "/proc/sys/net/core/rmem_max";

/// Warns if the kernel does not permit the receive buffer of UDP sockets, which then drop datagrams while a worker is busy.
pub(crate) fn small_receive_buffer(config: &Config) -> Option<String> {
    let has_http3 = config.addresses().iter().any(|address| address.http3);
    let limit = std::fs::read_to_string(RECEIVE_LIMIT).ok().filter(|_| has_http3)?;
    explain_limit(limit.trim().parse().ok()?)
}

fn explain_limit(limit: usize) -> Option<String> {
    (limit < UDP_RECEIVE_BYTES).then(|| {
        format!(
            "HTTP/3: the kernel limits receive buffers to {limit} bytes, and drops datagrams when a burst does not fit; permit \
             {UDP_RECEIVE_BYTES} with `sysctl net.core.rmem_max={UDP_RECEIVE_BYTES}`, and in /etc/sysctl.d for the next boot"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_of_the_kernel_is_explained() {
        assert_eq!(explain_limit(UDP_RECEIVE_BYTES), None);
        let warning = explain_limit(212_992).unwrap();
        assert!(warning.contains("to 212992 bytes") && warning.contains("sysctl net.core.rmem_max=4194304"));
    }
}
