//! The clients, paths and hosts with the most requests.
//!
//! A thread samples its requests: all of them at a low rate, and fewer at a high one. A request without a sample costs a
//! few instructions, and all samples together at most a thousandth of a core.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_admin::{TopEntry, TopLists};
use rudy_message::RequestHead;
use rudy_pipeline::digits::{IP_BYTES_MAX, write_ip};
use rudy_runtime::clock;
use rudy_service::{Client, Peer};

use super::sketch::Sketch;

/// The time of a window. A report covers the current window and the one before.
const WINDOW: Duration = Duration::from_secs(10);

/// Number of samples after which the stride is adjusted.
const SAMPLES: u32 = 64;

/// The time for [`SAMPLES`] below which the stride doubles: 2,000 samples per second.
const SHORT: Duration = Duration::from_millis(32);

/// Without a sample for this time, all requests are sampled again.
const QUIET: Duration = Duration::from_secs(1);

const STRIDE_MAX: u32 = 1 << 16;

/// Number of entries of a list, and of more if they are frequent.
const ENTRIES: usize = 20;

/// An entry with more than one of this number of requests is frequent. All shares add up to at most 1, so a list has fewer entries.
const FREQUENT: u64 = 100;

/// The most frequent values, as counted by all threads.
#[derive(Debug)]
pub(super) struct Top(Mutex<[Window; 2]>);

/// The requests of a time.
#[derive(Debug)]
struct Window {
    began: Instant,
    clients: Sketch,
    paths: Sketch,
    hosts: Sketch,
}

impl Window {
    fn new(began: Instant) -> Self {
        Self { began, clients: Sketch::new(), paths: Sketch::new(), hosts: Sketch::new() }
    }
}

impl Top {
    pub(super) fn new() -> Self {
        let now = clock::now();
        Self(Mutex::new([Window::new(now), Window::new(now)]))
    }

    /// Counts a request, or skips it.
    #[inline]
    pub(super) fn count(&self, head: &RequestHead<'_>, client: &Client<'_>) {
        let left = LEFT.get();
        if left > 0 {
            LEFT.set(left - 1);
        } else {
            self.sample(head, client);
        }
    }

    #[cold]
    fn sample(&self, head: &RequestHead<'_>, client: &Client<'_>) {
        let now = clock::now();
        let weight = next_stride(now);
        // A sample is not worth waiting for.
        let Some(mut windows) = self.0.try_lock() else { return };
        let [current, _] = rotate(&mut windows, now);
        current.clients.add(client_name(client.address(), &mut [0; NAME_BYTES_MAX]), weight);
        current.paths.add(head.path(), weight);
        let host = head.host();
        if host.iter().any(u8::is_ascii_uppercase) {
            current.hosts.add(&host.to_ascii_lowercase(), weight);
        } else {
            current.hosts.add(host, weight);
        }
    }

    /// Returns the lists of the last 10 to 20 seconds.
    pub(super) fn lists(&self) -> TopLists {
        let now = clock::now();
        let mut windows = self.0.lock();
        let [current, previous] = rotate(&mut windows, now);
        let seconds = now.saturating_duration_since(previous.began).as_secs_f64().max(0.001);
        let list = |of: fn(&Window) -> &Sketch| entries(&[of(current), of(previous)], seconds);
        TopLists {
            seconds,
            clients: list(|window| &window.clients),
            paths: list(|window| &window.paths),
            hosts: list(|window| &window.hosts),
        }
    }
}

/// Begins new windows if the time of the current one is over.
fn rotate(windows: &mut [Window; 2], now: Instant) -> &mut [Window; 2] {
    let age = now.saturating_duration_since(windows[0].began);
    if age >= 2 * WINDOW {
        *windows = [Window::new(now), Window::new(now)];
    } else if age >= WINDOW {
        windows.swap(0, 1);
        windows[0] = Window::new(now);
    }
    windows
}

fn entries(sketches: &[&Sketch; 2], seconds: f64) -> Vec<TopEntry> {
    let total: u64 = sketches.iter().map(|sketch| sketch.total).sum();
    let mut counts: HashMap<&[u8], u64> = HashMap::new();
    for (key, count) in sketches.iter().flat_map(|sketch| sketch.counts()) {
        *counts.entry(key).or_default() += count;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let entry = |(key, count): (&[u8], u64)| TopEntry {
        name: String::from_utf8_lossy(key).into_owned(),
        requests_per_s: rudy_units::float(count) / seconds,
        share: rudy_units::float(count) / rudy_units::float(total.max(1)),
    };
    let frequent = counts.iter().take_while(|(_, count)| count * FREQUENT > total).count();
    counts.into_iter().take(frequent.max(ENTRIES)).map(entry).collect()
}

/// The length of the longest name of a client, one of a proxy of IPv6 whose client is unknown.
const NAME_BYTES_MAX: usize = "unknown client of ".len() + IP_BYTES_MAX;

/// Returns the name under which a client is counted. A client of IPv6 usually has a network of 64 bits for itself.
fn client_name(peer: Peer, buffer: &mut [u8; NAME_BYTES_MAX]) -> &[u8] {
    let mut rest = &mut buffer[..];
    // A name that is too long would be cut.
    let _is_whole = match peer {
        Peer::Ip(address) => match address.ip().to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                let [a, b, c, d, ..] = ip.segments();
                write!(rest, "{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            ip => write_ip(ip, &mut rest),
        },
        other => write!(rest, "{other}"),
    };
    let length = NAME_BYTES_MAX - rest.len();
    &buffer[..length]
}

thread_local! {
    /// The number of requests of this thread to skip.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    static STRIDE: Cell<Stride> = const { Cell::new(Stride { distance: 1, samples: 0, since: None, last: None, random: 0x9E37_79B9_7F4A_7C15 }) };
}

/// How a thread samples.
#[derive(Debug, Clone, Copy)]
struct Stride {
    /// The average distance of two samples.
    distance: u32,
    /// The samples since `since`.
    samples: u32,
    since: Option<Instant>,
    last: Option<Instant>,
    /// The state of a generator (xorshift): with a fixed distance, periodic requests would be counted wrongly.
    random: u64,
}

/// Adjusts the stride of this thread. Returns the number of requests that the sample represents.
fn next_stride(now: Instant) -> u64 {
    let mut stride = STRIDE.get();
    let weight = stride.distance;
    stride.adjust(now);
    LEFT.set(stride.skip());
    STRIDE.set(stride);
    weight.into()
}

impl Stride {
    fn adjust(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let is_quiet = self.last.is_some_and(|last| now.saturating_duration_since(last) >= QUIET);
        self.last = Some(now);
        self.samples += 1;
        if is_quiet {
            (self.distance, self.samples, self.since) = (1, 0, Some(now));
        } else if self.samples >= SAMPLES {
            let time = now.saturating_duration_since(since);
            if time < SHORT {
                self.distance = (self.distance * 2).min(STRIDE_MAX);
            } else if time > 4 * SHORT {
                self.distance = (self.distance / 2).max(1);
            }
            (self.samples, self.since) = (0, Some(now));
        }
    }

    /// Returns how many requests to skip: between none and twice the stride.
    fn skip(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let range = u64::from(2 * self.distance - 1);
        u32::try_from(self.random % range).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Stride = Stride { distance: 1, samples: 0, since: None, last: None, random: 1 };

    /// Samples for a second at this rate. Returns the number of samples and the weight of all.
    fn sample(stride: &mut Stride, begin: Instant, rate: u32) -> (u32, u64) {
        let (mut samples, mut weight, mut left) = (0, 0, 0);
        for number in 0..rate {
            if left > 0 {
                left -= 1;
                continue;
            }
            samples += 1;
            weight += u64::from(stride.distance);
            stride.adjust(begin + Duration::from_secs(1) * number / rate);
            left = stride.skip();
        }
        (samples, weight)
    }

    #[test]
    fn all_requests_are_sampled_at_a_low_rate_and_few_at_a_high_one() {
        let now = Instant::now();
        assert_eq!(sample(&mut NEW.clone(), now, 1000), (1000, 1000));
        let mut stride = NEW;
        sample(&mut stride, now, 200_000);
        let (samples, weight) = sample(&mut stride, now + Duration::from_secs(1), 200_000);
        assert!((500..4000).contains(&samples), "{samples}");
        assert!((170_000..230_000).contains(&weight), "{weight}");
        // The rate falls: all are sampled again.
        sample(&mut stride, now + Duration::from_secs(3), 10);
        sample(&mut stride, now + Duration::from_secs(4), 1);
        assert_eq!(sample(&mut stride, now + Duration::from_secs(20), 10), (10, 10));
    }

    #[test]
    fn a_list_covers_two_windows() {
        let now = Instant::now();
        let mut windows = [Window::new(now), Window::new(now)];
        windows[0].paths.add(b"/a", 30);
        let windows = rotate(&mut windows, now + WINDOW);
        windows[0].paths.add(b"/b", 10);
        let list = entries(&[&windows[0].paths, &windows[1].paths], 20.0);
        let list: Vec<_> =
            list.iter().map(|entry| (&*entry.name, entry.requests_per_s, entry.share)).collect();
        assert_eq!(list, [("/a", 1.5, 0.75), ("/b", 0.5, 0.25)]);
        let windows = rotate(windows, now + 3 * WINDOW);
        assert_eq!(windows[0].paths.total + windows[1].paths.total, 0);
    }

    #[test]
    fn a_list_has_the_first_entries_and_all_with_more_than_a_hundredth() {
        let listed = |frequent: u64, rare: u64| {
            let mut sketch = Sketch::new();
            (0..frequent).for_each(|number| sketch.add(format!("/{number}").as_bytes(), 20));
            (0..rare).for_each(|number| sketch.add(format!("/rare/{number}").as_bytes(), 1));
            entries(&[&sketch, &Sketch::new()], 1.0).len()
        };
        assert_eq!(listed(30, 90), 30);
        assert_eq!(listed(5, 110), ENTRIES);
        assert_eq!(listed(99, 0), 99);
        assert_eq!(listed(3, 2), 5);
    }

    #[test]
    fn a_client_of_ipv6_is_its_network() {
        for (address, name) in [
            ("192.0.2.7:5", "192.0.2.7"),
            ("[::ffff:192.0.2.7]:5", "192.0.2.7"),
            ("[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::/64"),
            ("[::1]:5", "::1"),
        ] {
            assert_eq!(client_name(Peer::Ip(address.parse().unwrap()), &mut [0; _]), name.as_bytes());
        }
        assert_eq!(client_name(Peer::Unix, &mut [0; _]), b"unix:");
        let longest = "255.255.255.255".parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_compatible();
        let unknown = Peer::Unnamed(Some(longest.into()));
        assert_eq!(client_name(unknown, &mut [0; _]), unknown.to_string().as_bytes());
    }
}
