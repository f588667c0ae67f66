//! Compresses a whole body at once.

use std::io;

use bytes::Bytes;
use rudy_message::semantics::negotiation::Coding;
use rudy_service::FileRange;

use super::body::FileInput;
use super::encoder::{Effort, Encoder};
use super::pool;

/// Compresses `content` on the current thread. Returns `None` if the result is not smaller.
pub fn now(content: &[u8], coding: Coding, level: u8) -> io::Result<Option<Bytes>> {
    let mut encoder = Encoder::new(coding, level, Some(content.len() as u64), Effort::Live)?;
    encoder.write(content)?;
    let output = encoder.finish()?;
    Ok((output.len() < content.len()).then(|| output.into_boxed_slice().into()))
}

/// Compresses `content`. Returns `None` if the result is not smaller.
pub async fn bytes(content: Bytes, coding: Coding, level: u8) -> io::Result<Option<Bytes>> {
    pool::run(move || now(&content, coding, level)).await
}

/// Compresses a file, a piece at a time. Returns `None` if the result is not smaller.
pub async fn file(file: FileRange, coding: Coding, level: u8) -> io::Result<Option<Bytes>> {
    let (length, source) = (file.length, file.clone());
    let mut encoder = Encoder::new(coding, level, Some(length), Effort::Live)?;
    let mut input = FileInput::new(file);
    let mut output = Vec::new();
    while !input.is_at_end() {
        let piece = move || {
            input.compress_piece(&mut encoder)?;
            Ok((encoder, input))
        };
        (encoder, input) = pool::run(piece).await?;
        output.extend_from_slice(&encoder.take());
        if output.len() as u64 >= length {
            return Ok(None);
        }
    }
    output.extend_from_slice(&pool::run(move || encoder.finish()).await?);
    // A mix of two versions must not be kept as one of them.
    if source.has_changed() {
        return Err(io::Error::other("the file changed while it was compressed"));
    }
    Ok(((output.len() as u64) < length).then(|| output.into_boxed_slice().into()))
}
