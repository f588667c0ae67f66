//! A mutex.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::is_in_model;

/// A mutex of `parking_lot`. In a model, threads wait for its `turn` first, so that the mutex itself is free.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    turn: shuttle::sync::Mutex<()>,
    value: parking_lot::Mutex<T>,
}

/// The permission to use the value of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    pub(crate) mutex: &'a Mutex<T>,
    /// Both are `None` while a thread waits for a [`Condvar`](crate::Condvar). The value is dropped first.
    pub(crate) value: Option<parking_lot::MutexGuard<'a, T>>,
    pub(crate) turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
}

impl<T> Mutex<T> {
    /// Creates a mutex.
    pub const fn new(value: T) -> Self {
        Self { turn: shuttle::sync::Mutex::new(()), value: parking_lot::Mutex::new(value) }
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let turn = is_in_model().then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let value = if turn.is_some() { self.free_value() } else { self.value.lock() };
        MutexGuard { mutex: self, value: Some(value), turn }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let turn = if is_in_model() { Some(self.turn.try_lock().ok()?) } else { None };
        let value = self.value.try_lock()?;
        Some(MutexGuard { mutex: self, value: Some(value), turn })
    }

    /// Takes the mutex after its turn.
    pub(crate) fn free_value(&self) -> parking_lot::MutexGuard<'_, T> {
        self.value.try_lock().expect("only the thread with the turn has the value")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is locked")
    }
}
