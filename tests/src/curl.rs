//! curl as a client that did not learn HTTP from us.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::program;

/// The curl of this machine.
pub struct Curl {
    path: PathBuf,
}

/// What became of one run of curl.
#[derive(Debug)]
pub struct Fetched {
    /// Its exit code: 0 where curl found nothing wrong.
    pub exit: i32,
    /// What curl knows of each transfer, in order: the variables of `--write-out`.
    pub transfers: Vec<Value>,
    /// All heads that came, one after the other.
    pub heads: String,
    /// What it wrote to its stdout: the bodies, decoded if it was asked to.
    pub body: Vec<u8>,
}

impl Curl {
    /// Where curl is installed; otherwise the test is counted as skipped.
    #[must_use]
    pub fn find() -> Option<Self> {
        program("curl").map(|path| Self { path })
    }

    /// curl without what this machine's user has set up for himself, and with an end to its patience.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // `-q` counts only as the first argument.
        command.args(["-q", "--silent", "--no-progress-meter", "--noproxy", "*", "--max-time", "60"]);
        command
    }

    /// Runs it with `arguments` and waits for its end.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Fetched {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let heads = folder.path().join("heads");
        let mut command = self.command();
        command.args(["--write-out", "%{stderr}%{json}\n", "--dump-header"]).arg(&heads).args(arguments);
        let output = command.output().expect("curl can be started");
        let told = String::from_utf8(output.stderr).expect("what curl says is UTF-8");
        let transfers =
            told.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("curl: {line}")));
        Fetched {
            exit: output.status.code().expect("curl ends by itself"),
            transfers: transfers.collect(),
            // Not there if nothing came.
            heads: fs::read_to_string(&heads).unwrap_or_default(),
            body: output.stdout,
        }
    }
}

impl Fetched {
    /// The status of the last answer.
    ///
    /// # Panics
    ///
    /// If curl found something wrong with it.
    #[must_use]
    pub fn status(&self) -> u64 {
        assert_eq!(self.exit, 0, "{}", self.number_or_text("errormsg"));
        self.last()["http_code"].as_u64().expect("a status is a number")
    }

    /// The value of the last field of this name, upper or lower case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.heads.lines().filter_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        values.next_back()
    }

    /// What `--write-out` knows by this name of the last transfer.
    #[must_use]
    pub fn number_or_text(&self, name: &str) -> String {
        match &self.last()[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    fn last(&self) -> &Value {
        self.transfers.last().expect("curl tells of every transfer")
    }
}
