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
    /// Numbers that are not used again.
    spent: u16,
}

/// What an app answers in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Open {
    /// Takes the lowest number that is free. `None` if so many are taken as `limit` says, or none is left.
    pub(super) fn begin(&mut self, limit: u16) -> Option<RequestId> {
        if !self.has_room(limit) {
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
        // There is room, so it is a number.
        RequestId::new(u16::try_from(index + 2).unwrap_or(u16::MAX))
    }

    /// Whether there is a number for one more. Whoever is asked to give up many requests on one connection runs out of them.
    pub(super) fn has_room(&self, limit: u16) -> bool {
        self.count < limit && self.spent < SPENT_MAX
    }

    /// A number is not to be used again, not even when its request is over.
    pub(super) fn spend(&mut self, id: RequestId) {
        if let Some(state) = self.state_mut(id)
            && *state & SPENT == 0
        {
            *state |= SPENT;
            self.spent += 1;
        }
    }

    pub(super) fn is_open(&self, id: RequestId) -> bool {
        self.state(id) & OPEN != 0
    }

    /// Whether a request is over whose number was spent.
    pub(super) fn is_over_for_good(&self, id: RequestId) -> bool {
        self.state(id) & (OPEN | SPENT) == SPENT
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

    /// The number is free again, unless it was spent.
    pub(super) fn close(&mut self, id: RequestId) {
        if let Some(state) = self.state_mut(id)
            && *state & OPEN != 0
        {
            *state &= SPENT;
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
const SPENT: u8 = 8;

/// Numbers that may be spent on a connection: more than that would only make it larger.
const SPENT_MAX: u16 = 1000;

/// What is set in a number's byte when one of its streams has ended.
fn bit(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 2,
        Stream::Stderr => 4,
    }
}
