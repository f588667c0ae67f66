//! Splits the input into frames, and checks their form.
//!
//! A frame that arrives whole is read where it is. Only an incomplete one is stored, and never the payload of DATA.

use super::frame::{FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX, flag, kind};
use super::{ConnectionError, ErrorCode};

/// The maximum size of an encoded header block, in sizes of a head. The connection survives a head that
/// is a little too large, and the Huffman code makes some values larger.
pub(super) const BLOCK_BYTES_FACTOR: usize = 2;

/// A frame, or a piece of DATA. DATA is always in the input (`'i`), other frames may be in the buffer of the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a, 'i> {
    /// A piece of the payload of DATA.
    Data {
        stream: u32,
        data: &'i [u8],
        /// What the piece takes of the windows: the data with its padding (RFC 9113 §6.9.1).
        flow_bytes: u32,
        /// Whether the stream ends after the piece.
        ends_stream: bool,
        /// Whether this is the end of a frame without data, which serves no purpose but to end the stream.
        is_empty: bool,
    },
    /// A whole header block: HEADERS with its CONTINUATION frames.
    Headers {
        stream: u32,
        block: &'a [u8],
        ends_stream: bool,
        depends_on: Option<u32>,
    },
    /// A part of a header block, which is stored.
    HeadersPart,
    /// PRIORITY of RFC 7540, which is ignored if it is valid.
    Priority {
        stream: u32,
        depends_on: u32,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
    },
    /// The parameters, in six bytes each.
    Settings(&'a [u8]),
    SettingsAck,
    PushPromise,
    Ping([u8; 8]),
    PingAck([u8; 8]),
    GoAway {
        last_stream: u32,
        code: ErrorCode,
        reason: &'a [u8],
    },
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    PriorityUpdate {
        stream: u32,
        value: &'a [u8],
    },
    /// A frame of an unknown type, which is ignored (RFC 9113 §4.1).
    Unknown,
}

/// The state of the input between calls.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The start of a frame; a whole frame until the next call.
    buffer: Vec<u8>,
    /// Whether `buffer` was returned in the last call.
    is_returned: bool,
    data: Option<PartialData>,
    block: Option<Box<PartialBlock>>,
    /// Whether the first frame has arrived, which must be SETTINGS (RFC 9113 §3.4).
    has_settings: bool,
}

/// The rest of a DATA frame.
#[derive(Debug)]
struct PartialData {
    stream: u32,
    remaining: usize,
    padding: usize,
    /// The pad length itself, until it is counted with the first piece (RFC 9113 §6.9.1).
    uncounted: usize,
    /// Whether the frame has no data, only padding.
    has_no_data: bool,
    ends_stream: bool,
}

/// A header block whose end has not arrived.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    bytes: Vec<u8>,
    ends_stream: bool,
    depends_on: Option<u32>,
    /// Whether it was returned in the last call.
    is_whole: bool,
}

impl FrameReader {
    /// Whether a header block has begun, and not ended.
    pub(super) fn is_in_block(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_whole)
    }

    /// Whether a frame other than DATA has begun, and not ended.
    pub(super) fn is_in_frame(&self) -> bool {
        !self.buffer.is_empty() && !self.is_returned
    }

    /// Whether a DATA frame has begun, and not ended.
    pub(super) fn is_in_data(&self) -> bool {
        self.data.is_some()
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| size_of::<PartialBlock>() + block.bytes.capacity());
        self.buffer.capacity() + block
    }

    /// Returns the next frame of `input`, and removes it from there. `None` if more input is needed; then all of it is used.
    /// `block_bytes_max` is the maximum size of an encoded header block.
    pub(super) fn read<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        block_bytes_max: usize,
    ) -> Result<Option<Frame<'a, 'i>>, ConnectionError> {
        self.free_returned();
        if self.data.is_some() {
            return Ok(self.read_data(input));
        }
        let Some((head, source)) = self.find_frame(input)? else { return Ok(None) };
        if !std::mem::replace(&mut self.has_settings, true)
            && (head.kind != kind::SETTINGS || head.has(flag::ACK))
        {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        if self.is_in_block() && head.kind != kind::CONTINUATION {
            return Err(ConnectionError::protocol("a header block is interrupted by another frame"));
        }
        if head.kind == kind::DATA {
            self.data = Some(PartialData::new(head, self.take_pad_length(input, head, source)?)?);
            return Ok(self.read_data(input).or_else(|| self.empty_data()));
        }
        let payload = match source {
            Source::Input => {
                let (payload, rest) = input[HEAD_BYTES..].split_at(head.length);
                *input = rest;
                payload
            }
            Source::Buffer => {
                self.is_returned = true;
                &self.buffer[HEAD_BYTES..]
            }
        };
        match head.kind {
            kind::HEADERS => {
                let (payload, depends_on) = split_headers(head, payload)?;
                let ends_stream = head.has(flag::END_STREAM);
                let stream = head.stream;
                if head.has(flag::END_HEADERS) {
                    return Ok(Some(Frame::Headers { stream, block: payload, ends_stream, depends_on }));
                }
                let bytes = payload.to_vec();
                self.block =
                    Some(Box::new(PartialBlock { stream, bytes, ends_stream, depends_on, is_whole: false }));
                Ok(Some(Frame::HeadersPart))
            }
            kind::CONTINUATION => {
                let block = self.block.as_deref_mut().filter(|block| block.stream == head.stream);
                let block =
                    block.ok_or(ConnectionError::protocol("CONTINUATION without HEADERS before it"))?;
                if block.bytes.len() + payload.len() > block_bytes_max {
                    let reason = "a header block is larger than the limit";
                    return Err(ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason));
                }
                block.bytes.extend_from_slice(payload);
                block.is_whole = head.has(flag::END_HEADERS);
                if !block.is_whole {
                    return Ok(Some(Frame::HeadersPart));
                }
                let PartialBlock { stream, ends_stream, depends_on, .. } = *block;
                Ok(Some(Frame::Headers { stream, block: &block.bytes, ends_stream, depends_on }))
            }
            _ => parse(head, payload).map(Some),
        }
    }

    /// Frees what the last call returned.
    fn free_returned(&mut self) {
        if self.is_returned {
            self.is_returned = false;
            self.buffer = Vec::new();
        }
        if self.block.as_ref().is_some_and(|block| block.is_whole) {
            self.block = None;
        }
    }

    /// Finds the head of the next frame and where its payload is: whole, or for DATA only its first byte.
    fn find_frame(&mut self, input: &mut &[u8]) -> Result<Option<(FrameHead, Source)>, ConnectionError> {
        if self.buffer.is_empty()
            && let Some(head) = input.first_chunk()
        {
            let head = checked(FrameHead::parse(head))?;
            if input.len() - HEAD_BYTES >= needed(head) {
                return Ok(Some((head, Source::Input)));
            }
        }
        self.buffer_up_to(HEAD_BYTES, input);
        let Some(head) = self.buffer.first_chunk() else { return Ok(None) };
        let head = checked(FrameHead::parse(head))?;
        let whole = HEAD_BYTES + needed(head);
        self.buffer_up_to(whole, input);
        Ok((self.buffer.len() == whole).then_some((head, Source::Buffer)))
    }

    /// Moves input to the buffer, until the buffer has this length.
    fn buffer_up_to(&mut self, length: usize, input: &mut &[u8]) {
        let missing = length.saturating_sub(self.buffer.len()).min(input.len());
        let (bytes, rest) = input.split_at(missing);
        self.buffer.extend_from_slice(bytes);
        *input = rest;
    }

    /// Removes the head of DATA and its pad length. Returns the pad length.
    fn take_pad_length(
        &mut self,
        input: &mut &[u8],
        head: FrameHead,
        source: Source,
    ) -> Result<Option<u8>, ConnectionError> {
        let start = match source {
            Source::Input => {
                let (start, rest) = input.split_at(HEAD_BYTES + needed(head));
                *input = rest;
                start.last().copied()
            }
            Source::Buffer => std::mem::take(&mut self.buffer).last().copied(),
        };
        if !head.has(flag::PADDED) {
            return Ok(None);
        }
        if head.length == 0 {
            return Err(ConnectionError::frame_size("a padded DATA frame without a pad length"));
        }
        Ok(start)
    }

    /// Returns the next piece of DATA. `None` without input, or if nothing remains.
    fn read_data<'i>(&mut self, input: &mut &'i [u8]) -> Option<Frame<'static, 'i>> {
        let partial = self.data.as_mut()?;
        if input.is_empty() || partial.remaining + partial.padding == 0 {
            return None;
        }
        let (data, rest) = input.split_at(partial.remaining.min(input.len()));
        let (padding, rest) = rest.split_at(partial.padding.min(rest.len()));
        *input = rest;
        partial.remaining -= data.len();
        partial.padding -= padding.len();
        Some(self.data_frame(data, data.len() + padding.len()))
    }

    /// Returns DATA that has neither data nor padding left.
    fn empty_data(&mut self) -> Option<Frame<'static, 'static>> {
        let is_over = self.data.as_ref().is_some_and(|partial| partial.remaining + partial.padding == 0);
        is_over.then(|| self.data_frame(b"", 0))
    }

    fn data_frame<'i>(&mut self, data: &'i [u8], flow_bytes: usize) -> Frame<'static, 'i> {
        let Some(partial) = &mut self.data else { return Frame::Unknown };
        let is_over = partial.remaining + partial.padding == 0;
        let (stream, ends_stream) = (partial.stream, is_over && partial.ends_stream);
        let is_empty = is_over && partial.has_no_data;
        let flow_bytes = flow_bytes + std::mem::take(&mut partial.uncounted);
        let flow_bytes = u32::try_from(flow_bytes).unwrap_or(u32::MAX);
        if is_over {
            self.data = None;
        }
        Frame::Data { stream, data, flow_bytes, ends_stream, is_empty }
    }
}

/// Where a frame is.
#[derive(Debug, Clone, Copy)]
enum Source {
    Input,
    Buffer,
}

impl PartialData {
    fn new(head: FrameHead, pad_length: Option<u8>) -> Result<Self, ConnectionError> {
        let padding = pad_length.map_or(0, usize::from);
        let uncounted = usize::from(pad_length.is_some());
        let remaining = (head.length - uncounted).checked_sub(padding);
        let remaining = remaining.ok_or(ConnectionError::protocol("padding is longer than its frame"))?;
        Ok(Self {
            stream: head.stream,
            remaining,
            padding,
            uncounted,
            has_no_data: remaining == 0,
            ends_stream: head.has(flag::END_STREAM),
        })
    }
}

/// Returns how much of the payload must be there before the frame is handled.
fn needed(head: FrameHead) -> usize {
    match head.kind {
        kind::DATA => usize::from(head.has(flag::PADDED)).min(head.length),
        _ => head.length,
    }
}

/// Checks the size and the stream of a frame, before its payload arrives.
fn checked(head: FrameHead) -> Result<FrameHead, ConnectionError> {
    if head.length > PAYLOAD_BYTES_MAX {
        return Err(ConnectionError::frame_size("a frame is larger than SETTINGS_MAX_FRAME_SIZE"));
    }
    let of_connection = match head.kind {
        kind::DATA
        | kind::HEADERS
        | kind::PRIORITY
        | kind::RST_STREAM
        | kind::PUSH_PROMISE
        | kind::CONTINUATION => false,
        kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE => true,
        _ => return Ok(head),
    };
    if of_connection == (head.stream == 0) {
        Ok(head)
    } else {
        Err(ConnectionError::protocol(if of_connection {
            "a frame of the connection has a stream"
        } else {
            "a frame of a stream has none"
        }))
    }
}

/// Removes the padding and the priority of HEADERS. Returns the fragment and the stream it depends on.
fn split_headers(head: FrameHead, mut payload: &[u8]) -> Result<(&[u8], Option<u32>), ConnectionError> {
    let too_short = ConnectionError::frame_size("HEADERS is too short for its flags");
    let mut padding = 0;
    if head.has(flag::PADDED) {
        let (length, rest) = payload.split_first().ok_or(too_short)?;
        (padding, payload) = (usize::from(*length), rest);
    }
    let mut depends_on = None;
    if head.has(flag::PRIORITY) {
        let (priority, rest) = payload.split_first_chunk::<5>().ok_or(too_short)?;
        (depends_on, payload) = (Some(dependency(*priority)), rest);
    }
    let length = payload.len().checked_sub(padding);
    let length = length.ok_or(ConnectionError::protocol("padding is longer than its frame"))?;
    Ok((&payload[..length], depends_on))
}

/// Returns the stream of a priority, without the exclusive flag.
fn dependency([a, b, c, d, _weight]: [u8; 5]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}

/// Parses frames other than DATA, HEADERS and CONTINUATION.
fn parse(head: FrameHead, payload: &[u8]) -> Result<Frame<'_, 'static>, ConnectionError> {
    let size = |reason| ConnectionError::frame_size(reason);
    let stream = head.stream;
    let number = |bytes: [u8; 4]| u32::from_be_bytes(bytes);
    Ok(match head.kind {
        kind::PRIORITY => {
            let priority = payload.try_into().map_err(|_| size("PRIORITY is not 5 bytes long"))?;
            Frame::Priority { stream, depends_on: dependency(priority) }
        }
        kind::RST_STREAM => {
            let code = payload.try_into().map_err(|_| size("RST_STREAM is not 4 bytes long"))?;
            Frame::Reset { stream, code: ErrorCode(number(code)) }
        }
        kind::SETTINGS if head.has(flag::ACK) => match payload {
            [] => Frame::SettingsAck,
            _ => return Err(size("an acknowledgement of SETTINGS has a payload")),
        },
        kind::SETTINGS if !payload.len().is_multiple_of(6) => {
            return Err(size("the length of SETTINGS is not a multiple of 6"));
        }
        kind::SETTINGS => Frame::Settings(payload),
        kind::PUSH_PROMISE => Frame::PushPromise,
        kind::PING => {
            let payload = payload.try_into().map_err(|_| size("PING is not 8 bytes long"))?;
            if head.has(flag::ACK) { Frame::PingAck(payload) } else { Frame::Ping(payload) }
        }
        kind::GOAWAY => {
            let (last, rest) = payload.split_first_chunk().ok_or(size("GOAWAY is too short"))?;
            let (code, reason) = rest.split_first_chunk().ok_or(size("GOAWAY is too short"))?;
            Frame::GoAway { last_stream: number(*last) & 0x7fff_ffff, code: ErrorCode(number(*code)), reason }
        }
        kind::WINDOW_UPDATE => {
            let increment = payload.try_into().map_err(|_| size("WINDOW_UPDATE is not 4 bytes long"))?;
            Frame::WindowUpdate { stream, increment: number(increment) & 0x7fff_ffff }
        }
        kind::PRIORITY_UPDATE => {
            let (stream, value) = payload.split_first_chunk().ok_or(size("PRIORITY_UPDATE is too short"))?;
            Frame::PriorityUpdate { stream: number(*stream) & 0x7fff_ffff, value }
        }
        _ => Frame::Unknown,
    })
}
