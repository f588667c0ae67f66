//! An interval as JSON. The bytes are those of the interval.

use rudy_units::visible_json;
use serde_json::{Value, json};

use super::Options;
use super::io::Io;
use super::sample::{Activity, Writes};
use crate::text::unix_ms;

/// A line with one object.
pub(super) fn line(activity: &Activity, options: &Options) -> String {
    let is_shown = |writes: &&Writes| options.shows_idle || activity.is_single || !writes.io.is_idle();
    let most = options.rows.unwrap_or(usize::MAX);
    let object = json!({
        "time_ms": unix_ms(),
        "interval_ms": activity.time.as_secs_f64() * 1000.0,
        "processes_of_other_users": activity.denied,
        "processes": activity.processes.iter().filter(is_shown).take(most).map(process).collect::<Value>(),
    });
    visible_json(&object) + "\n"
}

fn process(writes: &Writes) -> Value {
    let mut object = named("pid", writes.pid, &writes.name, &writes.io);
    object["since_start"] = json!(writes.io_since_start);
    if !writes.threads.is_empty() {
        object["threads"] =
            writes.threads.iter().map(|(tid, name, io)| named("tid", *tid, name, io)).collect();
    }
    let file = |(file, written): &(super::files::OpenFile, u64)| json!({"path": file.path, "written_bytes": written, "size_bytes": file.size});
    object["files"] = writes.files.iter().map(file).collect();
    object
}

/// A process or thread with what it has written.
fn named(key: &str, id: u32, name: &str, io: &Io) -> Value {
    let mut object = json!({key: id, "name": name});
    if let (Value::Object(object), Value::Object(io)) = (&mut object, json!(io)) {
        object.extend(io);
    }
    object
}
