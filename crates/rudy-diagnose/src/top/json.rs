//! An interval as JSON.

use std::time::Duration;

use rudy_observe::{Difference, Source, ThreadDifference};
use rudy_units::visible_json;
use serde::Serialize;

use super::order::Row;
use super::runtime::{Role, role};
use super::stacks::ThreadStacks;
use super::verdict::Verdict;
use super::view::View;
use crate::text::unix_ms;

/// A line with one object.
pub(super) fn line(view: &View<'_>) -> String {
    let (sample, difference) = (view.sample, view.difference);
    let update = Update {
        time_ms: unix_ms(),
        interval_ms: milliseconds(difference.time),
        pid: view.pid,
        name: &view.name,
        cpu_percent: percent(difference, difference.cpu),
        cpu_user_percent: percent(difference, difference.cpu_user),
        cpu_system_percent: percent(difference, difference.cpu_system),
        cpu_of_ended_threads_percent: percent(difference, difference.cpu_of_ended),
        rss_bytes: sample.memory.rss_bytes,
        anonymous_bytes: sample.memory.anonymous_bytes,
        peak_rss_bytes: sample.memory.peak_rss_bytes,
        descriptors: sample.descriptors.open,
        descriptors_limit: sample.descriptors.limit,
        threads: sample.threads.len(),
        threads_busy: view.busy,
        threads_begun: difference.threads_begun,
        threads_ended: difference.threads_ended,
        hottest: Hottest::of(view),
        program_cpu_percent: of_role(difference, None),
        runtime_cpu_percent: of_role(difference, Some(Role::Runtime)),
        management_cpu_percent: of_role(difference, Some(Role::Management)),
        verdicts: &view.verdicts,
        dumps: view.java.map(|java| java.samples.dumps),
        dumps_failed: view.java.map(|java| java.samples.failures.len()),
        dump_ms: view.java.map(|java| java.samples.took.iter().map(|took| milliseconds(*took)).collect()),
        busiest: view.rows.iter().map(|row| Thread::new(view, row)).collect(),
    };
    // Structs of numbers and strings can always be serialized.
    visible_json(&serde_json::to_string(&update).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct Update<'a> {
    time_ms: u64,
    interval_ms: f64,
    pid: u32,
    name: &'a str,
    cpu_percent: f64,
    cpu_user_percent: f64,
    cpu_system_percent: f64,
    cpu_of_ended_threads_percent: f64,
    rss_bytes: u64,
    anonymous_bytes: u64,
    peak_rss_bytes: u64,
    descriptors: Option<u64>,
    descriptors_limit: Option<u64>,
    threads: usize,
    threads_busy: usize,
    threads_begun: usize,
    threads_ended: usize,
    hottest: Option<Hottest>,
    /// CPU of the threads of the program, of the language runtime, and of the server's management.
    program_cpu_percent: f64,
    runtime_cpu_percent: f64,
    management_cpu_percent: f64,
    verdicts: &'a [Verdict],
    #[serde(skip_serializing_if = "Option::is_none")]
    dumps: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dumps_failed: Option<usize>,
    /// How long each dump took: the JVM was stopped for at most that long.
    #[serde(skip_serializing_if = "Option::is_none")]
    dump_ms: Option<Vec<f64>>,
    busiest: Vec<Thread<'a>>,
}

/// The thread with the most CPU in the interval, for programs that want one number.
#[expect(clippy::struct_field_names, reason = "these are keys of the JSON output, with their unit")]
#[derive(Serialize)]
struct Hottest {
    cpu_percent: f64,
    /// CPU and run delay: 100 for a thread that never waits for anything but a core.
    cpu_and_ready_percent: f64,
    cpu_since_start_percent: f64,
    /// How many of the dumps have its most frequent top frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_top_frame_percent: Option<f64>,
}

impl Hottest {
    fn of(view: &View<'_>) -> Option<Self> {
        let difference = view.difference;
        let thread = difference.threads.iter().max_by_key(|thread| thread.cpu)?;
        let stack = view
            .stacks
            .iter()
            .find(|stacks| stacks.tid == thread.tid)
            .and_then(|stacks| stacks.java.as_ref());
        let [count, of] = stack
            .map_or([0, 0], |stack| [stack.count, stack.of])
            .map(|count| rudy_units::float(count as u64));
        Some(Self {
            cpu_percent: percent(difference, thread.cpu),
            cpu_and_ready_percent: percent(difference, thread.cpu + thread.ready.unwrap_or_default()),
            cpu_since_start_percent: since_start(thread),
            same_top_frame_percent: stack.map(|_| thousandths(count / of * 100.0)),
        })
    }
}

fn of_role(difference: &Difference, of: Option<Role>) -> f64 {
    let is_of = |thread: &&ThreadDifference| role(&thread.name).map(|(role, _)| role) == of;
    percent(difference, difference.threads.iter().filter(is_of).map(|thread| thread.cpu).sum())
}

/// The share of its life in which a thread ran.
fn since_start(thread: &ThreadDifference) -> f64 {
    let share = thread.cpu_since_start.as_secs_f64() / thread.age.as_secs_f64();
    if share.is_finite() { thousandths(share * 100.0) } else { 0.0 }
}

#[derive(Serialize)]
struct Thread<'a> {
    tid: u32,
    nid: String,
    name: &'a str,
    /// More than one for a sum of threads by name.
    threads: usize,
    state: char,
    /// Absent for a thread of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    cpu_percent: f64,
    cpu_user_percent: f64,
    cpu_system_percent: f64,
    ready_percent: Option<f64>,
    cpu_since_start_s: f64,
    age_s: f64,
    cpu_since_start_percent: f64,
    voluntary_switches_per_s: f64,
    involuntary_switches_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    java_stack: Option<JavaStack<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_stack: Option<KernelStack<'a>>,
}

/// The most frequent one.
#[derive(Serialize)]
struct JavaStack<'a> {
    methods: &'a [String],
    samples_with_top_method: usize,
    samples: usize,
}

#[derive(Serialize)]
struct KernelStack<'a> {
    functions: &'a [String],
    source: &'static str,
    system_call: Option<u64>,
}

impl<'a> Thread<'a> {
    fn new(view: &'a View<'_>, row: &'a Row) -> Self {
        let (difference, thread) = (view.difference, &row.thread);
        let stacks = view.stacks.iter().find(|stacks| stacks.tid == thread.tid);
        Self {
            tid: thread.tid,
            nid: format!("0x{:x}", thread.tid),
            name: &thread.name,
            threads: row.threads,
            state: thread.state,
            role: role(&thread.name).map(|(role, _)| match role {
                Role::Runtime => "runtime",
                Role::Management => "management",
            }),
            cpu_percent: percent(difference, thread.cpu),
            cpu_user_percent: percent(difference, thread.cpu_user),
            cpu_system_percent: percent(difference, thread.cpu_system),
            ready_percent: thread.ready.map(|ready| percent(difference, ready)),
            cpu_since_start_s: thousandths(thread.cpu_since_start.as_secs_f64()),
            age_s: thousandths(thread.age.as_secs_f64()),
            cpu_since_start_percent: since_start(thread),
            voluntary_switches_per_s: thousandths(difference.rate(thread.voluntary_switches)),
            involuntary_switches_per_s: thousandths(difference.rate(thread.involuntary_switches)),
            java_stack: stacks.and_then(java_stack),
            kernel_stack: stacks.and_then(kernel_stack),
        }
    }
}

fn java_stack(stacks: &ThreadStacks) -> Option<JavaStack<'_>> {
    let stack = stacks.java.as_ref()?;
    Some(JavaStack { methods: &stack.methods, samples_with_top_method: stack.count, samples: stack.of })
}

fn kernel_stack(stacks: &ThreadStacks) -> Option<KernelStack<'_>> {
    let stack = stacks.kernel.as_ref()?;
    let source = match stack.source {
        Source::Stack => "stack",
        Source::WaitChannel => "wchan",
        Source::Nothing => "none",
    };
    Some(KernelStack { functions: &stack.frames, source, system_call: stack.system_call })
}

fn milliseconds(time: Duration) -> f64 {
    thousandths(time.as_secs_f64() * 1000.0)
}

fn percent(difference: &Difference, cpu: Duration) -> f64 {
    thousandths(difference.share(cpu) * 100.0)
}

/// Rounds to the meaningful digits.
fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
