//! A lock for many readers or one writer.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::is_in_model;

/// A lock of `parking_lot`. In a model, threads wait for its `turn` first, so that the lock itself is free.
#[derive(Debug, Default)]
pub struct RwLock<T> {
    turn: shuttle::sync::RwLock<()>,
    value: parking_lot::RwLock<T>,
}

/// The permission to read the value of a [`RwLock`]. The value is dropped first.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    value: parking_lot::RwLockReadGuard<'a, T>,
    _turn: Option<shuttle::sync::RwLockReadGuard<'a, ()>>,
}

/// The permission to change the value of a [`RwLock`]. The value is dropped first.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    value: parking_lot::RwLockWriteGuard<'a, T>,
    _turn: Option<shuttle::sync::RwLockWriteGuard<'a, ()>>,
}

impl<T> RwLock<T> {
    /// Creates a lock.
    pub const fn new(value: T) -> Self {
        Self { turn: shuttle::sync::RwLock::new(()), value: parking_lot::RwLock::new(value) }
    }

    /// Waits until no thread writes. In a model, a thread may not call it twice.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let turn = is_in_model().then(|| self.turn.read().unwrap_or_else(PoisonError::into_inner));
        let value = match turn {
            Some(_) => self.value.try_read().expect("the thread with the turn writes"),
            None => self.value.read(),
        };
        RwLockReadGuard { value, _turn: turn }
    }

    /// Waits until no other thread reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let turn = is_in_model().then(|| self.turn.write().unwrap_or_else(PoisonError::into_inner));
        let value = match turn {
            Some(_) => self.value.try_write().expect("only the thread with the turn has the value"),
            None => self.value.write(),
        };
        RwLockWriteGuard { value, _turn: turn }
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
