//! TLS as a transport: a session over a socket.
//!
//! An idle connection holds no buffer. It reads into the buffers of its thread, and keeps only what is not a complete
//! record yet. A connection whose peer does not read keeps at most one record.

mod handshake;
mod handshakes;
mod record_size;

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use rudy_runtime::clock;
use rudy_tls::{RECORD_OVERHEAD_BYTES, RECORD_PLAINTEXT_BYTES_MAX, Session, Tls};
use tokio::io::ReadBuf;

use self::handshake::Handshake;
pub(crate) use self::handshake::PlainHttp;
pub(crate) use self::handshakes::{Handshakes, Unfinished};
use self::record_size::{BATCH_BYTES_MAX, FIRST_BYTES, RecordSize};
use crate::scratch::{Scratch, at_least};
use crate::transport::{ChooseSite, PARTIAL_READ_BYTES, PassedHandshake, Stream, Transport};
use crate::wire::delegate_wire;
use crate::yield_now::yield_now;

/// Room for a record that is not complete, and another one.
const INPUT_BYTES_MIN: usize = 2 * RECORD_BYTES_MAX;

/// The maximum size of a record with its header: in TLS 1.2, 2048 bytes more than the plaintext (RFC 5246 §6.2.3).
const RECORD_BYTES_MAX: usize = 5 + RECORD_PLAINTEXT_BYTES_MAX + 2048;

/// The maximum size of the records that are encrypted and sent at once, of which the first ones may be small.
const RECORDS_BYTES_MAX: usize = SENT_BYTES_MAX + (SENT_BYTES_MAX / FIRST_BYTES) * RECORD_OVERHEAD_BYTES;

/// The maximum size of the plaintext that is sent at once.
const SENT_BYTES_MAX: usize = BATCH_BYTES_MAX + RECORD_PLAINTEXT_BYTES_MAX;

/// The size of the messages of a handshake that a response follows: two tickets, or the reply to early data.
const MESSAGES_BYTES_MAX: usize = 2048;

/// A TLS session over a socket.
pub(crate) struct TlsStream {
    io: Stream,
    state: State,
    /// The start of a record, or of a message in several records.
    received: Vec<u8>,
    /// Plaintext that the reader had no room for.
    plaintext: Vec<u8>,
    /// Records that the socket has not accepted.
    unsent: Vec<u8>,
    record_size: RecordSize,
    /// See [`Transport::take_empty_reads`].
    empty_reads: u32,
}

enum State {
    Handshake(Handshake),
    Established(Session, Arc<Tls>),
    /// What was received is for another server.
    Passed(PassedHandshake),
    Failed,
}

impl TlsStream {
    pub(crate) fn new(io: Stream) -> Self {
        Self {
            io,
            state: State::Handshake(Handshake::default()),
            received: Vec::new(),
            plaintext: Vec::new(),
            unsent: Vec::new(),
            record_size: RecordSize::new(),
            empty_reads: 0,
        }
    }

    /// What arrives after the handshake is no longer early.
    fn end_early_data(&mut self) {
        if let State::Established(session, tls) = &mut self.state
            && tls.is_early
            && !session.is_handshaking()
        {
            if let Some(handshake) = &tls.handshake {
                handshake.complete();
            }
            *tls = Arc::new(Tls { is_early: false, handshake: None, ..(**tls).clone() });
        }
    }

    /// Sends the records that the socket has not accepted.
    fn poll_unsent(&mut self, cx: &mut Context<'_>, more: bool) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(self.io.poll_write(cx, &[IoSlice::new(&self.unsent)], more))?;
            self.unsent.drain(..sent);
        }
        self.unsent = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Copies the received bytes to the front of `input`, and reads behind them: as much as the reader has room for, but
    /// at least a record. Returns the number of bytes; none at the end of the input.
    fn poll_input(&mut self, cx: &mut Context<'_>, input: &mut [u8], room: usize) -> Poll<io::Result<usize>> {
        let before = self.received.len();
        input[..before].copy_from_slice(&self.received);
        let end = input.len().min(before + room.max(RECORD_BYTES_MAX));
        let mut buffer = ReadBuf::new(&mut input[before..end]);
        ready!(self.io.poll_read(cx, &mut buffer))?;
        let read = buffer.filled().len();
        Poll::Ready(Ok(if read == 0 { 0 } else { before + read }))
    }

    /// Encrypts the first `limit` bytes of the slices. Returns the size of the records in `buffer`.
    fn encrypt(
        &mut self,
        slices: &[IoSlice<'_>],
        limit: usize,
        gathered: &mut BytesMut,
        buffer: &mut Box<[u8]>,
    ) -> io::Result<usize> {
        let State::Established(session, _) = &mut self.state else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (now, mut left, mut encrypted) = (clock::now(), limit, 0);
        let mut slices = slices.iter().map(|slice| &**slice);
        let mut slice = slices.next().unwrap_or_default();
        while left > 0 {
            let size = self.record_size.get(now).min(left);
            gathered.clear();
            while slice.len() + gathered.len() < size {
                gathered.extend_from_slice(slice);
                slice = slices.next().unwrap_or_default();
            }
            let (last, rest) = slice.split_at(size - gathered.len());
            slice = rest;
            let mut record = last;
            if !gathered.is_empty() {
                gathered.extend_from_slice(last);
                record = &gathered[..];
            }
            let room = &mut at_least(buffer, RECORDS_BYTES_MAX)[encrypted..];
            encrypted += session.send(&mut self.received, record, room).map_err(io::Error::other)?;
            self.record_size.sent(size);
            left -= size;
        }
        Ok(encrypted)
    }

    /// Sends records. The connection keeps what the socket does not accept.
    fn poll_records(&mut self, cx: &mut Context<'_>, mut records: &[u8], more: bool) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(records);
            return match self.poll_unsent(cx, more) {
                Poll::Ready(result) => result,
                Poll::Pending => Ok(()),
            };
        }
        let all_bytes = records.len();
        while !records.is_empty() {
            match self.io.poll_write(cx, &[IoSlice::new(records)], more) {
                Poll::Ready(written) => records = &records[written?..],
                Poll::Pending => break,
            }
        }
        self.record_size.left(records.len(), all_bytes);
        self.unsent = records.to_vec();
        Ok(())
    }
}

impl From<TlsStream> for Stream {
    fn from(stream: TlsStream) -> Self {
        Self::Other(Box::new(stream))
    }
}

delegate_wire!(TlsStream, |tls| tls.io);

impl Transport for TlsStream {
    fn poll_handshake(&mut self, cx: &mut Context<'_>, choose: &mut ChooseSite<'_>) -> Poll<io::Result<()>> {
        let result = ready!(self.poll_established(cx, choose));
        if result.is_err() {
            self.state = State::Failed;
        }
        Poll::Ready(result)
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        match &self.state {
            State::Established(_, tls) => Some(tls),
            _ => None,
        }
    }

    fn passed(&self) -> Option<&PassedHandshake> {
        if let State::Passed(passed) = &self.state { Some(passed) } else { None }
    }

    fn into_passed(self: Box<Self>) -> Option<(Stream, Bytes)> {
        let Self { io, state: State::Passed(_), received, .. } = *self else { return None };
        Some((io, received.into()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Before the handshake, there may be a PROXY protocol header.
        if let State::Handshake(_) = self.state {
            return self.io.poll_read(cx, buffer);
        }
        if !self.plaintext.is_empty() {
            let given = self.plaintext.len().min(buffer.remaining());
            buffer.put_slice(&self.plaintext[..given]);
            self.plaintext.drain(..given);
            if self.plaintext.is_empty() {
                self.plaintext = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        let mut scratch = Scratch::borrow();
        let input = scratch.input_at_least(INPUT_BYTES_MIN);
        while buffer.filled().is_empty() {
            if matches!(&self.state, State::Established(session, _) if session.has_peer_closed()) {
                return Poll::Ready(Ok(()));
            }
            let before = self.received.len();
            let Poll::Ready(length) = self.poll_input(cx, input, buffer.remaining())? else {
                // Tickets are sent together with the first response, unless the first request is late.
                let _ = self.poll_unsent(cx, false)?;
                return Poll::Pending;
            };
            let State::Established(session, _) = &mut self.state else { return Poll::Ready(Ok(())) };
            if length == 0 {
                return Poll::Ready(Ok(()));
            }
            let plaintext = &mut self.plaintext;
            let received = session.receive(&mut input[..length], &mut self.unsent, |record| {
                let (given, rest) = record.split_at(record.len().min(buffer.remaining()));
                buffer.put_slice(given);
                plaintext.extend_from_slice(rest);
            });
            match received {
                Ok(consumed) => {
                    let is_end = session.has_peer_closed();
                    self.received = input[consumed..length].to_vec();
                    self.end_early_data();
                    let has_records = consumed > 0 && !is_end;
                    if buffer.filled().is_empty() && (has_records || length - before < PARTIAL_READ_BYTES) {
                        self.empty_reads = self.empty_reads.saturating_add(1);
                        // Records without data cost as much as others, and the next read may have thousands.
                        if has_records {
                            return yield_now(cx);
                        }
                    }
                }
                Err(error) => {
                    self.state = State::Failed;
                    // Sends the alert, if the socket has room: the driver does not wait for a broken connection.
                    let _ = self.poll_unsent(cx, false)?;
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Discards the records as they are: the session has ended.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        (self.plaintext, self.received) = (Vec::new(), Vec::new());
        self.io.poll_discard(cx)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        // Messages of the handshake are sent together with the first record.
        if self.unsent.len() > MESSAGES_BYTES_MAX {
            ready!(self.poll_unsent(cx, true))?;
        }
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        // What is left of those messages is copied.
        let most = if self.unsent.is_empty() { self.record_size.batch() } else { RECORD_PLAINTEXT_BYTES_MAX };
        // A rest of less than a record is not worth a call.
        let limit = if total < most + RECORD_PLAINTEXT_BYTES_MAX { total } else { most };
        let mut scratch = Scratch::borrow();
        let Scratch { out, piece, .. } = &mut *scratch;
        let encrypted = self.encrypt(slices, limit, out, piece)?;
        self.poll_records(cx, &piece[..encrypted], more || limit < total)?;
        Poll::Ready(Ok(limit))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_unsent(cx, false)
    }

    fn piece_bytes(&self) -> Option<usize> {
        Some(self.record_size.batch())
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let State::Established(session, _) = &mut self.state {
            // Fails if the keys are used up; the socket is closed regardless.
            let _ = session.close(&mut self.received, &mut self.unsent);
            self.state = State::Failed;
        }
        ready!(self.poll_unsent(cx, false))?;
        self.io.poll_shutdown(cx)
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.io.unacknowledged()? + self.unsent.len() as u64)
    }

    fn has_unread(&self) -> bool {
        !self.plaintext.is_empty() || self.io.has_unread()
    }

    fn take_empty_reads(&mut self) -> u32 {
        std::mem::take(&mut self.empty_reads)
    }
}
