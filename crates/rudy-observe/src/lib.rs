//! What a process does, from `/proc`: its threads and their CPU, its memory, its descriptors, its sockets.
//!
//! Reads only: nothing is attached to, signalled or set, so that looking does not change what is seen. (A profiler that
//! was attached to a hot server drove its load to 2671.) No runtime and no threads of its own either: whoever samples
//! decides when.
//!
//! ```
//! let mut process = rudy_observe::Process::own()?;
//! let before = process.sample()?;
//! let after = process.sample()?;
//! let difference = after.since(&before);
//! for thread in &difference.threads {
//!     println!("{}: {:.1} % of a core", thread.name, difference.share(thread.cpu) * 100.0);
//! }
//! # Ok::<(), rudy_observe::Error>(())
//! ```

pub mod conns;
mod error;
mod exit;
mod machine;
mod process;
mod sockets;
mod text;
pub mod top;
mod watch;

pub use error::Error;
pub use exit::Exit;
pub use machine::Machine;
pub use process::{Descriptors, Difference, Memory, Process, Sample, Thread, ThreadDifference};
pub use sockets::{By, Group, Owner, Socket, Sockets, State, Tally, by_state};
