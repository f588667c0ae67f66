//! What the words in braces stand for, and the files that they lead to.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::plan::{Contents, Plan};

/// What is known of a subject's place before it is started.
pub(crate) struct Place<'a> {
    pub(crate) port: u16,
    pub(crate) folder: &'a Path,
    pub(crate) temp: &'a Path,
    pub(crate) config: &'a Path,
    /// How much a subject is to do that is run to its end, if its load says it.
    pub(crate) n: Option<u32>,
}

impl Place<'_> {
    /// The text with what is known in place of its words in braces. Others stay: a configuration may have its own.
    pub(crate) fn fill(&self, text: &str) -> String {
        let rudy = std::env::current_exe().unwrap_or_else(|_| "rudy".into());
        let words: [(&str, String); 6] = [
            ("{rudy}", rudy.to_string_lossy().into_owned()),
            ("{port}", self.port.to_string()),
            ("{folder}", self.folder.to_string_lossy().into_owned()),
            ("{temp}", self.temp.to_string_lossy().into_owned()),
            ("{config}", self.config.to_string_lossy().into_owned()),
            ("{cores}", cores().to_string()),
        ];
        let n = self.n.map(|n| ("{n}", n.to_string()));
        words.iter().chain(&n).fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }
}

/// How many cores we may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The peers' configurations are whole as they stand, to be tried by hand. In lines that end in `# port` and `# cores` the
/// numbers are put in place.
pub(crate) fn adapted(text: &str, port: u16) -> String {
    let mut adapted = String::with_capacity(text.len());
    for line in text.lines() {
        if let (true, Some((before, after))) = (line.ends_with("# port"), line.split_once("127.0.0.1:")) {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            // Writing to a string does not fail.
            let _ = writeln!(adapted, "{before}127.0.0.1:{port}{rest}");
        } else if let (true, Some(at)) = (line.ends_with("# cores"), line.find(|c: char| c.is_ascii_digit()))
        {
            let rest = line[at..].trim_start_matches(|c: char| c.is_ascii_digit());
            let _ = writeln!(adapted, "{}{}{rest}", &line[..at], cores());
        } else {
            let _ = writeln!(adapted, "{line}");
        }
    }
    adapted
}

/// Makes the plan's files, in a folder that goes when this is dropped.
pub(crate) fn make_files(plan: &Plan) -> io::Result<TempDir> {
    // A server that was started by root reads as somebody else.
    let readable = fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().prefix("rudy-lab-files-").permissions(readable).tempdir()?;
    for (path, contents) in &plan.files {
        let path = folder.path().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match contents {
            Contents::Size(size) => fs::write(path, lines(usize::try_from(size.0).unwrap_or(usize::MAX)))?,
            Contents::Text(text) => fs::write(path, text)?,
        }
    }
    Ok(folder)
}

/// Numbered lines, cut at `size` bytes.
fn lines(size: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        let _ = writeln!(text, "line {number}");
    }
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_put_in_and_others_stay() {
        let place = Place {
            port: 81,
            folder: Path::new("/f"),
            temp: Path::new("/t"),
            config: Path::new("/t/config"),
            n: None,
        };
        assert_eq!(place.fill("{folder}:{port} {temp} {config} {n}"), "/f:81 /t /t/config {n}");
        assert_eq!(Place { n: Some(50), ..place }.fill("{n} {other}"), "50 {other}");
    }

    #[test]
    fn marked_lines_get_the_port_and_the_cores_and_no_others_do() {
        let text =
            "workers 2; # cores\nlisten 127.0.0.1:7101 reuseport backlog=4096; # port\nother 2 127.0.0.1:9\n";
        let expected = format!(
            "workers {}; # cores\nlisten 127.0.0.1:81 reuseport backlog=4096; # port\nother 2 127.0.0.1:9\n",
            cores()
        );
        assert_eq!(adapted(text, 81), expected);
    }

    #[test]
    fn a_file_has_exactly_the_size_that_was_asked_for() {
        for size in [0, 1, 1024] {
            assert_eq!(lines(size).len(), size);
        }
    }
}
