//! Observes a process through `/proc`: its threads and their CPU usage, its memory, its descriptors, its
//! sockets.
//!
//! Only reads: attaches to nothing and changes nothing, so that the observation does not affect the process.
//! (A profiler, attached to a busy server, drove its load to 2671.) Uses no runtime and no threads; the
//! caller decides when to sample.
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

mod descriptors;
mod error;
mod folder;
mod machine;
mod process;
mod sockets;
mod target;

pub use descriptors::Descriptors;
pub use error::Error;
pub use folder::Folder;
pub use machine::{Hardware, Machine, thread_siblings};
pub use process::{
    Allocation, Difference, KernelStack, Memory, Process, ProcessEntry, Processes, RunDelay, Sample, Source,
    Stat, Thread, ThreadDifference, ThreadTime, ThreadTimes, all, cpu_time, descendants, field,
    process_entry,
};
pub use sockets::{By, Group, Owner, Socket, Sockets, State, Tally, by_state};
pub use target::Target;
