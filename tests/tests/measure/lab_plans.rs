//! Tests plans of `rudy lab`: built programs, and the differences that an experiment detects.

use rudy_tests::prelude::*;

fn run(folder: &Path, plan: &str) -> Output {
    folder.write("plan.toml", plan);
    lab(folder).output()
}

fn lab(folder: &Path) -> Rudy {
    Rudy::command(["lab", "run", "plan.toml", "--out", "out"]).folder(folder)
}

/// Uses the calibration plan with shorter runs. A merge does not wait for a machine that is quiet enough to show 10 %; the verdicts on
/// given numbers are tests of `rudy-lab`.
#[test]
fn ten_percent_more_cpu_are_detected_in_ten_rounds_and_an_equal_server_is_not_reported() {
    needs!(long());
    let folder = Folder::new();
    let plan = include_str!("../../../labs/calibrate.toml");
    let shorter = plan.replace("requests = 2000", "requests = 800").replace("control = true\n", "");
    assert_ne!(plan, shorter);
    let output = run(folder.path(), &shorter).with_code(0);
    let mut report = Command::new(binary());
    report.args(["lab", "report", "out", "--format", "json"]).current_dir(folder.path());
    let report = report.output().expect("rudy can be started").stdout;
    let report: Value = serde_json::from_slice(&report).expect("an object");
    let verdict = |variant: &str| {
        let findings = report["experiments"][0]["findings"].as_array().expect("two of them");
        let found = findings.iter().find(|finding| finding["variant"] == variant);
        found.expect("the variant is compared")["verdict"].clone()
    };
    assert_eq!(verdict("slower"), "worse", "{}", output.stdout);
    assert!(verdict("equal") != "better" && verdict("equal") != "worse", "{}", output.stdout);
}

/// Returns a plan with a shell script that `build` builds.
fn built(build: &str) -> String {
    format!(
        "rounds = 1\n[[program]]\nname = \"server\"\nsource = \"server.sh\"\nbuild = [\"/bin/sh\", \"-c\", '''{build}''', \
         \"sh\", \"{{source}}\", \"{{target}}\"]\n\
         [[variant]]\nname = \"it\"\ncommand = [\"{{built}}/server\", \"{{rudy}}\", \"{{port}}\"]\n\
         [[workload]]\nname = \"burst\"\nkind = \"burst\"\nrequests = 3\n"
    )
}

fn with_source() -> Folder {
    let folder = Folder::new();
    let source = "#!/bin/sh\nexec \"$1\" serve . --listen 127.0.0.1:$2\n";
    folder.write("server.sh", source);
    folder
}

#[test]
fn a_program_is_built_before_it_is_measured() {
    let folder = with_source();
    let output = run(folder.path(), &built("cp \"$1\" \"$2\" && chmod +x \"$2\"")).with_code(0);
    assert!(output.stderr.contains("building server\n"));
    let results = folder.read("out/results.jsonl");
    let run: Value = serde_json::from_str(results.lines().nth(1).expect("a run")).expect("a record");
    assert_eq!(run["outcome"]["kind"], "measured", "{run}");
}

/// A plan whose server has this route, after a companion that serves the files of the plan.
fn expecting(route: &str, expect: &str) -> String {
    format!(
        "rounds = 1\nwarmup = \"100ms\"\n[[file]]\npath = \"page.html\"\nsize = \"4KiB\"\n[[file]]\npath = \"other/page.html\"\nsize = \"5KiB\"\n\
         [[companion]]\nname = \"upstream\"\ncommand = [\"{{rudy}}\", \"serve\", \"--config\", \"{{config}}\"]\n\
         config_text = \"\"\"listen = '127.0.0.1:{{port}}'\n[[site]]\nroot = '{{folder}}'\nresponse_headers = {{ Cache-Control = 'max-age=600' }}\n\"\"\"\n\
         [[variant]]\nname = \"it\"\ncommand = [\"{{rudy}}\", \"serve\", \"--config\", \"{{config}}\"]\ncompanions = [\"upstream\"]\n\
         config_text = \"\"\"listen = '127.0.0.1:{{port}}'\n[cache]\npath = '{{temp}}/cache'\n[[site]]\n[[site.route]]\npath = '/*'\n{route}\n\"\"\"\n\
         [[workload]]\nname = \"page\"\nkind = \"bench\"\npath = \"/page.html\"\nconnections = 2\ntime = \"200ms\"\n\
         headers = [\"Accept-Encoding: gzip\"]\nexpect = {expect}\n"
    )
}

#[test]
fn a_server_with_an_unexpected_response_has_no_metrics() {
    let files = "files = '{folder}'";
    let upstream = "proxy = 'http://127.0.0.1:{upstream.port}'\ncompression = false";
    let gzip = "{ body = \"page.html\", encoding = \"gzip\" }";
    let cached = "{ body = \"page.html\", encoding = \"gzip\", cached = true }";
    for (route, expect, reason) in [
        (files, gzip, None),
        ("files = '{folder}/other'", gzip, Some("a body of 4097 bytes instead of 4096")),
        ("files = '{folder}'\ncompression = false", gzip, Some("it is not compressed")),
        ("respond = 503", gzip, Some("status 503 instead of 200")),
        (&format!("{upstream}\ncache = true"), cached, None),
        (upstream, cached, Some("not from the cache, while its upstream was stopped")),
    ] {
        let folder = Folder::new();
        run(folder.path(), &expecting(route, expect));
        let results = folder.read("out/results.jsonl");
        let run: Value = serde_json::from_str(results.lines().nth(1).expect("a run")).expect("a record");
        let (outcome, metrics) = (&run["outcome"], run["metrics"].as_object().expect("a table"));
        assert_eq!(metrics.is_empty(), reason.is_some(), "{route}: {run}");
        let why = outcome["why"].as_str().unwrap_or_default();
        assert!(why.contains(reason.unwrap_or_default()), "{route}: {outcome}");
    }
}

#[test]
fn a_failed_build_is_reported_with_the_compilers_output() {
    let folder = with_source();
    let stderr = run(folder.path(), &built("echo no such type >&2; exit 3")).failed_with(1);
    assert!(stderr.contains("cannot build server") && stderr.contains("no such type"), "{stderr}");
    // The next run can use the same folder.
    assert!(!folder.join("out").exists());
}

#[test]
fn processes_left_by_a_build_are_stopped_and_not_attributed_to_a_variant() {
    let folder = with_source();
    let stderr =
        run(folder.path(), &built("sleep 1000 >/dev/null 2>&1 & cp \"$1\" \"$2\" && chmod +x \"$2\""))
            .failed_with(0);
    assert_eq!(stderr.matches("it left behind sleep (").count(), 1, "{stderr}");
    assert!(stderr.contains("which we ended"), "{stderr}");
}

#[test]
fn ctrl_c_stops_a_build_and_leaves_no_folder() {
    let folder = with_source();
    let pid = folder.join("pid");
    let build = format!("echo $$ >{}; exec sleep 1000", pid.display());
    folder.write("plan.toml", built(&build));
    let child = lab(folder.path()).spawn();
    let pid = wait_for_number(&pid);
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process has not been reaped");
    let stderr = Output::wait(child).failed_with(130);
    assert!(stderr.contains("interrupted before the first run: nothing is left running"), "{stderr}");
    assert!(test_kill_process(pid).is_err(), "the compiler still runs");
    assert!(!folder.join("out").exists());
}

/// Waits until a process has written its id, and returns it.
fn wait_for_number(file: &Path) -> Pid {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(number) = text.strip_suffix('\n') {
            return number.parse().ok().and_then(Pid::from_raw).expect("the number is a process id");
        }
        assert!(start.elapsed() < PATIENCE, "it was never written");
        thread::sleep(Duration::from_millis(10));
    }
}
