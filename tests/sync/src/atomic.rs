//! Atomics.

use std::ops::Deref;
use std::sync::atomic;

use crate::is_in_model;

pub use std::sync::atomic::Ordering;

/// An [`atomic::AtomicBool`].
pub type AtomicBool = Atomic<atomic::AtomicBool>;
/// An [`atomic::AtomicU8`].
pub type AtomicU8 = Atomic<atomic::AtomicU8>;
/// An [`atomic::AtomicU64`].
pub type AtomicU64 = Atomic<atomic::AtomicU64>;
/// An [`atomic::AtomicUsize`].
pub type AtomicUsize = Atomic<atomic::AtomicUsize>;

/// An atomic of `std`. In a model, another thread may continue before each use, which is before its arguments are evaluated. All
/// orderings are then as [`Ordering::SeqCst`].
#[derive(Debug, Default)]
pub struct Atomic<A> {
    value: A,
    turn: shuttle::sync::atomic::AtomicBool,
}

impl<A> Atomic<A> {
    /// Creates an atomic.
    pub fn new<V>(value: V) -> Self
    where
        A: From<V>,
    {
        Self { value: value.into(), turn: shuttle::sync::atomic::AtomicBool::new(false) }
    }
}

impl<A> Deref for Atomic<A> {
    type Target = A;

    fn deref(&self) -> &A {
        if is_in_model() {
            // Its value does not matter.
            self.turn.load(Ordering::SeqCst);
        }
        &self.value
    }
}
