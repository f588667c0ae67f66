//! curl as an independent HTTP client.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::{Folder, program};

/// The curl installed on this machine.
pub struct Curl {
    path: PathBuf,
}

/// The result of a run of curl.
#[derive(Debug)]
pub struct CurlResult {
    /// The exit code: 0 for success.
    pub exit: i32,
    /// The variables of `--write-out` for each transfer, in order.
    pub transfers: Vec<Value>,
    /// The heads of all responses, concatenated.
    pub heads: String,
    /// The bodies, decoded if an argument requests that.
    pub body: Vec<u8>,
}

impl Curl {
    /// Finds curl. If it is not installed, counts the test as skipped.
    pub fn find() -> Option<Self> {
        program("curl").map(|path| Self { path })
    }

    /// Returns a command without the user's configuration, and with a timeout.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // `-q` has an effect only as the first argument.
        command.args(["-q", "--silent", "--no-progress-meter", "--noproxy", "*", "--max-time", "60"]);
        command
    }

    /// Runs curl with `arguments` and waits until it exits.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> CurlResult {
        let folder = Folder::new();
        let heads = folder.join("heads");
        let mut command = self.command();
        command.args(["--write-out", "%{stderr}%{json}\n", "--dump-header"]).arg(&heads).args(arguments);
        let output = command.output().expect("curl can be started");
        let stderr = String::from_utf8(output.stderr).expect("curl writes UTF-8");
        let transfers =
            stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("curl: {line}")));
        CurlResult {
            exit: output.status.code().expect("curl exits"),
            transfers: transfers.collect(),
            // Missing if there was no response.
            heads: fs::read_to_string(&heads).unwrap_or_default(),
            body: output.stdout,
        }
    }
}

impl CurlResult {
    /// Returns the status of the last response.
    /// Panics if curl failed.
    pub fn status(&self) -> u64 {
        assert_eq!(self.exit, 0, "{}", self.number_or_text("errormsg"));
        self.last()["http_code"].as_u64().expect("a status is a number")
    }

    /// Returns the value of the last field of this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.heads.lines().filter_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        values.next_back()
    }

    /// Returns a variable of `--write-out` for the last transfer.
    pub fn number_or_text(&self, name: &str) -> String {
        match &self.last()[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    fn last(&self) -> &Value {
        self.transfers.last().expect("curl reports every transfer")
    }
}
