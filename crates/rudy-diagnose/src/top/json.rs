//! An interval as JSON.

use std::time::Duration;

use rudy_observe::{Difference, KernelStack, Source, ThreadDifference};
use rudy_units::visible_json;
use serde_json::{Value, json};

use super::order::Row;
use super::runtime::{Role, role};
use super::view::View;
use crate::text::{unix_ms, without_null};

/// A line with one object.
pub(super) fn line(view: &View<'_>) -> String {
    let (sample, difference) = (view.sample, view.difference);
    let samples = view.java.map(|java| &java.samples);
    let object = json!({
        "time_ms": unix_ms(),
        "interval_ms": milliseconds(difference.time),
        // Of several, the first.
        "pid": view.pid,
        "processes": view.processes,
        "name": view.name,
        "cpu_percent": percent(difference, difference.cpu),
        "cpu_user_percent": percent(difference, difference.cpu_user),
        "cpu_system_percent": percent(difference, difference.cpu_system),
        "cpu_of_ended_threads_percent": percent(difference, difference.cpu_of_ended),
        "rss_bytes": sample.memory.rss_bytes,
        "anonymous_bytes": sample.memory.anonymous_bytes,
        "peak_rss_bytes": sample.memory.peak_rss_bytes,
        "descriptors": sample.descriptors.open,
        "descriptors_limit": sample.descriptors.limit,
        "threads": sample.threads.len(),
        "threads_busy": view.busy,
        "threads_begun": difference.threads_begun,
        "threads_ended": difference.threads_ended,
        "hottest": hottest(view),
        // CPU of the threads of the program, of the language runtime, and of the server's management.
        "program_cpu_percent": of_role(difference, None),
        "runtime_cpu_percent": of_role(difference, Some(Role::Runtime)),
        "management_cpu_percent": of_role(difference, Some(Role::Management)),
        "verdicts": view.verdicts,
        "dumps": samples.map(|samples| samples.dumps),
        "dumps_failed": samples.map(|samples| samples.failures.len()),
        // How long each dump took: the JVM was stopped for at most that long.
        "dump_ms": samples.map(|samples| samples.took.iter().map(|took| milliseconds(*took)).collect::<Vec<_>>()),
        "busiest": view.rows.iter().map(|row| thread(view, row)).collect::<Value>(),
    });
    visible_json(&without_null(object, &["dumps", "dumps_failed", "dump_ms"])) + "\n"
}

/// The thread with the most CPU in the interval, for programs that want one number.
fn hottest(view: &View<'_>) -> Option<Value> {
    let difference = view.difference;
    let thread = difference.threads.iter().max_by_key(|thread| thread.cpu)?;
    let stacks = view.stacks.iter().find(|stacks| stacks.tid == thread.tid);
    let stack = stacks.and_then(|stacks| stacks.java.as_ref());
    let [count, of] =
        stack.map_or([0, 0], |stack| [stack.count, stack.of]).map(|count| rudy_units::float(count as u64));
    let object = json!({
        "cpu_percent": percent(difference, thread.cpu),
        // CPU and run delay: 100 for a thread that never waits for anything but a core.
        "cpu_and_ready_percent": percent(difference, thread.cpu + thread.ready.unwrap_or_default()),
        "cpu_since_start_percent": since_start(thread),
        // How many of the dumps have its most frequent top frame.
        "same_top_frame_percent": stack.map(|_| thousandths(count / of * 100.0)),
    });
    Some(without_null(object, &["same_top_frame_percent"]))
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

fn thread(view: &View<'_>, row: &Row) -> Value {
    let (difference, thread) = (view.difference, &row.thread);
    let stacks = view.stacks.iter().find(|stacks| stacks.tid == thread.tid);
    // The most frequent one.
    let java_stack = stacks.and_then(|stacks| stacks.java.as_ref()).map(|stack| {
        json!({"methods": stack.methods, "samples_with_top_method": stack.count, "samples": stack.of})
    });
    let object = json!({
        "tid": thread.tid,
        "nid": format!("0x{:x}", thread.tid),
        "name": thread.name,
        // More than one for a sum of threads by name.
        "threads": row.threads,
        "state": thread.state,
        // Absent for a thread of the program.
        "role": role(&thread.name).map(|(role, _)| match role {
            Role::Runtime => "runtime",
            Role::Management => "management",
        }),
        "cpu_percent": percent(difference, thread.cpu),
        "cpu_user_percent": percent(difference, thread.cpu_user),
        "cpu_system_percent": percent(difference, thread.cpu_system),
        "ready_percent": thread.ready.map(|ready| percent(difference, ready)),
        "cpu_since_start_s": thousandths(thread.cpu_since_start.as_secs_f64()),
        "age_s": thousandths(thread.age.as_secs_f64()),
        "cpu_since_start_percent": since_start(thread),
        "voluntary_switches_per_s": thousandths(difference.rate(thread.voluntary_switches)),
        "involuntary_switches_per_s": thousandths(difference.rate(thread.involuntary_switches)),
        "java_stack": java_stack,
        "kernel_stack": stacks.and_then(|stacks| stacks.kernel.as_ref()).map(kernel_stack),
    });
    without_null(object, &["role", "java_stack", "kernel_stack"])
}

fn kernel_stack(stack: &KernelStack) -> Value {
    let source = match stack.source {
        Source::Stack => "stack",
        Source::WaitChannel => "wchan",
        Source::Nothing => "none",
    };
    json!({"functions": stack.frames, "source": source, "system_call": stack.system_call})
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
