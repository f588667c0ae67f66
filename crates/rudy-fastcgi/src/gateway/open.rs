//! Which numbers are taken on a connection, and which of their streams have ended.

use crate::RequestId;

/// A byte for each number: its requests are few, numbered from 1, and the lowest number that is free is handed out.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Number 1, which most connections make do with.
    first: u8,
    /// Numbers from 2 on.
    others: Vec<u8>,
    count: u16,
}

/// What an app answers in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Open {
    /// Takes the lowest number that is free. `None` if so many are taken as `limit` says.
    pub(super) fn begin(&mut self, limit: u16) -> Option<RequestId> {
        if self.count >= limit {
            return None;
        }
        self.count += 1;
        if self.first == FREE {
            self.first = OPEN;
            return Some(RequestId::MIN);
        }
        let index = memchr::memchr(FREE, &self.others).unwrap_or(self.others.len());
        if index == self.others.len() {
            self.others.push(FREE);
        }
        self.others[index] = OPEN;
        // As many are taken as there are numbers below this one, and that is less than a `u16` counts.
        RequestId::new(u16::try_from(index + 2).unwrap_or(u16::MAX))
    }

    pub(super) fn is_open(&self, id: RequestId) -> bool {
        self.state(id) != FREE
    }

    pub(super) fn has_ended(&self, id: RequestId, stream: Stream) -> bool {
        self.state(id) & bit(stream) != 0
    }

    /// Notes the end of a stream. Says whether it is news.
    pub(super) fn end(&mut self, id: RequestId, stream: Stream) -> bool {
        let is_news = !self.has_ended(id, stream);
        if let Some(state) = self.state_mut(id) {
            *state |= bit(stream);
        }
        is_news
    }

    /// The number is free again.
    pub(super) fn close(&mut self, id: RequestId) {
        if let Some(state) = self.state_mut(id)
            && std::mem::replace(state, FREE) != FREE
        {
            self.count -= 1;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.into()
    }

    fn state(&self, id: RequestId) -> u8 {
        match id.get() {
            1 => self.first,
            id => self.others.get(usize::from(id) - 2).copied().unwrap_or(FREE),
        }
    }

    fn state_mut(&mut self, id: RequestId) -> Option<&mut u8> {
        match id.get() {
            1 => Some(&mut self.first),
            id => self.others.get_mut(usize::from(id) - 2),
        }
    }
}

const FREE: u8 = 0;
const OPEN: u8 = 1;

/// What is set in a number's byte when one of its streams has ended.
fn bit(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 2,
        Stream::Stderr => 4,
    }
}
