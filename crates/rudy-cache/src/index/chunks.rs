//! A vector that grows without moving its elements: a thread that adds one never has to copy millions of them.

use std::ops::{Index, IndexMut};

/// The number of elements in a chunk.
const CHUNK: usize = 1024;

/// A vector in chunks of [`CHUNK`] elements.
#[derive(Debug)]
pub(super) struct Chunks<T>(Vec<Vec<T>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Chunks<T> {
    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn push(&mut self, element: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(element),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(element);
                self.0.push(chunk);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.len() * CHUNK * size_of::<T>() + self.0.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> Index<u32> for Chunks<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.0[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Chunks<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.0[at as usize / CHUNK][at as usize % CHUNK]
    }
}
