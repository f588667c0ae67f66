//! The streams in one direction of a connection: settings and the announcement of the end.

use std::collections::BTreeMap;

use rudy_quic::quinn_proto::{Dir, StreamId};
use rudy_quic::streams::{self, Part};

use super::carrier::Carrier;
use super::wire;

/// Those of both sides.
#[derive(Default)]
pub(super) struct Control {
    pub(super) own: Vec<StreamId>,
    /// What the server has sent on each stream: its type, once it is known, and what is not parsed.
    incoming: BTreeMap<StreamId, (Option<u64>, Vec<u8>)>,
    pub(super) has_settings: bool,
    /// From this stream on, the server takes no requests.
    pub(super) go_away: Option<u64>,
}

impl Control {
    /// Opens the streams of the client, once it may: control with settings, encoder and decoder.
    pub(super) fn open(&mut self, carrier: &mut Carrier) {
        while self.own.len() < 3 && carrier.is_connected {
            let Some(stream) = carrier.machine.streams().open(Dir::Uni) else { return };
            // No dynamic table, the default, and a setting without a meaning (RFC 9114 §7.2.4.1).
            let bytes = match self.own.len() {
                0 => [&[0][..], &wire::frame(wire::SETTINGS, &[0x21, 7])].concat(),
                1 => vec![2],
                _ => vec![3],
            };
            let written = carrier.machine.send_stream(stream).write(&bytes);
            debug_assert_eq!(written, Ok(bytes.len()), "the server has a window for them");
            self.own.push(stream);
        }
    }

    /// Reads what has arrived.
    pub(super) fn read(&mut self, carrier: &mut Carrier) -> Result<(), String> {
        while let Some(stream) = carrier.machine.streams().accept(Dir::Uni) {
            self.incoming.insert(stream, (None, Vec::new()));
        }
        let streams: Vec<_> = self.incoming.keys().copied().collect();
        for stream in streams {
            loop {
                match streams::read(&mut carrier.machine, streams::number(stream)) {
                    Part::Data(bytes, false) => self.receive(stream, &bytes)?,
                    Part::Nothing => break,
                    end => return Err(format!("{end:?} of {stream}")),
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), String> {
        let (kind, received) = self.incoming.entry(stream).or_default();
        received.extend_from_slice(bytes);
        if kind.is_none() {
            let mut rest = &received[..];
            *kind = wire::take_integer(&mut rest);
            *received = rest.to_vec();
        }
        match (*kind, received.is_empty()) {
            (Some(wire::CONTROL), _) => {
                let received = std::mem::take(received);
                let rest = self.frames(&received)?;
                self.incoming.insert(stream, (Some(wire::CONTROL), rest));
                Ok(())
            }
            // Instructions for a table that the client does not have, or about one that the server has.
            (Some(wire::ENCODER | wire::DECODER), false) => Err(format!("an instruction {received:02x?}")),
            _ => Ok(()),
        }
    }

    /// Parses the frames of the control stream. Returns what is not complete.
    fn frames(&mut self, mut received: &[u8]) -> Result<Vec<u8>, String> {
        loop {
            let mut rest = received;
            let Some((kind, length)) = wire::take_integer(&mut rest).zip(wire::take_integer(&mut rest))
            else {
                return Ok(received.to_vec());
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let Some((mut payload, after)) = rest.split_at_checked(length) else {
                return Ok(received.to_vec());
            };
            received = after;
            match kind {
                wire::SETTINGS if !self.has_settings => self.has_settings = true,
                _ if !self.has_settings => return Err(format!("a frame of type {kind} before SETTINGS")),
                wire::GOAWAY => {
                    let stream = wire::take_integer(&mut payload).filter(|_| payload.is_empty());
                    let stream = stream.ok_or("an invalid GOAWAY")?;
                    if self.go_away.is_some_and(|earlier| stream > earlier) {
                        return Err(format!("GOAWAY {stream} after {:?}", self.go_away));
                    }
                    self.go_away = Some(stream);
                }
                wire::DATA | wire::HEADERS | wire::SETTINGS => return Err(format!("a frame of type {kind}")),
                _ => {}
            }
        }
    }
}
