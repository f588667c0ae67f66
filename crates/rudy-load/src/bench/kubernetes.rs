//! `rudy bench --kubernetes N`: prints an Indexed Job with N pods, whose completion index selects the share.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::command::refuse;
use super::split::StartAt;
use crate::Exit;

/// Default delay before the start: time to apply the Job and to pull the image.
const LEAD: Duration = Duration::from_mins(2);

/// Flags of the Job itself, with a value, which the pods must not get.
const OWN: [&str; 3] = ["--kubernetes", "--image", "--start-at"];

/// The options of the Job.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// The number of pods.
    pub pods: NonZeroU32,
    /// An image with `rudy` in its path.
    pub image: String,
    /// The start of the load; by default in two minutes.
    pub start_at: Option<StartAt>,
    /// The arguments after `rudy bench`.
    pub arguments: Vec<String>,
}

/// Prints the Job as YAML.
#[must_use]
pub fn print_job(options: &JobOptions) -> Exit {
    // A file with a body would have to be in the image.
    if let Some(file) = options
        .arguments
        .iter()
        .find(|argument| ["@", "-b@", "--body=@"].iter().any(|file| argument.starts_with(file)))
    {
        return refuse(
            Exit::BadInput,
            &format!("{file}: the pods do not have this file; pass the body as text"),
        );
    }
    match job(options, SystemTime::now()) {
        Ok(job) => match io::stdout().write_all(job.as_bytes()) {
            Ok(()) => Exit::Done,
            Err(error) => refuse(Exit::CannotRun, &format!("cannot write to standard output: {error}")),
        },
        Err(why) => refuse(Exit::BadInput, &why),
    }
}

/// Renders the Job. The error is the reason why that is impossible.
fn job(options: &JobOptions, now: SystemTime) -> Result<String, String> {
    let pods = options.pods;
    let start = options.start_at.unwrap_or(StartAt::In(LEAD)).fixed(now);
    let start = start
        .and_then(|start| Timestamp::try_from(start).ok())
        .ok_or("--start-at is too far in the future")?;
    // Whole seconds are readable, and rounding down by less than a second is harmless.
    let start = Timestamp::from_second(start.as_second()).map_err(|error| error.to_string())?;
    let files = (0..pods.get()).map(|index| format!("{index}.json")).collect::<Vec<_>>().join(" ");
    let mut arguments = vec!["bench".to_owned()];
    // Kubernetes expands `$(NAME)`; `$$(NAME)` is its escape.
    arguments.extend(of_pods(&options.arguments).map(|argument| argument.replace("$(", "$$(")));
    arguments.extend(["--json", "-", "--plain", "--start-at"].map(str::to_owned));
    arguments.extend([start.to_string(), "--split".to_owned(), format!("$(JOB_COMPLETION_INDEX)/{pods}")]);
    let mut list = String::new();
    for argument in &arguments {
        // Writing to a `String` does not fail.
        let _ = write!(list, "\n            - {}", quoted(argument));
    }
    Ok(format!(
        "# A load from {pods} pods, each a share of it. All begin at {start}: apply this before then, with time for the
# image to be fetched. A pod that comes too late fails, and the load with it.
#
#   kubectl apply -f FILE
#   kubectl wait --for=condition=complete --timeout=1h job/rudy-bench
#   for i in $(seq 0 {last}); do
#     kubectl logs --tail=-1 -l job-name=rudy-bench,batch.kubernetes.io/job-completion-index=$i > $i.json
#   done
#   rudy bench merge {files}
#   kubectl delete job/rudy-bench
apiVersion: batch/v1
kind: Job
metadata:
  name: rudy-bench
spec:
  completionMode: Indexed
  completions: {pods}
  parallelism: {pods}
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      # Two generators on one machine share its cores.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              job-name: rudy-bench
      containers:
        - name: rudy
          image: {image}
          command:
            - \"rudy\"
          args:{list}
",
        last = pods.get() - 1,
        image = quoted(&options.image),
    ))
}

/// The arguments without the flags in [`OWN`].
fn of_pods(arguments: &[String]) -> impl Iterator<Item = &String> {
    let mut is_value = false;
    arguments.iter().filter(move |argument| {
        if std::mem::take(&mut is_value) {
            return false;
        }
        is_value = OWN.contains(&argument.as_str());
        let is_own =
            OWN.iter().any(|own| argument.strip_prefix(own).is_some_and(|rest| rest.starts_with('=')));
        !(is_value || is_own)
    })
}

/// A JSON string is a valid YAML string (YAML 1.2 §1.2).
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_a_share_for_each_pod_and_one_start() {
        let arguments =
            ["-R", "200k", "--kubernetes", "4", "--image=rudy:1", "-H", "A: \"$(B)\" #", "http://web/"];
        let options = JobOptions {
            pods: NonZeroU32::new(4).unwrap(),
            image: "rudy:1".into(),
            start_at: None,
            arguments: arguments.map(str::to_owned).into(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_255_205);
        let job = job(&options, now).unwrap();
        let list: Vec<_> = job.lines().filter_map(|line| line.strip_prefix("            - ")).collect();
        assert_eq!(
            list,
            [
                "\"rudy\"",
                "\"bench\"",
                "\"-R\"",
                "\"200k\"",
                "\"-H\"",
                "\"A: \\\"$$(B)\\\" #\"",
                "\"http://web/\"",
                "\"--json\"",
                "\"-\"",
                "\"--plain\"",
                "\"--start-at\"",
                "\"2026-11-21T10:02:05Z\"",
                "\"--split\"",
                "\"$(JOB_COMPLETION_INDEX)/4\"",
            ]
        );
        for line in [
            "  completionMode: Indexed",
            "  completions: 4",
            "  parallelism: 4",
            "#   rudy bench merge 0.json 1.json 2.json 3.json",
        ] {
            assert!(job.lines().any(|found| found == line), "{line}: {job}");
        }
    }
}
