//! What normal clients do is never limited, however fast it is: in all tests of this module, no time passes.

use super::*;

/// A client that downloads on many streams at the same time.
struct Download {
    client: Client,
    /// The bytes that each stream still expects.
    rest: Vec<(u32, u64)>,
    /// The bytes for which the client sends a WINDOW_UPDATE.
    update_bytes: u32,
}

impl Download {
    fn new(streams: u32, bytes: u64, window: u32, update_bytes: u32) -> Self {
        let mut client = Client::with(Limits::default(), &[(4, window)]);
        client.send(&window_update(0, 16 << 20));
        let rest: Vec<_> = (0..streams).map(|number| (2 * number + 1, bytes)).collect();
        for (stream, _) in &rest {
            client.send(&get(*stream));
            client.begin(*stream, 200, Some(bytes));
        }
        Self { client, rest, update_bytes }
    }

    /// Sends until all windows are closed, and only then the updates.
    fn run(mut self) {
        while !self.rest.is_empty() {
            let mut sent = Vec::new();
            for (stream, rest) in &mut self.rest {
                let bytes = self.client.send_body(*stream, *rest);
                *rest -= bytes;
                sent.push((*stream, bytes));
            }
            self.client.out.clear();
            assert!(sent.iter().any(|(_, bytes)| *bytes > 0), "the windows are open");
            for (stream, bytes) in sent {
                for _ in 0..bytes / u64::from(self.update_bytes) {
                    let updates =
                        [window_update(0, self.update_bytes), window_update(stream, self.update_bytes)];
                    self.client.send(&updates.concat());
                }
                let left = u32::try_from(bytes % u64::from(self.update_bytes)).unwrap();
                if left > 0 {
                    self.client.send(&[window_update(0, left), window_update(stream, left)].concat());
                }
            }
            let connection = &mut self.client.connection;
            for (stream, _) in self.rest.extract_if(.., |(_, rest)| *rest == 0) {
                connection.close(stream, self.client.now);
            }
        }
        assert!(self.client.connection.is_idle());
    }
}

/// Chromium and Firefox have windows of 6 and 12 MiB; the updates here are for each DATA frame.
#[test]
fn a_browser_downloads_100_mib_on_100_streams() {
    Download::new(100, 1 << 20, 6 << 20, 16_384).run();
}

#[test]
fn a_client_downloads_100_mib_on_one_stream() {
    for window in [65_535, 1 << 20, 12 << 20] {
        Download::new(1, 100 << 20, window, 16_384).run();
    }
}

/// The HTTP/2 of Go sends an update for 4 KiB that are read; others, for each packet.
#[test]
fn a_client_sends_window_updates_for_small_reads() {
    Download::new(1, 100 << 20, 4 << 20, 4096).run();
    Download::new(10, 10 << 20, 1 << 20, 1460).run();
}

/// The small end of each window is not counted as a dribble of the client.
#[test]
fn a_client_has_a_small_window() {
    Download::new(1, 10 << 20, 1000, 1000).run();
    Download::new(20, 1 << 20, 4096, 2048).run();
}

#[test]
fn a_client_cancels_many_requests() {
    let mut client = Client::new();
    for round in 0..5 {
        for number in 0..50 {
            client.send(&get(round * 200 + 2 * number + 1));
        }
        for number in 0..50 {
            let stream = round * 200 + 2 * number + 1;
            client.send(&[reset_frame(stream, ErrorCode::CANCEL), window_update(0, 100)].concat());
        }
        for number in 50..100 {
            client.send(&get(round * 200 + 2 * number + 1));
            client.respond(round * 200 + 2 * number + 1, b"hello");
        }
    }
}

/// Firefox sent PRIORITY with each request, others send PRIORITY_UPDATE as the user scrolls.
#[test]
fn a_client_sends_priorities_and_updates_with_each_request() {
    let mut client = Client::new();
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        let with_priorities =
            [priority(stream, 0), get(stream), priority_update(stream, "u=1"), priority(stream, 0)];
        client.send(&with_priorities.concat());
        client.respond(stream, b"hello");
        let late = [window_update(0, 5), window_update(stream, 5), reset_frame(stream, ErrorCode::NO_ERROR)];
        client.send(&late.concat());
    }
}

/// A client that measures the round trip while it receives, as gRPC does.
#[test]
fn a_client_sends_a_ping_for_each_frame_of_data() {
    let mut client = Client::new();
    client.send(&[get(1), window_update(0, 0x7000_0000), window_update(1, 0x7000_0000)].concat());
    client.begin(1, 200, None);
    for _ in 0..5000 {
        client.send_body(1, 100);
        client
            .send(&[frame(kind::PING, 0, 0, &[0; 8]), window_update(0, 100), window_update(1, 100)].concat());
    }
}

/// An upload of 100 MiB in frames of any size, whose client sends as much as the windows permit.
#[test]
fn a_client_uploads_100_mib() {
    for frame_bytes in [1000, 1440, 16_384] {
        let mut client = Client::with(Limits { body_bytes: u64::MAX, ..Limits::default() }, &[]);
        client.send(&post(1, &[]));
        let (mut windows, mut sent) = ([1_u64 << 20, 65_535], 0);
        while sent < 100 << 20 {
            let bytes = windows[0].min(windows[1]).min(frame_bytes);
            assert!(bytes > 0, "the windows are open after {sent} bytes");
            client.send(&data(1, &vec![0; usize::try_from(bytes).unwrap()]));
            client.connection.pass_on(1, usize::try_from(bytes).unwrap(), &mut client.out);
            (windows, sent) = (windows.map(|window| window - bytes), sent + bytes);
            for frame in client.sent() {
                let words: Vec<_> = frame.split(' ').collect();
                match words[..] {
                    ["0", _, increment] => windows[0] += increment.parse::<u64>().unwrap(),
                    ["1", _, increment] => windows[1] += increment.parse::<u64>().unwrap(),
                    _ => _ = client.send(&frame_of_ping_ack()),
                }
            }
        }
    }
}

fn frame_of_ping_ack() -> Vec<u8> {
    frame(kind::PING, flag::ACK, 0, b"rudy bdp")
}

/// A service rejects 100 uploads before it reads them, and the clients sends on until it receives that.
#[test]
fn rejected_uploads_do_not_end_the_connection() {
    let mut client = Client::new();
    for round in 0..10 {
        let streams = (0..100).map(|number| round * 200 + 2 * number + 1);
        for stream in streams.clone() {
            client.send(&post(stream, &[]));
        }
        for stream in streams.clone() {
            client.respond(stream, b"no");
        }
        client.sent();
        for _ in 0..10 {
            for stream in streams.clone() {
                assert_eq!(client.send(&data(stream, &[0; 1000])), [""; 0]);
            }
        }
        for stream in streams {
            client.send(&last_data(stream, b"a"));
        }
    }
}
