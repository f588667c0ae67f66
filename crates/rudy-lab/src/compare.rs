//! `rudy lab compare`: the plan of an experiment with two variants, from a command line.

use std::fmt::Write as _;
use std::path::Path;

use rudy_units::Time;

/// The options of `rudy lab compare`.
#[derive(Debug, Clone)]
pub struct Compare {
    /// The shell commands of both servers; none if they run already.
    pub commands: Vec<String>,
    /// The URL to request: one for both servers, or one for each.
    pub urls: Vec<String>,
    /// The names of both in the report.
    pub names: [String; 2],
    /// The number of connections.
    pub connections: u32,
    /// The duration of each measurement.
    pub duration: Time,
    /// Requests per second; `None` is a closed loop.
    pub rate: Option<f64>,
    /// The number of rounds.
    pub rounds: usize,
    /// Header fields of each request, `Name: value`.
    pub headers: Vec<String>,
    /// Further arguments of `rudy bench`.
    pub arguments: Vec<String>,
}

impl Compare {
    /// The plan file (TOML). Commands run in `folder`.
    ///
    /// # Errors
    ///
    /// A message, if the numbers of commands and URLs do not match.
    pub fn plan(&self, folder: &Path) -> Result<String, String> {
        let (commands, urls): (Vec<Option<&String>>, [&String; 2]) =
            match (self.commands.as_slice(), self.urls.as_slice()) {
                ([], [one, other]) => (vec![None, None], [one, other]),
                ([one, other], [url]) => (vec![Some(one), Some(other)], [url, url]),
                ([one, other], [first, second]) => (vec![Some(one), Some(other)], [first, second]),
                ([], _) => return Err(expected("two running servers need --url twice")),
                _ => return Err(expected("expected two commands, with one --url for both")),
            };
        let [url, other] = urls.map(|url| split(url));
        let ((base, path), (other_base, other_path)) = (url?, other?);
        // Different paths belong to the variants, because the workload has one path.
        let bases = if path == other_path { [base, other_base] } else { urls.map(String::as_str) };
        let mut text = self.head();
        let variants = self.names.iter().zip(commands).zip(bases.into_iter().zip([path, other_path]));
        for ((name, command), (url, path)) in variants {
            let _ = writeln!(text, "\n[[variant]]\nname = {}\nurl = {}", quoted(name), quoted(url));
            if let Some(command) = command {
                text += &started(command, folder, path);
            }
        }
        text += &self.workload(if path == other_path { path } else { "" });
        text += &self.comparison();
        Ok(text)
    }

    fn head(&self) -> String {
        let [old, new] = &self.names;
        let question = quoted(&format!("Is {new} better than {old}?"));
        format!("question = {question}\nrounds = {}\nwarmup = \"500ms\"\n", self.rounds)
    }

    fn workload(&self, path: &str) -> String {
        let rate = self.rate.map_or_else(String::new, |rate| format!("rate = {rate:?}\n"));
        let name = self.workload_name(path);
        // A closed loop needs all cores to reach the maximum of the server.
        let cores =
            if self.rate.is_some() && !self.commands.is_empty() { "separate_cores = true\n" } else { "" };
        let lists = list("headers", &self.headers) + &list("arguments", &self.arguments);
        format!(
            "\n[[workload]]\nname = {}\nkind = \"bench\"\npath = {}\nconnections = {}\ntime = \"{}\"\n{rate}{lists}{cores}",
            quoted(&name),
            quoted(path),
            self.connections,
            self.duration,
        )
    }

    fn workload_name(&self, path: &str) -> String {
        let path = if path.is_empty() { "requests" } else { path };
        self.rate.map_or_else(|| path.to_owned(), |rate| format!("{path} at {rate}/s"))
    }

    /// Compares the CPU only of processes that the lab starts, and the latency only at a rate: a closed loop sends less
    /// while it waits.
    fn comparison(&self) -> String {
        let cpu = (!self.commands.is_empty()).then_some("\"cpu_us_per_request\"");
        let other = if self.rate.is_some() { "\"p99_ns\"" } else { "\"requests_per_s\"" };
        let metrics: Vec<&str> = cpu.into_iter().chain([other]).collect();
        let [old, new] = self.names.each_ref().map(|name| quoted(name));
        format!("\n[[compare]]\nvariant = {new}\nwith = {old}\nmetrics = [{}]\n", metrics.join(", "))
    }
}

fn expected(what: &str) -> String {
    format!(
        "{what}: `rudy lab compare 'COMMAND A' 'COMMAND B' --url http://127.0.0.1:{{port}}/` or \
         `rudy lab compare --url URL-A --url URL-B`"
    )
}

/// The command of a variant. The lab starts variants in an empty folder, but a command of a shell refers to the
/// current one. The server replaces the shell, so that it receives the signal to end; `env` permits assignments before it.
fn started(command: &str, folder: &Path, path: &str) -> String {
    let folder = folder.to_string_lossy().replace('\'', r"'\''");
    let script = quoted(&format!("cd '{folder}' && exec env {command}"));
    format!("command = [\"/bin/sh\", \"-c\", {script}]\nready = {{ http = {} }}\n", quoted(path))
}

/// The part of a URL before its path, and its path and query.
fn split(url: &str) -> Result<(&str, &str), String> {
    let start = url.find("://").map(|at| at + 3).filter(|start| *start < url.len());
    let start = start.ok_or_else(|| format!("{url:?} is not a URL: expected http://HOST:PORT/PATH"))?;
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    let path = if end == url.len() { "/" } else { &url[end..] };
    Ok((&url[..end], path))
}

/// A key with a list of strings; nothing for an empty list.
fn list(key: &str, texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    if texts.is_empty() { String::new() } else { format!("{key} = [{}]\n", texts.join(", ")) }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::{Kind, parse};

    use super::*;

    fn compare(commands: &[&str], urls: &[&str]) -> Compare {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Compare {
            commands: owned(commands),
            urls: owned(urls),
            names: ["A".to_owned(), "B".to_owned()],
            connections: 64,
            duration: Time(std::time::Duration::from_secs(3)),
            rate: None,
            rounds: 10,
            headers: Vec::new(),
            arguments: Vec::new(),
        }
    }

    #[test]
    fn two_commands_are_compared_in_cpu_and_throughput() {
        let text = compare(&["./old 'a \"b\"'", "./new"], &["http://127.0.0.1:{port}/a?b"]);
        let plan = parse(&text.plan(Path::new("/it's")).unwrap(), "compare", None).unwrap();
        assert_eq!(plan.variants[0].command[2], "cd '/it'\\''s' && exec env ./old 'a \"b\"'");
        assert_eq!(plan.variants[1].url.as_deref(), Some("http://127.0.0.1:{port}"));
        assert_eq!(plan.workloads[0].path, "/a?b");
        assert_eq!(plan.comparisons[0].metrics, ["cpu_us_per_request", "requests_per_s"]);
        assert!(
            (&plan.comparisons[0].variant, &plan.comparisons[0].with) == (&"B".to_owned(), &"A".to_owned())
        );
    }

    #[test]
    fn two_running_servers_are_compared_in_latency_at_a_rate() {
        let mut compare = compare(&[], &["http://old:80/x", "http://new:80/y"]);
        compare.rate = Some(100.0);
        compare.headers = vec!["Accept: */*".to_owned()];
        compare.arguments = ["-m", "POST", "-b", "\"a\""].map(str::to_owned).to_vec();
        let plan = parse(&compare.plan(Path::new("/")).unwrap(), "compare", None).unwrap();
        assert!(plan.variants.iter().all(|variant| variant.command.is_empty()));
        assert_eq!(
            (plan.variants[1].url.as_deref(), plan.workloads[0].path.as_str()),
            (Some("http://new:80/y"), "")
        );
        assert!(matches!(plan.workloads[0].kind, Kind::Bench { rate: Some(100.0), .. }));
        assert_eq!(
            (&plan.workloads[0].headers, &plan.workloads[0].arguments),
            (&compare.headers, &compare.arguments)
        );
        assert_eq!(plan.comparisons[0].metrics, ["p99_ns"]);
    }

    #[test]
    fn a_wrong_number_of_commands_or_urls_is_an_error_with_examples() {
        for (commands, urls) in [(&["a"][..], &["http://a/"][..]), (&[], &["http://a/"]), (&["a", "b"], &[])]
        {
            let why = compare(commands, urls).plan(Path::new("/")).unwrap_err();
            assert!(why.contains("rudy lab compare --url URL-A --url URL-B"), "{why}");
        }
        let why = compare(&["a", "b"], &["localhost/"]).plan(Path::new("/")).unwrap_err();
        assert!(why.contains("\"localhost/\" is not a URL"), "{why}");
    }
}
