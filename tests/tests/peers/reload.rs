//! Reloads a changed configuration every 100 ms while clients are served.

use rudy_tests::prelude::*;

const RELOADS: u32 = 40;
const PERIOD: Duration = Duration::from_millis(100);

/// The size of a download that lasts as long as the reloads: more than the socket buffers hold.
const LARGE_BYTES: u64 = 256 * 1024 * 1024;

/// The number of requests of each client per connection: unlimited, some, one.
const CLIENTS: &[u64] = &[u64::MAX, u64::MAX, 10, 3, 1, 1];

/// Every second configuration listens on one more address.
fn configuration(generation: u32) -> String {
    let more = if generation % 2 == 1 { ", \"127.0.0.2:0\"" } else { "" };
    format!(
        "listen = [\"127.0.0.1:0\"{more}]\n\
         limits.head_fields = {}\n\
         [[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/generation\"\nrespond = {{ body = \"{generation}\" }}\n",
        50 + generation
    )
}

fn check(target: &str, response: &Response) {
    assert_eq!(response.status, 200, "{target}: {}", response.head);
    match target {
        "/generation" => {
            assert!(response.text().parse::<u32>().is_ok_and(|n| n <= RELOADS), "{}", response.text());
        }
        _ => assert!(response.text().starts_with("listen = "), "{}", response.text()),
    }
}

fn generation(connection: &mut Connection) -> u32 {
    connection.get("/generation", &[]).text().parse().expect("a number")
}

/// Reloads the server with configuration `generation`, and waits for the result. Returns the additional
/// address.
fn reload(server: &mut Server, generation: u32) -> Option<SocketAddr> {
    // By renaming, because the file is served too: a partial write would be visible.
    let new = server.path().write("rudy.new", configuration(generation));
    fs::rename(new, server.path().join("rudy.toml")).expect("a temp folder can be written");
    server.forget_lines();
    server.signal(Signal::HUP);
    let added = (generation % 2 == 1).then(|| server.wait_for_line("listening on http://127.0.0.2:"));
    server.wait_for_line("the configuration was reloaded");
    let url = added?.split("http://").nth(1).expect("a URL").trim_end_matches('/').to_owned();
    Some(url.parse().expect("an address"))
}

#[test]
fn no_request_is_lost_while_the_configuration_changes_every_100_ms() {
    let mut server = Server::config(&configuration(0));
    let large = fs::File::create(server.path().join("large")).unwrap();
    large.set_len(LARGE_BYTES).unwrap();
    let mut first = server.connect();
    assert_eq!(generation(&mut first), 0);
    let mut download = server.send(b"GET /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let load = Load::start(server.address(), CLIENTS, &["/generation", "/rudy.toml"], check);
    let mut through_added: Vec<Connection> = Vec::new();
    let mut downloaded = 0;
    let begin = Instant::now();
    for n in 1..=RELOADS {
        if let Some(added) = reload(&mut server, n) {
            let mut connection = Connection::open(added);
            assert_eq!(generation(&mut connection), n);
            through_added.push(connection);
        } else {
            let gone = through_added[through_added.len() - 1].socket().peer_addr().unwrap();
            assert!(TcpStream::connect(gone).is_err(), "{gone} still accepts connections");
        }
        assert_eq!(generation(&mut server.connect()), n, "a new connection has the new configuration");
        assert_eq!(generation(&mut first), n, "the oldest connection too");
        downloaded += download.read_exactly(1 << 20).len() as u64;
        // The period itself is tested; there is no event to wait for.
        thread::sleep((begin + n * PERIOD).saturating_duration_since(Instant::now()));
    }
    let tally = load.stop();
    assert!(tally.responses > u64::from(RELOADS) && tally.connections > u64::from(RELOADS), "{tally:?}");
    assert_eq!(generation(&mut first), RELOADS, "the oldest connection has the current configuration");
    for connection in &mut through_added {
        assert!(connection.is_closed(), "an idle connection of a closed listener is closed");
    }
    let all = downloaded + download.read_to_end().len() as u64;
    assert!(all > LARGE_BYTES, "{all} bytes with the head");
}
