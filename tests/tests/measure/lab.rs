//! Tests `rudy lab run` with real processes: working and faulty variants.

use std::ops::Deref;

use rudy_tests::prelude::*;

const FILE: &str = "[[file]]\npath = \"a.html\"\nsize = 1000\n";

/// A working variant: a server with [`FILE`].
const RUDY: &str = r#"
[[variant]]
name = "rudy"
command = ["{rudy}", "serve", "{folder}", "--listen", "127.0.0.1:{port}"]
ready = { http = "/a.html" }
"#;

const BURST: &str = r#"
[[workload]]
name = "burst"
kind = "burst"
path = "/a.html"
requests = 20
"#;

/// Returns a variant that runs a shell script.
fn shell(name: &str, script: &str) -> String {
    format!(
        "[[variant]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''', \"sh\", \"{{rudy}}\", \
         \"{{folder}}\", \"{{port}}\"]\n"
    )
}

/// A folder with `plan.toml`.
struct Lab(Folder);

impl Deref for Lab {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Lab {
    fn new(plan: &str) -> Self {
        Self(Folder::with(&[("plan.toml", plan)]))
    }

    fn command(&self, arguments: &[&str]) -> Rudy {
        Rudy::command(["lab", "run"]).args(arguments).folder(&self.0)
    }

    fn run(&self) -> Output {
        self.command(&["plan.toml", "--out", "out"]).output()
    }

    fn out(&self) -> PathBuf {
        self.join("out")
    }

    /// Runs the experiment, and returns the record of its first run.
    fn first_run(&self) -> Value {
        self.run().with_code(0);
        self.runs().swap_remove(0)
    }

    /// Returns the records of the runs.
    fn runs(&self) -> Vec<Value> {
        records(&self.out()).into_iter().filter(|record| record["record"] == "run").collect()
    }
}

fn records(folder: &Path) -> Vec<Value> {
    folder.read("results.jsonl").lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// Returns why the only run failed.
fn why(lab: &Lab) -> String {
    let runs = lab.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0]["outcome"]["why"].as_str().unwrap_or_else(|| panic!("it did not fail: {runs:?}")).to_owned()
}

/// Waits until the processes whose ids are in the file `pid` have exited.
fn wait_until_gone(lab: &Lab) {
    let number = |line: &str| Pid::from_raw(line.parse().expect("a number")).expect("not 0");
    let pids: Vec<Pid> = lab.read("pid").lines().map(number).collect();
    assert!(!pids.is_empty());
    wait_until("all processes are gone", || pids.iter().all(|pid| test_kill_process(*pid).is_err()));
}

#[test]
fn each_variant_runs_with_each_workload_in_each_round_and_a_control_twice() {
    let again = RUDY.replace("\"rudy\"\n", "\"again\"\n");
    let sequence = BURST.replace("burst", "sequence");
    let bench = "[[workload]]\nname = \"bench\"\nkind = \"bench\"\npath = \"/a.html\"\nconnections = 2\ntime = \"1s\"\n";
    let plan = format!(
        "rounds = 1\nwarmup = \"100ms\"\n{FILE}{RUDY}control = true\n{again}{BURST}{sequence}{bench}"
    );
    let lab = Lab::new(&plan);
    lab.run().with_code(0);
    let runs = lab.runs();
    assert_eq!(runs.len(), 3 * 3);
    for run in &runs {
        assert_eq!(run["outcome"]["kind"], "measured", "{run}");
        assert_eq!(run["metrics"]["errors"], 0.0, "{run}");
        let has_time = run["metrics"]["time_s"].as_f64().is_some_and(|time| time > 0.0);
        assert_eq!(has_time, run["workload"] != "bench", "{run}");
        assert!(run["latency"].as_array().is_some_and(|points| points.len() > 2), "{run}");
        assert!(run["metrics"]["private_bytes"].as_f64().is_some_and(|bytes| bytes > 0.0), "{run}");
    }
    assert_eq!(runs.iter().filter(|run| run["is_control"] == true).count(), 3);
    let head = &records(&lab.out())[0];
    assert_eq!((&head["record"], &head["plan"]["rounds"]), (&"head".into(), &1.into()));
    assert_eq!(lab.out().read("plan.toml"), plan);
}

#[test]
fn a_variant_that_exits_is_reported_with_its_stderr_and_the_others_are_measured() {
    let dies = shell("dies", "echo no such module >&2; exit 7");
    let lab = Lab::new(&format!("rounds = 1\n{FILE}{dies}{RUDY}{BURST}"));
    let output = lab.run().with_code(0);
    let runs = lab.runs();
    let of = |name: &str| runs.iter().find(|run| run["variant"] == name).expect("the variant has a run");
    let why = of("dies")["outcome"]["why"].as_str().expect("the run failed");
    assert!(why.contains("exit status: 7") && why.contains("no such module"), "{why}");
    assert_eq!(of("rudy")["outcome"]["kind"], "measured");
    assert!(output.stderr.contains("no such module"));
}

#[test]
fn a_variant_that_cannot_be_started_is_reported() {
    let lab = Lab::new(&format!("rounds = 1\n[[variant]]\nname = \"x\"\ncommand = [\"/no/such\"]\n{BURST}"));
    lab.run().with_code(1);
    assert!(why(&lab).contains("/no/such"));
}

#[test]
fn a_variant_that_is_never_ready_is_stopped() {
    let waits = shell("waits", "echo $$ >>\"$2/pid\"; exec sleep 1000")
        .replace("name", "ready = { timeout = \"300ms\" }\nname");
    // The folder of the files is removed with the experiment, so the id is written elsewhere.
    let lab = Lab::new("");
    let waits = waits.replace("$2/pid", &lab.text("pid"));
    lab.write("plan.toml", format!("rounds = 1\n{waits}{BURST}"));
    lab.run().with_code(1);
    assert_contains!(why(&lab), "not ready within 300ms", "nothing accepts connections");
    wait_until_gone(&lab);
}

#[test]
fn only_the_end_of_long_output_is_kept() {
    let talks = shell("talks", "head -c 1048576 /dev/zero | tr '\\0' x; echo the end; exit 1");
    let lab = Lab::new(&format!("rounds = 1\n{talks}{BURST}"));
    lab.run().with_code(1);
    let why = why(&lab);
    assert!(why.contains("the end") && why.contains("left out") && why.len() < 17 * 1024, "{}", why.len());
}

#[test]
fn a_variant_that_ignores_sigterm_is_killed_with_its_children() {
    let lab = Lab::new("");
    // It serves, has a child in another session, and ignores SIGTERM.
    let script = format!(
        "trap '' TERM; setsid sh -c 'echo $$ >>{}/pid; exec sleep 1000' & \"$1\" serve \"$2\" --listen 127.0.0.1:$3 & \
         while :; do sleep 1; done",
        *lab
    );
    let plan =
        format!("rounds = 1\n{FILE}{}ready = {{ http = \"/a.html\" }}\n{BURST}", shell("stays", &script));
    lab.write("plan.toml", plan);
    let notes = lab.first_run()["notes"].to_string();
    assert_contains!(notes, "did not end within 5 s of SIGTERM", "left behind sleep (");
    wait_until_gone(&lab);
}

#[test]
fn ctrl_c_stops_all_processes_and_the_experiment_can_be_resumed() {
    let lab = Lab::new("");
    let script = format!("echo $$ >>{}/pid; exec \"$1\" serve \"$2\" --listen 127.0.0.1:$3", *lab);
    let plan =
        format!("rounds = 12\n{FILE}{}ready = {{ http = \"/a.html\" }}\n{BURST}", shell("served", &script));
    lab.write("plan.toml", plan);
    let mut child = lab.command(&["plan.toml", "--out", "out"]).spawn();
    let mut lines =
        BufReader::new(child.stderr.take().expect("the stream is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("1/12 ")), "a run is over");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process has not been reaped");
    let rest: Vec<_> = lines.collect();
    assert_eq!(child.wait().expect("the process exits").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("rudy lab run --resume out")), "{rest:?}");
    wait_until_gone(&lab);
    let runs = lab.runs().len();
    assert!((1..12).contains(&runs), "{runs}");

    lab.command(&["--resume", "out"]).output().with_code(0);
    let mut rounds: Vec<_> = lab.runs().iter().filter_map(|run| run["round"].as_u64()).collect();
    rounds.sort_unstable();
    assert_eq!(rounds, (0..12).collect::<Vec<_>>());
}

#[test]
fn an_invalid_plan_is_reported_with_its_line_and_creates_no_folder() {
    let lab = Lab::new(&format!("{FILE}{RUDY}{BURST}connection = 3\n"));
    let output = lab.run().with_code(2);
    assert_contains!(output.stderr, "plan.toml", "connection", "line");
    assert!(!lab.out().exists());
}

/// Returns an experiment with a program that exits by itself.
fn run_once(script: &str, workload: &str) -> Lab {
    let variant = format!(
        "[[variant]]\nname = \"program\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''', \"sh\", \"{{n}}\"]\n"
    );
    Lab::new(&format!(
        "rounds = 1\n{variant}[[workload]]\nname = \"run\"\nkind = \"run\"\nn = 17\n{workload}"
    ))
}

#[test]
fn a_program_prints_its_metrics() {
    let lab = run_once("echo said beside >&2; echo time_s 0.25; echo tasks $1", "");
    let metrics = &lab.first_run()["metrics"];
    assert_members!(metrics, "time_s": 0.25, "tasks": 17.0);
}

#[test]
fn recorded_starts_are_counted_and_placeholders_are_replaced() {
    let lab = run_once("echo a >>starts; cat \"$0\" >>starts; echo time_s {time}", "");
    let text = lab.read("plan.toml");
    let own = "placeholders = { time = \"0.5\" }\nconfig_text = \"{time}\"\n[[workload]]";
    lab.write("plan.toml", text.replace("[[workload]]", own).replace("\"sh\"", "\"{config}\""));
    let metrics = &lab.first_run()["metrics"];
    assert_members!(metrics, "starts": 2.0, "time_s": 0.5);
}

#[test]
fn a_program_that_fails_or_prints_no_metric_or_hangs_has_failed() {
    for (script, workload, expected) in [
        ("echo time_s 1; echo no memory >&2; exit 3", "", &["exit status: 3", "no memory"][..]),
        ("true", "", &["it printed no metric"]),
        ("echo it took 3 s", "", &["\"it took 3 s\""]),
        ("sleep 1000", "timeout = \"200ms\"\n", &["it did not end within 0.2 s"]),
        ("head -c 2000000 /dev/zero", "", &["it printed more than 1048576 bytes"]),
        (
            "sleep 1000 & echo time_s 1",
            "",
            &["left behind still holds its output open", "left behind sleep ("],
        ),
    ] {
        let lab = run_once(script, workload);
        let stderr = lab.run().failed_with(1);
        for words in expected {
            assert!(stderr.contains(words), "{script}: {stderr}");
        }
    }
}

#[test]
fn a_process_that_restarts_itself_on_sigterm_is_stopped() {
    let lab = run_once(
        "/bin/sh FOLDER/again.sh >/dev/null 2>&1 & while [ ! -s FOLDER/pid ]; do sleep 0.01; done; echo time_s 1",
        "",
    );
    lab.write("plan.toml", lab.read("plan.toml").replace("FOLDER", &lab.to_string()));
    let again =
        "trap 'setsid /bin/sh \"$0\" & exit' TERM\necho $$ >>FOLDER/pid\nwhile :; do sleep 0.05; done\n";
    lab.write("again.sh", again.replace("FOLDER", &lab.to_string()));
    assert_contains!(lab.first_run()["notes"].to_string(), ", which we ended");
    wait_until_gone(&lab);
}

#[test]
fn lab_messages_prints_its_metrics() {
    let lab = Lab::new(
        "rounds = 1\n[[variant]]\nname = \"two\"\ncommand = [\"{rudy}\", \"lab\", \"messages\", \"{n}\", \"--workers\", \"2\"]\n\
         [[workload]]\nname = \"20\"\nkind = \"run\"\nn = 20\n",
    );
    let metrics = &lab.first_run()["metrics"];
    assert_eq!(metrics["messages"], f64::from(2 * 20 * 19));
    assert!(metrics["time_s"].as_f64().is_some_and(|time| time > 0.0), "{metrics}");
}

#[test]
fn a_missing_program_is_reported_before_the_first_run() {
    let needs = shell("lacking", "true").replace("name", "needs = [\"/no/such/tool\"]\nname");
    let lab = Lab::new(&format!("rounds = 1\n{needs}{BURST}"));
    let output = lab.run().with_code(1);
    assert!(output.stderr.contains("lacking cannot be measured: /no/such/tool"), "{}", output.stderr);
    assert!(!lab.out().exists());
    let optional = needs.replace("name", "optional = true\nname");
    let lab = Lab::new(&format!("rounds = 1\n{FILE}{optional}{RUDY}{BURST}"));
    lab.run().with_code(0);
    assert_eq!(lab.runs().len(), 1);
}

/// Returns an experiment with a companion server and a shell script, which has the server's port as `$2`.
fn with_companion(script: &str, output_format: &str, workload: &str) -> Lab {
    let lab = Lab::new("");
    let serve = format!("echo $$ >>{}/pid; exec \"$1\" serve \"$2\" --listen 127.0.0.1:$3", *lab);
    let server =
        shell("server", &serve).replace("[[variant]]", "[[companion]]") + "ready = { http = \"/a.html\" }\n";
    let variant = format!(
        "[[variant]]\nname = \"program\"\ncompanions = [\"server\"]\noutput_format = \"{output_format}\"\n\
         command = [\"/bin/sh\", \"-c\", \'\'\'{script}\'\'\', \"sh\", \"{{rudy}}\", \"{{server.port}}\"]\n"
    );
    let plan = format!(
        "rounds = 1\n{FILE}{server}{variant}[[workload]]\nname = \"run\"\nkind = \"run\"\n{workload}"
    );
    lab.write("plan.toml", plan);
    lab
}

/// A script that measures the server for two seconds, so that a stall can happen meanwhile.
const BENCH_SERVER: &str =
    "exec \"$1\" bench --plain --json - -c 2 -t 1 -d 2s --warm-up-time 0 http://127.0.0.1:$2/a.html";

#[test]
fn a_companion_server_starts_before_the_program_and_stops_after_it() {
    let lab = with_companion(BENCH_SERVER, "bench", "");
    let run = lab.first_run();
    assert_eq!(run["metrics"]["errors"], 0.0, "{run}");
    assert!(!run["notes"].to_string().contains("server"), "it is no part of the variant: {run}");
    assert!(run["metrics"]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{run}");
    wait_until_gone(&lab);
}

#[test]
fn a_program_observes_its_companion_by_pid_and_prints_json_and_ends_with_an_expected_code() {
    let script = "echo '{\"observed\": {server.pid}, \"tcp\": {\"listen\": 1}}'; exit 4";
    let lab = with_companion(script, "json", "exit_codes = [0, 4]\n");
    lab.run().with_code(0);
    let pid = lab.read("pid");
    let metrics = &lab.runs()[0]["metrics"];
    let metric = |name: &str| metrics[name].as_f64().map(|value| value.to_string());
    assert_eq!(metric("observed").as_deref(), Some(pid.trim()), "{metrics}");
    assert_eq!([metric("tcp_listen"), metric("exit_code")], [Some("1".to_owned()), Some("4".to_owned())]);
}

#[test]
fn a_stall_of_the_server_is_measured() {
    let lab = with_companion(BENCH_SERVER, "bench", "stall = { after = \"1s\", time = \"500ms\" }\n");
    let run = lab.first_run();
    let metric = |name: &str| run["metrics"][name].as_f64().unwrap_or_default();
    assert!(metric("stalled_s") >= 0.5 && metric("max_ns") >= 0.25e9, "{run}");
    assert!(metric("errors").abs() < 0.5, "{run}");
    // A busy machine may cause other warnings.
    assert!(!run["warnings"].to_string().contains("stall"), "{run}");
    wait_until_gone(&lab);
}

#[test]
fn a_run_is_suspect_if_it_ends_before_the_stall_and_failed_if_its_server_exits() {
    let stall = "stall = { after = \"10s\", time = \"1s\" }\n";
    let lab = with_companion("echo time_s 1", "metrics", stall);
    assert_contains!(lab.first_run()["warnings"].to_string(), "before the stall", "time_s");

    let lab = with_companion("kill $(cat PID); sleep 1000", "metrics", "");
    lab.write("plan.toml", lab.read("plan.toml").replace("PID", &lab.text("pid")));
    lab.run().with_code(1);
    assert!(why(&lab).contains("server, a companion program, ended"), "{}", why(&lab));
}

#[test]
fn ctrl_c_during_a_stall_stops_all_processes() {
    let lab = with_companion(
        "sleep 1000",
        "metrics",
        "timeout = \"1000s\"\nstall = { after = \"0s\", time = \"1000s\" }\n",
    );
    let mut child = lab.command(&["plan.toml", "--out", "out"]).without_stderr().spawn();
    eventually("the server is stopped", || {
        let pid = fs::read_to_string(lab.join("pid")).ok()?.trim().to_owned();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process has not been reaped");
    assert_eq!(child.wait().expect("the process exits").code(), Some(130));
    wait_until_gone(&lab);
}
