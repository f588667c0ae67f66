//! Combines threads whose names differ only in a number.

use std::collections::BTreeMap;

use rudy_experiment::record::Sample;

/// Threads are combined if more than this number are alike. A server with a thread per connection has
/// thousands, and their names would take megabytes.
const ALIKE_MAX: usize = 8;

/// Combines them in all samples. CPU adds up, so each sample still has the total.
pub(super) fn combine(samples: &mut [Sample]) {
    // The names of ended threads remain in later samples.
    let Some(last) = samples.last() else { return };
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for name in last.threads.keys() {
        *alike.entry(stem(name)).or_default() += 1;
    }
    alike.retain(|_, count| *count > ALIKE_MAX);
    if alike.is_empty() {
        return;
    }
    for sample in samples {
        let mut together: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for (name, [user, system]) in std::mem::take(&mut sample.threads) {
            let stem = stem(&name);
            let cpu = together.entry(if alike.contains_key(&stem) { stem } else { name }).or_default();
            cpu[0] += user;
            cpu[1] += system;
        }
        sample.threads = together;
    }
}

/// Replaces the number at the start or the end of a name by a star.
fn stem(name: &str) -> String {
    let is_digit = |character: char| character.is_ascii_digit();
    let start = name.trim_end_matches(is_digit);
    let end = start.trim_start_matches(is_digit);
    let star = |is_there: bool| if is_there { "*" } else { "" };
    format!("{}{end}{}", star(end.len() < start.len()), star(start.len() < name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(threads: impl IntoIterator<Item = (String, [f64; 2])>) -> Sample {
        Sample {
            t_s: 0.0,
            threads: threads.into_iter().collect(),
            private_bytes: 0,
            shared_bytes: 0,
            descriptors: 0,
            connections: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
        }
    }

    #[test]
    fn a_thread_for_each_connection_is_one_line_and_two_cores_are_two() {
        let connections = |count: u32| (0..count).map(|number| (format!("conn-{number}"), [0.5, 0.25]));
        let cores = || (0..2).map(|number| (format!("core-{number}"), [1.0, 0.0]));
        let mut samples = [sample(connections(2).chain(cores())), sample(connections(100).chain(cores()))];
        combine(&mut samples);
        let names: Vec<_> = samples[1].threads.keys().map(String::as_str).collect();
        assert_eq!(names, ["conn-*", "core-0", "core-1"]);
        assert_eq!((samples[0].threads["conn-*"], samples[1].threads["conn-*"]), ([1.0, 0.5], [50.0, 25.0]));
    }

    #[test]
    fn a_number_in_a_name_is_a_star() {
        for (name, stem_of_it) in
            [("conn-12", "conn-*"), ("3_scheduler", "*_scheduler"), ("log", "log"), ("17", "*")]
        {
            assert_eq!(stem(name), stem_of_it);
        }
    }
}
