//! A client that speaks HTTP/1.1, well or not. It does not use the server's own parsers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::judge::{Judge, Kind};
use crate::network::SimNetwork;
use crate::request::Request;
use crate::tls::{Socket, is_about_certificate};
use crate::trace::Trace;

/// No response of the world takes longer: every wait of the server ends before.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// More than the time that a connection may be idle.
const DAWDLE_TIME: Duration = Duration::from_secs(90);

/// A client, with all its connections.
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) network: &'static SimNetwork,
    pub(crate) judge: Arc<Judge>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) random: fastrand::Rng,
    pub(crate) address: SocketAddr,
    pub(crate) server: SocketAddr,
    /// With TLS: its settings.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Its longest pause between requests.
    pub(crate) pause_max: Duration,
    /// How many requests it sends.
    pub(crate) requests: u32,
    /// The number of its first request.
    pub(crate) first_id: u64,
    /// How often it misbehaves, of 1,000 requests.
    pub(crate) faults_per_mille: u32,
}

/// How a client sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Follows,
    /// It sends the head in pieces, with this pause.
    Slow(Duration),
    /// It ends its side after the request.
    HalfCloses,
    /// It resets the connection after the request; some end their side before.
    Resets,
    /// It goes in the middle of the head.
    Leaves,
    /// It sends something that is no request.
    Lies,
    /// It sends empty lines, and no request.
    Dawdles,
}

impl Client {
    /// Sends all requests.
    pub(crate) async fn run(mut self) {
        let mut connection = None;
        for number in 0..self.requests {
            self.pause().await;
            let request = Request::random(&mut self.random, self.first_id + u64::from(number));
            let behaviour = self.behaviour();
            if behaviour != Behaviour::Follows {
                self.judge.count(|counts| counts.disturbances += 1);
            }
            self.trace.tell(&format!("{}: {request}, {behaviour:?}", self.name));
            self.judge.begins(request.id, request.is_repeatable());
            let (begin, is_reused) = (Instant::now(), connection.is_some());
            let exchange = timeout(PATIENCE, self.exchange(connection.take(), &request, behaviour));
            connection = match exchange.await {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) => {
                    let is_excused = is_reused || behaviour != Behaviour::Follows;
                    self.broken(&request, &error, begin, is_excused);
                    None
                }
                Err(_) => {
                    self.judge.fault(format!("request {} has no end within {PATIENCE:?}", request.id));
                    None
                }
            };
        }
    }

    /// Pauses before a request, mostly for a moment.
    pub(crate) async fn pause(&mut self) {
        let mut pause = Duration::from_micros(self.random.u64(..200_000));
        if self.random.u32(..4) == 0 {
            pause = pause.max(self.pause_max.mul_f64(self.random.f64()));
        }
        sleep(pause).await;
    }

    /// Connects to the server.
    pub(crate) async fn dial(&self) -> io::Result<Socket> {
        let end = self.network.dial(self.address, self.server).await?;
        Socket::new(end, self.tls.as_ref()).await
    }

    /// A connection has broken during an exchange. One that was used before may have been closed while the request was in flight.
    fn broken(&self, request: &Request, error: &io::Error, begin: Instant, is_excused: bool) {
        self.trace.tell(&format!("{}: request {}: {error}", self.name, request.id));
        self.judge.count(|counts| counts.broken += 1);
        if is_about_certificate(error) {
            self.judge.check_certificate(begin, error);
        } else if !is_excused && !self.judge.is_excused(begin, Some(request.route)) {
            self.judge.fault(format!("request {} has no response: {error}", request.id));
        }
    }

    fn behaviour(&mut self) -> Behaviour {
        if self.random.u32(..1000) >= self.faults_per_mille {
            return Behaviour::Follows;
        }
        match self.random.u32(..6) {
            0 => Behaviour::Slow(Duration::from_millis(self.random.u64(1..3_000))),
            1 => Behaviour::HalfCloses,
            2 => Behaviour::Resets,
            3 => Behaviour::Leaves,
            4 => Behaviour::Dawdles,
            _ => Behaviour::Lies,
        }
    }

    /// Sends a request and checks its response. Returns the connection if it can have another request.
    async fn exchange(
        &mut self,
        connection: Option<Socket>,
        request: &Request,
        behaviour: Behaviour,
    ) -> io::Result<Option<Socket>> {
        let begin = Instant::now();
        let mut end = match connection {
            Some(end) => end,
            None => self.dial().await?,
        };
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: site.test\r\nX-Request: {}\r\nContent-Length: {}\r\n\r\n",
            request.method,
            request.path(),
            request.id,
            request.upload
        );
        match behaviour {
            Behaviour::Lies => end.write_all(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n").await?,
            Behaviour::Dawdles => return self.dawdle(end).await.map(|()| None),
            Behaviour::Leaves => {
                end.write_all(&head.as_bytes()[..head.len() / 2]).await?;
                end.flush().await?;
                return Ok(None);
            }
            Behaviour::Slow(pause) => {
                for piece in head.as_bytes().chunks(head.len() / 4) {
                    end.write_all(piece).await?;
                    end.flush().await?;
                    sleep(pause).await;
                }
            }
            _ => end.write_all(head.as_bytes()).await?,
        }
        end.write_all(&vec![b'u'; request.upload]).await?;
        end.flush().await?;
        match behaviour {
            Behaviour::HalfCloses => end.shutdown().await?,
            Behaviour::Resets => {
                self.judge.happens(Kind::Reset);
                if self.random.bool() {
                    end.shutdown().await?;
                }
                sleep(Duration::from_micros(self.random.u64(..300_000))).await;
                end.reset_on_close();
                self.judge.cancels(request.id);
                return Ok(None);
            }
            _ => {}
        }
        let goes_on = self.receive(&mut end, request, (begin, behaviour)).await?;
        Ok((goes_on && behaviour == Behaviour::Follows).then_some(end))
    }

    /// Sends empty lines until the server ends the connection.
    async fn dawdle(&mut self, mut end: Socket) -> io::Result<()> {
        let (begin, mut bytes) = (Instant::now(), [0; 512]);
        while begin.elapsed() < DAWDLE_TIME {
            end.write_all(b"\r\n").await?;
            if let Ok(read) = timeout(Duration::from_secs(1), end.read(&mut bytes)).await
                && read? == 0
            {
                return Ok(());
            }
        }
        self.judge.fault(format!("{}: empty lines keep a connection for {DAWDLE_TIME:?}", self.name));
        Ok(())
    }

    /// Receives a response. Returns whether the connection stays open.
    async fn receive(
        &mut self,
        end: &mut Socket,
        request: &Request,
        (begin, behaviour): (Instant, Behaviour),
    ) -> io::Result<bool> {
        let mut received = Vec::new();
        let head_end = loop {
            if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.read(end, &mut received).await?;
        };
        let head = String::from_utf8_lossy(&received[..head_end]).to_ascii_lowercase();
        received.drain(..head_end);
        let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find_map(|(own, value)| (own == name).then(|| value.trim().to_owned()))
        };
        let is_of_origin = status == 200;
        let of = field("x-request");
        let follows_since = (behaviour == Behaviour::Follows).then_some(begin);
        self.judge.check_head(*request, status, of.as_deref(), follows_since);
        let length = field("content-length").and_then(|length| length.parse::<usize>().ok());
        let body = if request.method == "HEAD" {
            Some(0)
        } else if field("transfer-encoding").is_some() {
            self.receive_chunks(end, &mut received).await?
        } else {
            self.receive_length(end, &mut received, length).await?
        };
        if is_of_origin && request.method != "HEAD" {
            self.judge.check_bytes(request.id, request.resource, 0, &received);
            if body != Some(request.resource.length) {
                self.judge.fault(format!(
                    "request {}: {body:?} bytes of {:?} without an error",
                    request.id, request.resource
                ));
            }
        }
        self.trace.tell(&format!("{}: request {} got {status} with {body:?} bytes", self.name, request.id));
        self.judge.count(|counts| {
            counts.responses += 1;
            counts.errors += u64::from(status >= 500);
        });
        Ok(field("connection").as_deref() != Some("close"))
    }

    pub(crate) async fn receive_length(
        &mut self,
        end: &mut Socket,
        received: &mut Vec<u8>,
        length: Option<usize>,
    ) -> io::Result<Option<usize>> {
        while length.is_none_or(|length| received.len() < length) {
            match self.read(end, received).await {
                Err(error) if length.is_none() && error.kind() == io::ErrorKind::UnexpectedEof => break,
                read => read?,
            }
        }
        if length.is_some_and(|length| received.len() > length) {
            self.judge.fault(format!("{} bytes follow a response", received.len() - length.unwrap_or(0)));
        }
        Ok(Some(received.len()))
    }

    /// Receives a chunked body, whose bytes it leaves in `received`.
    pub(crate) async fn receive_chunks(
        &mut self,
        end: &mut Socket,
        received: &mut Vec<u8>,
    ) -> io::Result<Option<usize>> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(at) = received.windows(2).position(|window| window == b"\r\n") {
                    break at;
                }
                self.read(end, received).await?;
            };
            let size = std::str::from_utf8(&received[..line_end]).ok();
            let Some(size) = size.and_then(|size| usize::from_str_radix(size, 16).ok()) else {
                self.judge.fault("a chunk has no size".to_owned());
                return Ok(None);
            };
            while received.len() < line_end + 2 + size + 2 {
                self.read(end, received).await?;
            }
            body.extend_from_slice(&received[line_end + 2..line_end + 2 + size]);
            received.drain(..line_end + 2 + size + 2);
            if size == 0 {
                *received = body;
                return Ok(Some(received.len()));
            }
        }
    }

    /// Reads some bytes.
    pub(crate) async fn read(&mut self, end: &mut Socket, received: &mut Vec<u8>) -> io::Result<()> {
        if end.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}
