//! The program that sets and removes TXT records.

use std::process::Stdio;
use std::time::Duration;

use rudy_units::visible;
use tokio::process::Command;
use tokio::time::timeout;

/// The maximum time of a run: some name servers take minutes to publish a record.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The maximum length of the program's words in a message.
const WORDS_MAX: usize = 300;

/// A program that is called as `PROGRAM present|cleanup RECORD VALUE`, like those for lego and Traefik ("exec").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    /// The program and its first arguments.
    pub(super) command: Vec<String>,
    /// The time that all name servers need after the program has ended.
    pub(super) delay: Duration,
}

impl Hook {
    /// Sets the record, and waits until all name servers have it.
    pub(super) async fn present(&self, record: &str, value: &str) -> Result<(), String> {
        self.run("present", record, value).await?;
        tokio::time::sleep(self.delay).await;
        Ok(())
    }

    /// Removes the record.
    pub(super) async fn cleanup(&self, record: &str, value: &str) -> Result<(), String> {
        self.run("cleanup", record, value).await
    }

    async fn run(&self, action: &str, record: &str, value: &str) -> Result<(), String> {
        let (program, arguments) = self.command.split_first().ok_or("the hook has no program")?;
        let mut command = Command::new(program);
        // A full name ends with a dot.
        command.args(arguments).args([action, &format!("{record}."), value]);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = timeout(TIMEOUT, output).await;
        let output = output
            .map_err(|_| format!("the hook {program} ({action}) was killed after {} s", TIMEOUT.as_secs()))?;
        let output = output.map_err(|error| format!("cannot run the hook {program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let words: String = visible(words.trim()).chars().take(WORDS_MAX).collect();
        let words = if words.is_empty() { "no error message".to_owned() } else { words };
        Err(format!("the hook {program} ({action}) failed ({}): {words}", output.status))
    }
}
