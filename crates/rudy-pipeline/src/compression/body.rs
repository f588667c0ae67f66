//! A response body that is compressed while it is sent.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange};

use super::encoder::Encoder;
use super::{PIECE_BYTES, fields, pool};

/// Input that is compressed on the worker's own thread: about 0.1 ms of work, less than what another thread costs the messages of a
/// stream. More input, or input with more behind it, goes to the thread pool, so a worker compresses at most this in one poll.
pub const INLINE_BYTES: usize = 4 * 1024;

/// Compresses a body while it is sent.
///
/// Input is gathered up to [`PIECE_BYTES`]. If the source has nothing more at the moment, the encoder is flushed, so that the client
/// gets each message of a stream. A client that reads slowly holds an encoder and a piece, but no thread.
pub struct CompressedBody<P> {
    state: State,
    source: Source,
    /// Output that was more than the connection could send.
    output: Bytes,
    /// Whether input was compressed since the last flush.
    is_unflushed: bool,
    /// The bytes that the source has announced and not sent yet.
    missing: Option<u64>,
    /// Sent after the output that precedes it.
    failure: Option<BodyError>,
    trailers: Option<HeaderMap>,
    /// Limits the number of encoders.
    _permit: P,
}

/// What becomes of the input that was gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// There is more input.
    Continue,
    /// The source has nothing more at the moment.
    Flush,
    End,
}

enum State {
    Idle(Box<Encoder>),
    Busy(Pin<Box<dyn Future<Output = io::Result<Done>> + Send>>),
    Ended,
}

/// The output of a piece, and the encoder for the next piece unless the coding has ended.
struct Done {
    output: Vec<u8>,
    encoder: Option<Box<Encoder>>,
    /// The rest of a file.
    rest: Option<FileInput>,
}

impl<P: Send> CompressedBody<P> {
    /// Creates the compressed form of `body`, with `permit` for its encoder.
    pub fn new(body: Body, encoder: Encoder, permit: P) -> Self {
        Self {
            state: State::Idle(Box::new(encoder)),
            missing: body.length(),
            source: Source::new(body),
            output: Bytes::new(),
            is_unflushed: false,
            failure: None,
            trailers: None,
            _permit: permit,
        }
    }

    /// Takes input from the source, as far as it has any and a piece can hold it.
    fn gather(&mut self, cx: &mut Context<'_>, now: Instant) -> (Vec<Input>, Then) {
        let (mut input, mut room) = (Vec::new(), PIECE_BYTES);
        while room > 0 {
            match self.poll_input(cx, now, room) {
                Poll::Pending => return (input, Then::Flush),
                Poll::Ready(Ok(None)) => return (input, Then::End),
                Poll::Ready(Ok(Some(next))) => {
                    room -= next.bytes().min(room);
                    input.push(next);
                }
                Poll::Ready(Err(error)) => {
                    self.failure = Some(error);
                    return (input, Then::Flush);
                }
            }
        }
        (input, Then::Continue)
    }

    /// Returns the next input; `None` at the end. Fails if the source fails, or sends more or less than it has announced.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        room: usize,
    ) -> Poll<Result<Option<Input>, BodyError>> {
        let input = match ready!(self.source.poll_input(cx, now, room))? {
            Some(Input::Trailers(trailers)) => {
                self.trailers = Some(fields::without_digests(trailers));
                self.source = Source::end();
                None
            }
            input => input,
        };
        if let Some(missing) = &mut self.missing {
            let bytes = input.as_ref().map_or(0, Input::new_bytes);
            *missing = missing.checked_sub(bytes).ok_or("the body is longer than its announced length")?;
            if input.is_none() && *missing > 0 {
                return Poll::Ready(Err("the body is shorter than its announced length".into()));
            }
        }
        Poll::Ready(Ok(input))
    }

    /// Compresses what the source has, on this thread if it is little.
    fn compress(
        &mut self,
        encoder: Box<Encoder>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<io::Result<Done>> {
        let (input, then) = self.gather(cx, now);
        if input.is_empty() && then == Then::Flush && !self.is_unflushed {
            self.state = State::Idle(encoder);
            return Poll::Pending;
        }
        self.is_unflushed = then == Then::Continue;
        let bytes: usize = input.iter().map(Input::bytes).sum();
        let work = move || compress(encoder, input, then);
        if then != Then::Continue && bytes <= INLINE_BYTES {
            return Poll::Ready(work());
        }
        let mut task: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(pool::run(work));
        let done = task.as_mut().poll(cx);
        if done.is_pending() {
            self.state = State::Busy(task);
        }
        done
    }

    fn accept(&mut self, done: Done) {
        let Done { output, encoder, rest } = done;
        self.state = encoder.map_or(State::Ended, State::Idle);
        if let Some(rest) = rest {
            self.source.put_back(Input::File(rest));
        }
        self.output = output.into();
    }
}

/// Compresses input: bytes, or at most a piece of a file.
fn compress(mut encoder: Box<Encoder>, input: Vec<Input>, then: Then) -> io::Result<Done> {
    let mut rest = None;
    for input in input {
        match input {
            Input::Bytes(bytes) => encoder.write(&bytes)?,
            Input::File(mut file) => {
                file.compress_piece(&mut encoder)?;
                rest = Some(file).filter(|file| !file.is_at_end());
            }
            Input::Trailers(_) => {}
        }
    }
    match then {
        Then::Continue => {}
        Then::Flush => encoder.flush()?,
        Then::End => return Ok(Done { output: encoder.finish()?, encoder: None, rest }),
    }
    Ok(Done { output: encoder.take(), encoder: Some(encoder), rest })
}

impl<P: Send> BodyStream for CompressedBody<P> {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        loop {
            if !self.output.is_empty() {
                let length = usize::try_from(max).unwrap_or(usize::MAX).min(self.output.len());
                return Poll::Ready(Some(Ok(BodyPiece::Data(self.output.split_to(length)))));
            }
            let done = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => {
                    return Poll::Ready(self.trailers.take().map(|fields| Ok(BodyPiece::Trailers(fields))));
                }
                State::Busy(mut task) => {
                    let done = task.as_mut().poll(cx);
                    if done.is_pending() {
                        self.state = State::Busy(task);
                    }
                    done
                }
                State::Idle(encoder) => match self.failure.take() {
                    Some(failure) => return Poll::Ready(Some(Err(failure))),
                    None => self.compress(encoder, cx, now),
                },
            };
            let Poll::Ready(done) = done else {
                // A failure without output before it.
                match self.failure.take_if(|_| matches!(self.state, State::Idle(_))) {
                    Some(failure) => return Poll::Ready(Some(Err(failure))),
                    None => return Poll::Pending,
                }
            };
            self.accept(done?);
        }
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        match &mut self.source.stream {
            Some(stream) => stream.poll_blocked(cx, now),
            None => Poll::Pending,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.source.stream.as_ref().filter(|_| matches!(self.state, State::Idle(_)))?.due()
    }

    fn is_live(&self) -> bool {
        self.source.stream.as_ref().is_some_and(|stream| stream.is_live())
    }

    /// Without its end, the coding would be damaged.
    fn end(&mut self) -> bool {
        self.source = Source::end();
        self.missing = None;
        true
    }
}

/// Input of an encoder.
enum Input {
    Bytes(Bytes),
    File(FileInput),
    Trailers(HeaderMap),
}

impl Input {
    /// Returns the number of bytes. A file fills a piece: it would block the worker.
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(_) => PIECE_BYTES,
            Self::Trailers(_) => 0,
        }
    }

    /// Returns the number of bytes that the source has not sent before.
    fn new_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) if file.position == 0 => file.file.length,
            Self::File(_) | Self::Trailers(_) => 0,
        }
    }
}

/// The body before compression.
struct Source {
    /// What comes before the next piece of the stream.
    first: VecDeque<Input>,
    stream: Option<Box<dyn BodyStream>>,
}

impl Source {
    fn new(body: Body) -> Self {
        let mut source = Self::end();
        match body {
            Body::Empty | Body::Silence => {}
            Body::Bytes(bytes) => source.put_back(Input::Bytes(bytes)),
            Body::File(file) => source.put_back(Input::File(FileInput::new(file))),
            Body::Stream(stream) => source.stream = Some(stream),
        }
        source
    }

    /// A source without anything more.
    fn end() -> Self {
        Self { first: VecDeque::new(), stream: None }
    }

    fn put_back(&mut self, input: Input) {
        self.first.push_front(input);
    }

    /// Returns the next input, of which bytes are at most `room`; `None` at the end.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        room: usize,
    ) -> Poll<Result<Option<Input>, BodyError>> {
        let next = match (self.first.pop_front(), &mut self.stream) {
            (Some(first), _) => first,
            (None, None) => return Poll::Ready(Ok(None)),
            (None, Some(stream)) => match ready!(stream.poll_piece(cx, now, room as u64)) {
                None => {
                    self.stream = None;
                    return Poll::Ready(Ok(None));
                }
                Some(piece) => match piece? {
                    BodyPiece::Data(bytes) => Input::Bytes(bytes),
                    BodyPiece::File(file) => Input::File(FileInput::new(file)),
                    BodyPiece::Trailers(trailers) => Input::Trailers(trailers),
                },
            },
        };
        Poll::Ready(Ok(Some(match next {
            Input::Bytes(mut bytes) if bytes.len() > room => {
                self.put_back(Input::Bytes(bytes.split_off(room)));
                Input::Bytes(bytes)
            }
            next => next,
        })))
    }
}

/// The rest of a file that is read a piece at a time.
pub(super) struct FileInput {
    file: FileRange,
    position: u64,
}

impl FileInput {
    pub(super) fn new(file: FileRange) -> Self {
        Self { file, position: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position >= self.file.length
    }

    fn left(&self) -> u64 {
        self.file.length - self.position
    }

    /// Reads and compresses the next piece. Blocks.
    pub(super) fn compress_piece(&mut self, encoder: &mut Encoder) -> io::Result<()> {
        let length = usize::try_from(self.left()).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let mut input = vec![0; length];
        let read = self.file.file.read_exact_at(&mut input, self.file.start + self.position);
        if read.is_err() || self.file.has_shrunk() {
            let error = read.err().unwrap_or_else(|| io::Error::other("it became shorter while it was sent"));
            self.file.log_failure(&error);
            return Err(error);
        }
        self.position += length as u64;
        encoder.write(&input)?;
        Ok(())
    }
}
