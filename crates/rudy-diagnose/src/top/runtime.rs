//! Threads that do the work of a language runtime or of a server's management instead of the program's.

/// The owner of the work of a thread, if not the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The language runtime: a JVM, V8.
    Runtime,
    /// The server in which the program runs: its acceptors and selectors.
    Management,
}

/// A role, the start of the names of its threads, and their work. The kernel cuts names to 15 bytes, so a pattern has at most as
/// many.
const RUNTIME: &[(&str, &str)] = &[
    // HotSpot, by the names in its sources (src/hotspot/share: `set_name`, `os::set_native_thread_name`).
    ("VM Thread", "runs safepoints: parts of garbage collection, thread dumps"),
    ("VM Periodic Tas", "wakes at short intervals for counters"),
    ("GC Thread#", "collects garbage"),
    ("G1 ", "collects garbage"),
    ("ZWorker", "collects garbage"),
    ("ZDriver", "collects garbage"),
    ("ZDirector", "collects garbage"),
    ("Shenandoah", "collects garbage"),
    ("C1 CompilerThre", "compiles methods, mostly in the first minutes"),
    ("C2 CompilerThre", "compiles methods, mostly in the first minutes"),
    ("Sweeper thread", "removes compiled code"),
    ("Finalizer", "runs finalizers of unreachable objects"),
    ("Reference Handl", "queues references to unreachable objects"),
    ("Common-Cleaner", "runs cleaners of unreachable objects"),
    ("Signal Dispatch", "handles signals"),
    ("Service Thread", "sends notices of the JVM"),
    ("Notification Th", "sends notices of the JVM"),
    ("Monitor Deflati", "frees locks"),
    ("Attach Listener", "serves jcmd and jstack, as with --jvm"),
    // V8, as node starts it.
    ("V8Worker", "compiles and collects garbage"),
    ("node-V8Worker", "compiles and collects garbage"),
];

/// Parts of the names of threads that distribute connections, in Jetty, Tomcat, Netty and Undertow.
const MANAGEMENT: &[(&str, &str)] = &[
    ("acceptor", "accepts connections; should sleep in accept()"),
    ("-poller", "waits for requests on idle connections"),
    ("selector", "waits for requests on idle connections"),
];

/// The role of a thread, and its work.
pub(super) fn role(name: &str) -> Option<(Role, &'static str)> {
    if let Some((_, work)) = RUNTIME.iter().find(|(start, _)| name.starts_with(start)) {
        return Some((Role::Runtime, work));
    }
    let name = name.to_ascii_lowercase();
    let (_, work) = MANAGEMENT.iter().find(|(part, _)| name.contains(part))?;
    Some((Role::Management, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_whole_names_and_by_those_that_the_kernel_has_cut() {
        for name in
            ["C2 CompilerThread0", "C2 CompilerThre", "VM Periodic Task Thread", "GC Thread#11", "Finalizer"]
        {
            assert_eq!(role(name).map(|(role, _)| role), Some(Role::Runtime), "{name}");
        }
        for name in
            ["qtp1-13-acceptor-0@2ed7-ServerConnector@2a", "http-nio-8080-Acceptor", "http-nio-8080-Poller"]
        {
            assert_eq!(role(name).map(|(role, _)| role), Some(Role::Management), "{name}");
        }
        for name in ["main", "worker-1", "qtp610998173-14", "python3", "My VM Thread", ""] {
            assert_eq!(role(name), None, "{name}");
        }
    }

    #[test]
    fn a_pattern_fits_into_a_name_of_the_kernel() {
        for (pattern, _) in RUNTIME {
            assert!(pattern.len() <= 15, "{pattern}");
        }
    }
}
