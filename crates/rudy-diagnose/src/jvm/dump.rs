//! Parses thread dumps of `HotSpot`, as `jcmd PID Thread.print`, `jstack` and SIGQUIT print them.

/// A thread in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DumpedThread {
    /// The id of its operating system thread.
    pub(super) nid: u32,
    /// Its name, in full.
    pub(super) name: String,
    /// Its Java methods, the top of the stack first. Empty for a thread of the JVM.
    pub(super) frames: Vec<String>,
}

/// The dumps in a text. A dump starts with a line such as `Full thread dump OpenJDK 64-Bit Server VM (25.0.3+9-LTS mixed mode)`.
pub(super) fn parse(text: &str) -> Vec<Vec<DumpedThread>> {
    text.split("Full thread dump").skip(1).map(threads).collect()
}

fn threads(dump: &str) -> Vec<DumpedThread> {
    let mut threads: Vec<DumpedThread> = Vec::new();
    // Frames of a thread without a native id, such as an unmounted virtual thread, belong to no thread of the table.
    let mut is_known = false;
    for line in dump.lines() {
        if line.starts_with('"') {
            let thread = head(line);
            is_known = thread.is_some();
            threads.extend(thread);
        } else if is_known
            && let (Some(frame), Some(thread)) = (line.trim_start().strip_prefix("at "), threads.last_mut())
        {
            thread.frames.push(method(frame).to_owned());
        }
    }
    threads
}

/// Parses `"name" #13 prio=3 os_prio=0 cpu=9.90ms elapsed=3.99s tid=0x00007f45482df2b0 nid=0x6cb runnable`. JDK 21 and later print
/// `nid` in decimal. A name may contain anything, even `nid=`, so its end is the last quotation mark.
fn head(line: &str) -> Option<DumpedThread> {
    let (name, fields) = line.strip_prefix('"')?.rsplit_once('"')?;
    let nid = fields.split_ascii_whitespace().find_map(|field| field.strip_prefix("nid="))?;
    let nid = match nid.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => nid.parse().ok()?,
    };
    Some(DumpedThread { nid, name: name.to_owned(), frames: Vec::new() })
}

/// The method of a frame: `sun.nio.ch.Net.accept` of `sun.nio.ch.Net.accept(java.base@17.0.15/Native Method)`.
fn method(frame: &str) -> &str {
    let method = frame.split('(').next().unwrap_or(frame).trim();
    // Some JDKs print the module and its class loader before the class: `java.base@11/java.lang.Thread.run`.
    method.rsplit_once('/').map_or(method, |(_, method)| method)
}
