//! Frames of QUIC that no correct client sends: the server ends the connection, or its memory is bounded. Others are in the program `attacks`.

use rudy_tests::http3_program;
use rudy_tests::prelude::*;

use super::{Site, script};

/// What an attack may take at most: some of it is noise of the allocator.
const MEMORY_BYTES: u64 = 4 << 20;

/// `PROTOCOL_VIOLATION` and `INTERNAL_ERROR` (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: Option<u64> = Some(10);
const INTERNAL_ERROR: Option<u64> = Some(1);

#[test]
fn frames_that_no_correct_client_sends_end_the_connection_or_take_little_memory() {
    let Some(python) = http3_program("python") else { return };
    let Some(site) = Site::start() else { return };
    let serves = || {
        let url = format!("https://localhost:{}/hello", site.port());
        Rudy::run(["get", "--http3", "--cacert", &site.authority(), &url]).stdout == "hello"
    };
    assert!(serves());
    for (attack, packets, code) in [
        ("new-ids", 3000, None),
        ("challenges", 3000, None),
        ("acknowledgements", 3000, None),
        ("unknown-id", 1, PROTOCOL_VIOLATION),
        ("false-acknowledgement", 1, PROTOCOL_VIOLATION),
        // The state machines name no other code for a client that sends pieces with gaps.
        ("pieces", 1000, INTERNAL_ERROR),
        ("crypto", 1000, INTERNAL_ERROR),
    ] {
        let before = memory_of(site.server.pid(), "VmRSS");
        let mut command = Command::new(&python);
        command.args([script("attack.py"), site.port(), attack.to_owned(), packets.to_string()]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child: Running = command.spawn().expect("python can be started").into();
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it is text");
        let result: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{attack}: {error}"));
        // The connection is open as long as the script is.
        let growth = memory_of(site.server.pid(), "VmRSS").saturating_sub(before);
        assert_eq!(result["closed"][0].as_u64(), code, "{attack}: {result}");
        assert!(growth < MEMORY_BYTES, "{attack}: {growth} bytes");
        assert!(serves(), "{attack}");
    }
}
