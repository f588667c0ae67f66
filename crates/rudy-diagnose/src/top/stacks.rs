//! The stacks of the first threads of the table.

use super::java::Java;
use super::order::{Sort, rows};
use super::verdict::short;
use rudy_observe::{Difference, Error, KernelStack, Processes, Source};
use rudy_units::visible;

/// Where a thread is.
pub(super) struct ThreadStacks {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) kernel: Option<KernelStack>,
    pub(super) java: Option<JavaStack>,
}

/// The most frequent stack in the dumps of a JVM.
pub(super) struct JavaStack {
    /// The methods, the top of the stack first.
    pub(super) methods: Vec<String>,
    /// How many samples have this top frame, of how many.
    pub(super) count: usize,
    pub(super) of: usize,
}

/// Number of threads whose stacks are read: the first of the table that are hot. The kernel stack of a thread that runs says little,
/// and that of a thread that sleeps is of interest if it wakes often.
const THREADS: usize = 3;

/// From this share of a core, a thread is hot.
const HOT: f64 = 0.01;

/// Number of functions per stack. The rest is the same for most threads.
const FRAMES: usize = 5;

/// Of the hot threads among the first ones, or of the first one if none is hot.
pub(super) fn read(
    processes: &mut Processes,
    java: Option<&Java>,
    difference: &Difference,
    sort: Sort,
) -> Result<Vec<ThreadStacks>, Error> {
    let mut stacks = Vec::new();
    // A sum by name has no stack, so these are the threads of a table without sums.
    for row in rows(&difference.threads, false, sort).iter().take(THREADS) {
        if !stacks.is_empty() && difference.share(row.thread.cpu) < HOT {
            continue;
        }
        let tid = row.thread.tid;
        let kernel = processes.kernel_stack(tid)?;
        let java = match java {
            Some(java) => java.thread(processes, tid)?.and_then(JavaStack::of),
            None => None,
        };
        stacks.push(ThreadStacks { tid, name: row.thread.name.clone(), kernel, java });
    }
    Ok(stacks)
}

impl JavaStack {
    fn of(thread: &crate::jvm::JavaThread) -> Option<Self> {
        let top = thread.top_frame()?;
        let methods = [&[top.method.to_owned()], top.callers].concat();
        Some(Self { methods, count: top.count, of: top.of })
    }

    fn text(&self) -> String {
        let which = if self.count == self.of { "the same top frame" } else { "the most frequent top frame" };
        let mut methods = self.methods.iter().map(String::as_str);
        let top = methods.next().unwrap_or_default();
        let callers: Vec<&str> = methods.take(FRAMES - 1).collect();
        let callers =
            if callers.is_empty() { String::new() } else { format!(", called by {}", callers.join(", ")) };
        format!("{which} in {} of {} samples: {top}{callers}", self.count, self.of)
    }
}

/// The lines below the table.
pub(super) fn lines(stacks: &[ThreadStacks], java: Option<&Java>) -> Vec<String> {
    let mut lines = Vec::new();
    for thread in stacks {
        let name = format!("{} ({})", visible(&short(&thread.name)), thread.tid);
        match (&thread.java, java) {
            (Some(java), _) => lines.push(visible(&format!("{name}: {}", java.text()))),
            (None, Some(_)) => lines.push(format!("{name}: no Java frames, as a thread of the JVM itself")),
            (None, None) => {}
        }
        lines.push(format!("{name} in the kernel: {}", thread.kernel.as_ref().map_or_else(ended, kernel)));
    }
    let is_partial =
        |thread: &ThreadStacks| thread.kernel.as_ref().is_some_and(|stack| stack.source != Source::Stack);
    if stacks.iter().any(is_partial) {
        lines.push("Whole kernel stacks (/proc/PID/task/TID/stack) are for root only; shown is what wchan and syscall say.".to_owned());
    }
    lines.extend(java.filter(|_| !stacks.is_empty()).and_then(dumps));
    lines
}

fn ended() -> String {
    "it has ended".to_owned()
}

fn kernel(stack: &KernelStack) -> String {
    let frames: Vec<&str> = stack.frames.iter().take(FRAMES).map(String::as_str).collect();
    let system_call = stack.system_call.map(|number| format!("system call {number}"));
    match (frames.as_slice(), system_call) {
        ([], None) if stack.source == Source::Stack => "nothing, it runs in user mode".to_owned(),
        ([], None) => "not known, or it runs".to_owned(),
        ([], Some(call)) => call,
        (frames, None) => frames.join(", called by "),
        (frames, Some(call)) => format!("{} ({call})", frames.join(", called by ")),
    }
}

/// What the dumps cost.
fn dumps(java: &Java) -> Option<String> {
    let samples = &java.samples;
    let (least, most) = (samples.took.iter().min()?, samples.took.iter().max()?);
    let failures = match samples.failures.as_slice() {
        [] => String::new(),
        failures => format!("; {} failed: {}", failures.len(), visible(&failures[failures.len() - 1])),
    };
    Some(format!(
        "{} thread dumps took {} to {} each: the JVM was stopped for at most that long{failures}",
        samples.took.len(),
        rudy_units::duration(*least),
        rudy_units::duration(*most)
    ))
}
