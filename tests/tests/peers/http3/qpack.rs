//! QPACK with ls-qpack, both ways: its encoder fills our dynamic table, and its decoder reads what we encode.

use rudy_http::qpack::{Decoder, encode_secret, encode_stateless, put_prefix};
use rudy_tests::http3_program;
use rudy_tests::prelude::*;

use super::script;

/// Lists of each seed.
const LISTS: &str = "5000";

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Our side of the exchange with the script.
struct Exchange {
    decoder: Decoder,
    /// The sections that wait for instructions.
    blocked: Vec<(u64, Vec<u8>)>,
    was_blocked: usize,
}

impl Exchange {
    /// Handles a line of the script, and returns the response.
    fn respond(&mut self, line: &str) -> Value {
        let mut feedback = BytesMut::new();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["I", instructions] => {
                let instructions = from_hex(instructions);
                self.decoder.receive_instructions(&instructions, &mut feedback).expect("valid instructions");
            }
            ["S", stream, section] => {
                self.blocked.push((stream.parse().expect("a number"), from_hex(section)));
            }
            _ => panic!("not a line of the script: {line}"),
        }
        let sections = std::mem::take(&mut self.blocked);
        let mut decoded = Vec::new();
        for (stream, bytes) in sections {
            let section = self.decoder.section(&bytes).expect("a valid section");
            if section.is_blocked() {
                self.was_blocked += 1;
                self.blocked.push((stream, bytes));
                continue;
            }
            let mut fields = Fields::new();
            let mut field = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
            section.decode(&mut Vec::new(), &mut field).expect("a valid section");
            section.acknowledge(stream, &mut feedback);
            let listed = fields.iter().map(|(name, value)| json!([to_hex(name), to_hex(value)]));
            decoded.push(json!([stream, listed.collect::<Vec<_>>(), to_hex(&encode(&fields))]));
        }
        json!({ "feedback": to_hex(&feedback), "decoded": decoded })
    }
}

/// Encodes fields as in a response.
fn encode(fields: &Fields) -> Vec<u8> {
    let mut section = BytesMut::new();
    put_prefix(&mut section);
    for (name, value) in fields {
        if name == b"cookie" {
            encode_secret(name, value, &mut section);
        } else {
            encode_stateless(name, value, &mut section);
        }
    }
    section.to_vec()
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn ls_qpack_and_rudy_understand_each_other() {
    let Some(python) = http3_program("python") else { return };
    // Tables without room, with room for few entries, and with room for all.
    for (seed, capacity, streams) in [(1, 0, 0), (2, 256, 0), (3, 256, 16), (4, 4096, 16), (5, 65_536, 100)] {
        let numbers = [seed.to_string(), LISTS.to_owned(), capacity.to_string(), streams.to_string()];
        let mut command = Command::new(&python);
        command.arg(script("qpack.py")).args(numbers).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python can be started");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut input = child.stdin.take().expect("it is piped");
        let mut exchange = Exchange { decoder: Decoder::new(capacity), blocked: Vec::new(), was_blocked: 0 };
        for line in lines.map_while(Result::ok) {
            // Fails if the script has ended, whose status tells why.
            let _ = writeln!(input, "{}", exchange.respond(&line));
        }
        assert!(child.wait().expect("it is our child").success(), "seed {seed}");
        assert_eq!(exchange.was_blocked > 0, streams > 0, "seed {seed}: sections waited for instructions");
    }
}
