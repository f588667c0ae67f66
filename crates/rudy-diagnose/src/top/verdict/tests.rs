//! Verdicts on invented threads.

use super::*;
use crate::top::order::{Sort, rows};
use crate::top::tests::thread;

fn over_a_second(threads: Vec<ThreadDifference>) -> Difference {
    Difference { time: Duration::from_secs(1), threads, ..Difference::default() }
}

fn texts(difference: &Difference) -> Vec<String> {
    verdicts(difference).into_iter().map(|verdict| verdict.text).collect()
}

fn aged(thread: ThreadDifference, cpu_s: u64, age_s: u64) -> ThreadDifference {
    let (cpu_since_start, age) = (Duration::from_secs(cpu_s), Duration::from_secs(age_s));
    ThreadDifference { cpu_since_start, age, ..thread }
}

#[test]
fn an_acceptor_that_spins_is_named_with_its_hours() {
    // The field report of 2010: 2.25 of 4 hours.
    let acceptor =
        aged(thread(19_771, "qtp6-13-acceptor-0@2ed7-ServerConnector@2a{HTTP/1.1}", 560), 8100, 14_400);
    let difference = over_a_second(vec![acceptor, aged(thread(8, "worker-1", 170), 2400, 14_400)]);
    let expected = "qtp6-13-acceptor-0 (19771) has used 2.2 of 4.0 h since it started (56 %): \
                    it accepts connections; should sleep in accept()";
    assert_eq!(texts(&difference), [expected]);
    assert_eq!(verdicts(&difference)[0].tid, Some(19_771));
}

#[test]
fn a_young_thread_is_not_judged_by_its_life() {
    let difference = over_a_second(vec![aged(thread(1, "a", 500), 8, 9), aged(thread(2, "b", 100), 1, 9)]);
    assert_eq!(texts(&difference), Vec::<String>::new());
}

#[test]
fn ten_busiest_threads_of_the_runtime_leave_nothing_to_the_program() {
    let mut threads: Vec<_> = (0..8).map(|n| thread(n, &format!("GC Thread#{n}"), 50)).collect();
    threads.push(thread(20, "VM Thread", 40));
    threads.push(thread(21, "Finalizer", 30));
    threads.push(thread(22, "worker-1", 20));
    let text = texts(&over_a_second(threads.clone())).join("\n");
    assert!(
        text.starts_with(
            "the 10 busiest threads are all the runtime's own: GC Thread#* (collects garbage), "
        )
    );
    assert!(text.contains("VM Thread (") && text.contains("Finalizer ("), "{text}");
    // A worker among the ten shows that the program works too.
    threads[0] = thread(23, "worker-2", 500);
    assert_eq!(texts(&over_a_second(threads)), Vec::<String>::new());
}

#[test]
fn the_server_s_own_threads_are_distinguished_from_the_runtime_s() {
    let names = ["http-nio-8080-Acceptor", "VM Thread", "Signal Dispatcher"];
    let text = texts(&over_a_second(names.map(|name| thread(1, name, 100)).to_vec())).join("\n");
    assert!(text.starts_with("the 3 busiest threads are all the runtime's or the server's own: "), "{text}");
}

#[test]
fn two_threads_of_a_runtime_are_no_pattern() {
    let difference = over_a_second(vec![thread(1, "VM Thread", 100), thread(2, "GC Thread#0", 100)]);
    assert_eq!(texts(&difference), Vec::<String>::new());
}

#[test]
fn a_thread_with_a_whole_core_is_named_with_those_that_wait() {
    let mut threads = vec![thread(7, "python3", 980)];
    threads.extend((8..=19).map(|tid| thread(tid, "python3", 0)));
    let expected = "python3 (7) uses a whole core for 98 % of the time while the other 12 wait";
    assert_eq!(texts(&over_a_second(threads.clone())), [expected]);
    // The others work as well.
    threads[3].cpu = Duration::from_millis(700);
    assert_eq!(texts(&over_a_second(threads)), ["python3 (7) uses a whole core for 98 % of the time"]);
}

#[test]
fn a_thread_that_spins_is_found_on_a_machine_without_a_free_core() {
    let mut acceptor = thread(7, "http-nio-8080-Acceptor", 230);
    acceptor.ready = Some(Duration::from_millis(760));
    let text = &texts(&over_a_second(vec![acceptor, thread(8, "worker", 0)]))[0];
    let expected = "http-nio-8080-Acceptor (7) never waits: it ran for 23 % of the time and had no free core for 76 % \
                    while the other one waits";
    assert_eq!(text, expected);
    // One that was delayed once is no such thread.
    let mut delayed = thread(7, "worker", 20);
    delayed.ready = Some(Duration::from_millis(970));
    assert!(texts(&over_a_second(vec![delayed])).iter().all(|text| !text.contains("never waits")));
}

#[test]
fn a_process_with_one_thread_has_no_others() {
    let difference = over_a_second(vec![thread(7, "yes", 990)]);
    assert_eq!(texts(&difference), ["yes (7) uses a whole core for 99 % of the time"]);
}

#[test]
fn an_idle_process_is_described_as_idle_with_its_past() {
    let difference = over_a_second(vec![aged(thread(1, "a", 0), 6000, 7200), thread(2, "b", 0)]);
    let expected = [
        "idle: its 2 threads used 0.0 % of a core in the last 1.00 s; sorted by CPU since the start",
        "a (1) has used 1.7 of 2.0 h since it started (83 %)",
    ];
    assert_eq!(texts(&difference), expected);
}

#[test]
fn threads_that_wait_for_a_core_are_described() {
    let mut waiting = thread(1, "a", 100);
    waiting.ready = Some(Duration::from_millis(45));
    let text = texts(&over_a_second(vec![waiting])).join("\n");
    assert!(text.starts_with("its threads waited for a core 45 % as long as they ran"), "{text}");
}

#[test]
fn a_thread_that_gets_no_core_is_not_idle() {
    let starved =
        ThreadDifference { ready: Some(Duration::from_secs(1)), state: 'R', ..thread(2, "worker", 0) };
    let difference = over_a_second(vec![thread(1, "main", 0), starved]);
    assert_eq!(
        texts(&difference),
        ["its threads waited for a core and did not run: the machine has too few free cores for them"]
    );
    assert_eq!(rows(&difference.threads, false, Sort::Cpu).iter().filter(|row| row.is_busy()).count(), 1);
}

#[test]
fn threads_that_end_are_described_if_they_used_much() {
    let mut difference = over_a_second(vec![thread(1, "a", 600)]);
    difference.cpu_of_ended = Duration::from_millis(400);
    assert!(texts(&difference).join("\n").starts_with("40 % of the CPU went to threads that ended"));
    difference.cpu_of_ended = Duration::from_millis(50);
    assert_eq!(texts(&difference), Vec::<String>::new());
}

#[test]
fn a_process_without_threads_and_an_interval_without_time_are_no_fault() {
    for difference in [Difference::default(), over_a_second(vec![])] {
        assert_eq!(verdicts(&difference)[0].kind, Kind::Idle);
    }
}
