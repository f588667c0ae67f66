//! Whether the metrics of a run are valid: completes the conditions that the generator knows with those of the machine
//! and of the server, and asks [`check`].

use rudy_experiment::plan::{Kind, OutputFormat};
use rudy_experiment::record::Warning;
use rudy_observe::ThreadTimes;
use rudy_stats::validity::{ThreadUse, check};

use crate::machine::Shares;
use crate::workload::Measurement;

/// Each thread as fractions of the time that was observed. Empty if nothing was observed twice.
pub(super) fn threads(times: &ThreadTimes) -> Vec<ThreadUse> {
    let elapsed = times.elapsed().as_secs_f64();
    if elapsed <= 0.0 {
        return Vec::new();
    }
    let of = |time: rudy_observe::ThreadTime| ThreadUse {
        cpu_share: time.cpu.as_secs_f64() / elapsed,
        run_delay_share: Some(time.run_delay.as_secs_f64() / elapsed),
    };
    times.threads().map(of).collect()
}

/// All threads of a server, added up; `None` if there are none.
pub(super) fn server(threads: &[ThreadUse]) -> Option<ThreadUse> {
    let cpu_share = threads.iter().map(|thread| thread.cpu_share).sum();
    let run_delay_share = threads.iter().map(|thread| thread.run_delay_share).sum();
    (!threads.is_empty()).then_some(ThreadUse { cpu_share, run_delay_share })
}

/// Whether the server's run delay is a condition of this workload. A search overloads the server on purpose, and checks
/// each of its steps itself.
pub(super) fn concerns_server(kind: &Kind) -> bool {
    !matches!(kind, Kind::MaxRate { .. })
}

/// Whether a program that runs to its end is a load generator, which must not wait for a core, and whose report does not
/// have its threads. A program that prints its own metrics is what is measured: its threads may wait for each other.
pub(super) fn is_other_generator(output_format: OutputFormat) -> bool {
    matches!(output_format, OutputFormat::Wrk | OutputFormat::H2load | OutputFormat::Ab)
}

/// All warnings of a run.
pub(crate) fn warnings(
    measurement: &Measurement,
    server: Option<ThreadUse>,
    shares: Option<Shares>,
) -> Vec<Warning> {
    let mut conditions = measurement.conditions.clone();
    conditions.server = server;
    conditions.background_cpu_share = shares.map(|shares| shares.background);
    conditions.steal_share = shares.map(|shares| shares.steal);
    check(&conditions).iter().map(|warning| Warning::of(warning, measurement.failure.as_deref())).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use rudy_stats::validity::Conditions;

    use super::*;

    fn thread(cpu_share: f64, run_delay: f64) -> ThreadUse {
        ThreadUse { cpu_share, run_delay_share: Some(run_delay) }
    }

    fn sentences(
        measurement: &Measurement,
        server: Option<ThreadUse>,
        [background, steal]: [f64; 2],
    ) -> Vec<String> {
        let all = warnings(measurement, server, Some(Shares { steal, background }));
        all.into_iter().map(|warning| warning.sentence).collect()
    }

    #[test]
    fn a_server_that_waited_for_a_core_is_a_warning_over_all_of_its_threads() {
        let none = Measurement::default();
        let few = server(&[thread(0.5, 0.01), thread(0.5, 0.01)]);
        assert_eq!(sentences(&none, few, [0.0, 0.0]), [""; 0]);
        let much = server(&[thread(0.5, 0.0), thread(0.5, 0.25)]);
        let expected = "the server waited for a core 20.0 % of the time in which it had work";
        assert_eq!(sentences(&none, much, [0.0, 0.0]), [expected]);
        assert_eq!(server(&[]), None);
    }

    #[test]
    fn background_cpu_and_steal_are_decided_with_the_rest() {
        let none = Measurement::default();
        assert_eq!(sentences(&none, None, [0.19, 0.04]), [""; 0]);
        let both = sentences(&none, None, [0.5, 0.1]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(
            both[0].contains("other processes used 50.0 %") && both[1].contains("hypervisor gave 10.0 %")
        );
    }

    #[test]
    fn a_generator_that_waited_for_a_core_is_a_warning_of_latency_and_rate_and_not_of_cpu() {
        let client_threads = vec![thread(0.5, 0.001), thread(0.5, 0.45)];
        let conditions = Conditions { client_threads, ..Conditions::default() };
        let measurement = Measurement { conditions, ..Measurement::default() };
        let all = warnings(&measurement, None, None);
        assert_eq!(all[0].sentence, "the client waited for a core 45.0 % of the time");
        let concerns = |metric: &str| all[0].concerns.iter().any(|name| name == metric);
        assert!(concerns("p99_ns") && concerns("requests_per_s") && !concerns("cpu_us_per_request"));
    }

    #[test]
    fn failures_have_an_example() {
        let conditions = Conditions { succeeded: Some(90), failed: Some(10), ..Conditions::default() };
        let failure = Some("status 500".to_owned());
        let measurement = Measurement { conditions, failure, ..Measurement::default() };
        let all = sentences(&measurement, Some(thread(1.0, 0.0)), [0.0, 0.0]);
        assert!(all[0].ends_with("; for example: status 500"), "{all:?}");
    }

    #[test]
    fn a_share_needs_two_polls() {
        assert_eq!(threads(&ThreadTimes::default()), []);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It has read its input, so it waits for more.
        child.stdin.as_mut().unwrap().write_all(b"a").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let mut times = ThreadTimes::default();
        times.poll([child.id()]);
        assert_eq!(threads(&times), [], "one poll has no duration");
        times.poll([child.id()]);
        let [waits] = threads(&times)[..] else { panic!("{times:?}") };
        assert!(waits.cpu_share.is_finite() && waits.run_delay_share.is_some_and(f64::is_finite));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
