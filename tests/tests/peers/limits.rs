//! A flood from ten million addresses against a rate limit: its memory is bounded, and clients over the limit stay over it.

use std::ops::Range;

use rudy_tests::prelude::*;

/// Five requests a day for each address.
const CONFIGURATION: &str = "listen = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
    [[site]]\nrate_limit = { rate = \"5/d\", memory = \"2M\" }\n\
    [[site.route]]\npath = \"/*\"\nrespond = { status = 204 }\n";

/// 203.0.0.0, outside of the flood.
const LIMITED: u32 = 0xcb00_0000;

/// 11.0.0.0.
const FLOOD: u32 = 0x0b00_0000;

const ADDRESSES: u32 = 10_000_000;

/// The number of connections, each from a thread.
const CONNECTIONS: u32 = 4;

/// The number of requests that are written together.
const BATCH: usize = 1000;

fn head(address: u32) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {}\r\n\r\n", Ipv4Addr::from_bits(address))
}

/// Sends a request from each address over one connection. Returns how many were within the limit.
fn flood(server: SocketAddr, addresses: Range<u32>) -> u32 {
    let mut stream = TcpStream::connect(server).expect("the server listens");
    let input = BufReader::new(stream.try_clone().expect("a descriptor is free"));
    let total = addresses.len();
    let reading = thread::spawn(move || {
        let lines = input.split(b'\n').map(|line| line.expect("the server responds"));
        let statuses = lines.filter_map(|line| Some(line.strip_prefix(b"HTTP/1.1 ")?.starts_with(b"204")));
        u32::try_from(statuses.take(total).filter(|is_allowed| *is_allowed).count()).expect("a small number")
    });
    let addresses: Vec<_> = addresses.collect();
    for batch in addresses.chunks(BATCH) {
        let text: String = batch.iter().copied().map(head).collect();
        stream.write_all(text.as_bytes()).expect("the server reads");
    }
    reading.join().expect("no panic")
}

/// The statuses of this number of requests from an address.
fn statuses(server: &Server, address: u32, count: usize) -> Vec<u16> {
    let mut connection = Connection::open(server.address());
    let mut send = || {
        connection.send(head(address).as_bytes());
        connection.response().status
    };
    (0..count).map(|_| send()).collect()
}

#[test]
fn ten_million_addresses_fit_into_the_memory_and_limited_ones_stay_limited() {
    needs!(long());
    let server = Server::config(CONFIGURATION);
    let limited: Vec<_> = (0..50).map(|number| LIMITED + number * 1000).collect();
    for address in &limited {
        assert_eq!(statuses(&server, *address, 6), [204, 204, 204, 204, 204, 429]);
    }
    let before = memory_of(server.pid(), "VmRSS");
    let part = ADDRESSES / CONNECTIONS;
    let floods: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (address, from) = (server.address(), FLOOD + number * part);
            thread::spawn(move || flood(address, from..from + part))
        })
        .collect();
    let mut checks = 0;
    while floods.iter().any(|flood| !flood.is_finished()) {
        let address = limited[checks % limited.len()];
        assert_eq!(statuses(&server, address, 1), [429], "during the flood");
        checks += 1;
    }
    let allowed: u32 = floods.into_iter().map(|flood| flood.join().expect("no panic")).sum();
    for address in &limited {
        assert_eq!(statuses(&server, *address, 1), [429], "after the flood");
    }
    let growth = memory_of(server.pid(), "VmRSS").saturating_sub(before);
    assert!(growth < 32 << 20, "the server has grown by {growth} bytes");
    let output = server.rudy(&["limits", "--json"]);
    let json = output.json();
    let limit = &json["limits"][0];
    assert_eq!(limit["memory_bytes"], 2 << 20);
    // The rest needed the allowance of its networks: it passed with that, or was rejected.
    let [passed, rejected] = ["shared", "rejected"].map(|key| limit[key].as_u64().expect("a number"));
    assert!(passed > 0 && passed + rejected > 1_000_000, "{limit}");
    assert!((50_000..1_000_000).contains(&allowed), "{allowed} requests were within the limit");
}
