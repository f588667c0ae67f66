//! Sorts threads, and sums them by name.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use rudy_observe::ThreadDifference;

/// The order of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// CPU of the interval.
    #[default]
    Cpu,
    /// CPU since the start of the thread.
    Total,
    /// The name.
    Name,
    /// Run delay: time in which the thread was runnable without a free core.
    Wait,
}

/// A row of the table: a thread, or all threads whose names differ in numbers only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The thread, or the sum of the threads. A sum has the id of its first thread and the age of the oldest.
    pub(super) thread: ThreadDifference,
    /// The number of threads.
    pub(super) threads: usize,
}

impl Row {
    pub(super) fn is_busy(&self) -> bool {
        is_busy(&self.thread)
    }

    fn add(&mut self, other: &ThreadDifference) {
        let sum = &mut self.thread;
        self.threads += 1;
        sum.tid = sum.tid.min(other.tid);
        sum.cpu += other.cpu;
        sum.cpu_user += other.cpu_user;
        sum.cpu_system += other.cpu_system;
        sum.cpu_since_start += other.cpu_since_start;
        sum.age = sum.age.max(other.age);
        sum.ready = sum.ready.zip(other.ready).map(|(sum, ready)| sum + ready);
        sum.voluntary_switches += other.voluntary_switches;
        sum.involuntary_switches += other.involuntary_switches;
        // A sum runs if one of its threads does.
        if other.state == 'R' {
            sum.state = 'R';
        }
    }
}

/// Whether a thread has used CPU, or would have: one that waits for a core all the time uses none.
pub(super) fn is_busy(thread: &ThreadDifference) -> bool {
    !thread.cpu.is_zero() || thread.ready.is_some_and(|ready| !ready.is_zero())
}

/// The rows of a table, sorted.
pub(super) fn rows(threads: &[ThreadDifference], sums_names: bool, sort: Sort) -> Vec<Row> {
    let single = |thread: &ThreadDifference| Row { thread: thread.clone(), threads: 1 };
    let mut rows = if sums_names { sums(threads) } else { threads.iter().map(single).collect() };
    let switches = |row: &Row| row.thread.voluntary_switches + row.thread.involuntary_switches;
    let ready = |row: &Row| row.thread.ready.unwrap_or(Duration::ZERO);
    // With equal values, by CPU of the interval, then by switches, then by id.
    rows.sort_by_key(|row| (Reverse((row.thread.cpu, switches(row))), row.thread.tid));
    match sort {
        Sort::Cpu => {}
        Sort::Total => rows.sort_by_key(|row| Reverse(row.thread.cpu_since_start)),
        Sort::Name => rows.sort_by(|a, b| a.thread.name.cmp(&b.thread.name)),
        Sort::Wait => rows.sort_by_key(|row| Reverse(ready(row))),
    }
    rows
}

fn sums(threads: &[ThreadDifference]) -> Vec<Row> {
    let mut sums: BTreeMap<String, Row> = BTreeMap::new();
    for thread in threads {
        let add = |sum: &mut Row| sum.add(thread);
        sums.entry(pattern(&thread.name))
            .and_modify(add)
            .or_insert_with(|| Row { thread: thread.clone(), threads: 1 });
    }
    let named = |(name, mut row): (String, Row)| {
        // A thread that is alone keeps its name.
        if row.threads > 1 {
            row.thread.name = name;
        }
        row
    };
    sums.into_iter().map(named).collect()
}

/// The name with each number replaced: `worker-17` becomes `worker-*`. A number that ends a word, as in `C2 CompilerThread0`, is a
/// part of it.
pub(super) fn pattern(name: &str) -> String {
    let (mut pattern, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        pattern += before;
        let ends_word = before.ends_with(char::is_alphabetic) && after.starts_with(' ');
        pattern += if ends_word { number } else { "*" };
        rest = after;
    }
    pattern + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tests::thread;

    fn names(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.thread.name.as_str()).collect()
    }

    #[test]
    fn three_thousand_workers_are_one_row() {
        let mut threads: Vec<_> = (1..=3000).map(|n| thread(n, &format!("worker-{n}"), 2)).collect();
        threads.push(thread(4000, "acceptor-1", 900));
        let rows = rows(&threads, true, Sort::Cpu);
        assert_eq!(names(&rows), ["worker-*", "acceptor-1"]);
        assert_eq!((rows[0].threads, rows[0].thread.cpu), (3000, Duration::from_secs(6)));
        assert_eq!((rows[0].thread.tid, rows[0].thread.state), (1, 'R'));
    }

    #[test]
    fn numbers_anywhere_in_a_name_are_summed() {
        assert_eq!(pattern("pool-12-thread-3"), "pool-*-thread-*");
        assert_eq!(pattern("GC Thread#0"), "GC Thread#*");
        assert_eq!(pattern("main"), "main");
        assert_eq!(pattern("C2 CompilerThread0"), "C2 CompilerThread*");
    }

    #[test]
    fn each_key_sorts_by_its_column() {
        let mut threads = vec![thread(1, "b", 10), thread(2, "c", 30), thread(3, "a", 20)];
        threads[0].cpu_since_start = Duration::from_mins(150);
        threads[2].ready = Some(Duration::from_secs(1));
        for (sort, first) in [(Sort::Cpu, "c"), (Sort::Total, "b"), (Sort::Name, "a"), (Sort::Wait, "a")] {
            assert_eq!(names(&rows(&threads, false, sort))[0], first, "{sort:?}");
        }
    }
}
