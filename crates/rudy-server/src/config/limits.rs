//! Limits as they are written, and within which bounds they make sense.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::file::LimitsTable;
use super::values::{Size, Time};
use super::{Place, Problem};

const MIB: u64 = 1 << 20;

impl LimitsTable {
    /// Adds what is out of bounds to `problems`. The upper bounds keep a slip of the pen (a GB for a head) from handing
    /// the memory to whoever asks; the lower ones keep the server able to answer a browser at all. Limits are compared
    /// with each other only in a `complete` table, from which nothing was left out.
    pub(super) fn check(&self, place: &Place, complete: bool, problems: &mut Vec<Problem>) {
        let sizes: [(&str, Size, RangeInclusive<u64>); 6] = [
            ("head_bytes", self.head_bytes, 512..=MIB),
            ("target_bytes", self.target_bytes, 64..=MIB),
            ("body_bytes", self.body_bytes, 0..=u64::MAX),
            ("chunk_extension_bytes", self.chunk_extension_bytes, 0..=MIB),
            ("drain_bytes", self.drain_bytes, 0..=64 * MIB),
            ("linger_bytes", self.linger_bytes, 0..=64 * MIB),
        ];
        for (key, size, bounds) in sizes {
            if !bounds.contains(&size.0) {
                problems.push(out_of_bounds(
                    &place.key(key),
                    &size,
                    &Size(*bounds.start()),
                    &Size(*bounds.end()),
                ));
            }
        }
        let second = Duration::from_secs(1);
        let times = [
            ("head_timeout", self.head_timeout),
            ("first_request_timeout", self.first_request_timeout),
            ("idle_timeout", self.idle_timeout),
            ("rate_grace", self.rate_grace),
            ("send_stall_timeout", self.send_stall_timeout),
            ("half_close_timeout", self.half_close_timeout),
            ("linger_timeout", self.linger_timeout),
        ];
        for (key, time) in times {
            // A millisecond, so that tests may be quick; a day, beyond which nobody waits for an answer.
            let bounds = second / 1000..=86_400 * second;
            if !bounds.contains(&time.0) {
                problems.push(out_of_bounds(
                    &place.key(key),
                    &time,
                    &Time(*bounds.start()),
                    &Time(*bounds.end()),
                ));
            }
        }
        if complete && self.target_bytes > self.head_bytes {
            let title =
                format!("target_bytes ({}) is more than head_bytes ({})", self.target_bytes, self.head_bytes);
            let problem = Problem::value(&place.key("target_bytes"), title);
            problems.push(problem.label("the target is a part of the head"));
        }
    }
}

/// Says between what a value has to be.
pub(crate) fn out_of_bounds<T: std::fmt::Display>(place: &Place, value: &T, least: &T, most: &T) -> Problem {
    Problem::value(place, format!("{value} is out of bounds")).label(format!("expected {least} to {most}"))
}

impl Default for LimitsTable {
    fn default() -> Self {
        (&rudy_net::Limits::default()).into()
    }
}

impl From<&rudy_net::Limits> for LimitsTable {
    fn from(limits: &rudy_net::Limits) -> Self {
        // Every field is named, so that a limit that is added below does not compile until it can be set.
        let rudy_net::Limits { http, connections, connections_per_address, linger_timeout, linger_bytes } =
            limits;
        let rudy_http::Limits {
            head_bytes,
            head_fields,
            target_bytes,
            body_bytes,
            chunk_extension_bytes,
            drain_bytes,
            head_timeout,
            first_request_timeout,
            idle_timeout,
            body_rate_min,
            send_rate_min,
            rate_grace,
            send_stall_timeout,
            half_close_timeout,
            requests_per_connection,
        } = http;
        Self {
            head_bytes: Size(*head_bytes as u64),
            head_fields: count(*head_fields),
            target_bytes: Size(*target_bytes as u64),
            body_bytes: Size(*body_bytes),
            chunk_extension_bytes: Size(*chunk_extension_bytes as u64),
            drain_bytes: Size(*drain_bytes),
            head_timeout: Time(*head_timeout),
            first_request_timeout: Time(*first_request_timeout),
            idle_timeout: Time(*idle_timeout),
            body_rate_min: *body_rate_min,
            send_rate_min: *send_rate_min,
            rate_grace: Time(*rate_grace),
            send_stall_timeout: Time(*send_stall_timeout),
            half_close_timeout: Time(*half_close_timeout),
            requests_per_connection: *requests_per_connection,
            connections: connections.map(count),
            connections_per_address: connections_per_address.map(count),
            linger_timeout: Time(*linger_timeout),
            linger_bytes: Size(*linger_bytes),
        }
    }
}

impl From<LimitsTable> for rudy_net::Limits {
    fn from(table: LimitsTable) -> Self {
        Self {
            http: rudy_http::Limits {
                head_bytes: bytes(table.head_bytes),
                head_fields: table.head_fields as usize,
                target_bytes: bytes(table.target_bytes),
                body_bytes: table.body_bytes.0,
                chunk_extension_bytes: bytes(table.chunk_extension_bytes),
                drain_bytes: table.drain_bytes.0,
                head_timeout: table.head_timeout.0,
                first_request_timeout: table.first_request_timeout.0,
                idle_timeout: table.idle_timeout.0,
                body_rate_min: table.body_rate_min,
                send_rate_min: table.send_rate_min,
                rate_grace: table.rate_grace.0,
                send_stall_timeout: table.send_stall_timeout.0,
                half_close_timeout: table.half_close_timeout.0,
                requests_per_connection: table.requests_per_connection,
            },
            connections: table.connections.map(|most| most as usize),
            connections_per_address: table.connections_per_address.map(|most| most as usize),
            linger_timeout: table.linger_timeout.0,
            linger_bytes: table.linger_bytes.0,
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}
