//! Dumps of a Jetty 12 with a spinning acceptor, recorded with two JDKs and cut to a few threads.

use std::io::Write;

use super::*;

const JAVA_17: &str = include_str!("recorded/java-17.txt");
const JAVA_25: &str = include_str!("recorded/java-25.txt");

fn samples(dumps: &[&str]) -> Samples {
    let mut samples = Samples::default();
    dumps.iter().flat_map(|text| dump::parse(text)).for_each(|dump| samples.add(dump));
    samples
}

#[test]
fn a_thread_is_found_by_its_id_in_hexadecimal_and_in_decimal() {
    for (text, nid, start) in
        [(JAVA_17, 0xaf4, "qtp610998173-13-acceptor-0@"), (JAVA_25, 2090, "qtp2108649164-22-acceptor-0@")]
    {
        let samples = samples(&[text]);
        let acceptor = samples.thread(nid).unwrap();
        assert!(acceptor.name.starts_with(start), "{}", acceptor.name);
        let top = acceptor.top_frame().unwrap();
        assert_eq!((top.method, top.count, top.of), ("sun.nio.ch.Net.accept", 1, 1));
        assert_eq!(top.callers[0], "sun.nio.ch.ServerSocketChannelImpl.implAccept");
    }
}

#[test]
fn a_thread_of_the_jvm_has_a_name_and_no_frames() {
    let samples = samples(&[JAVA_17]);
    let collector = samples.threads.values().find(|thread| thread.name == "GC Thread#0").unwrap();
    assert!(collector.top_frame().is_none());
}

#[test]
fn the_most_frequent_top_frame_is_counted_over_the_dumps_with_the_thread() {
    let other = JAVA_17.replace("at sun.nio.ch.Net.accept(", "at Jetty$Spinning.accept(");
    let samples = samples(&[JAVA_17, &other, JAVA_17, JAVA_25]);
    assert_eq!(samples.dumps, 4);
    let top = samples.thread(0xaf4).unwrap().top_frame().unwrap();
    assert_eq!((top.method, top.count, top.of), ("sun.nio.ch.Net.accept", 2, 3));
}

#[test]
fn names_and_frames_of_odd_dumps_are_parsed() {
    let text = "Full thread dump X:\n\n\
        \"a \"quoted\" nid=7 name\" #1 prio=5 tid=0x1 nid=0x10 runnable\n   java.lang.Thread.State: RUNNABLE\n\
        \tat java.base@11.0.2/java.lang.Thread.run(Thread.java:834)\n\tat app//A.b(A.java)\n\n\
        \"virtual\" #2 virtual\n\tat C.d(C.java:1)\n\n\"cut\" nid=";
    let dumps = dump::parse(text);
    let frames = ["java.lang.Thread.run", "A.b"].map(str::to_owned).to_vec();
    assert_eq!(dumps, [vec![DumpedThread { nid: 16, name: "a \"quoted\" nid=7 name".to_owned(), frames }]]);
}

#[test]
fn a_file_may_hold_several_dumps_and_must_hold_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let error = Samples::read(file.path()).unwrap_err().to_string();
    assert!(error.contains("no thread dump"), "{error}");
    for _ in 0..10 {
        file.write_all(JAVA_25.as_bytes()).unwrap();
    }
    let samples = Samples::read(file.path()).unwrap();
    let top = samples.thread(2090).unwrap().top_frame().unwrap();
    assert_eq!((samples.dumps, top.count, top.of), (10, 10, 10));
}
