//! Identifies the worker of a thread by its runtime. The engines have one runtime for each core, or one for
//! all.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Handle, Id};

/// The runtimes seen so far. There are few, and they live as long as their engine.
static RUNTIMES: Mutex<Vec<Id>> = Mutex::new(Vec::new());

thread_local! {
    /// The last runtime of this thread.
    static HERE: Cell<Option<(Id, usize)>> = const { Cell::new(None) };
}

/// Returns the number of the current runtime, from 0.
pub(crate) fn here() -> usize {
    let Ok(id) = Handle::try_current().map(|handle| handle.id()) else { return 0 };
    match HERE.get() {
        Some((last, number)) if last == id => number,
        _ => {
            let number = number(id);
            HERE.set(Some((id, number)));
            number
        }
    }
}

fn number(id: Id) -> usize {
    let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
    runtimes.iter().position(|other| *other == id).unwrap_or_else(|| {
        runtimes.push(id);
        runtimes.len() - 1
    })
}
