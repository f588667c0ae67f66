//! The notes of the release: the section of its version in `CHANGELOG.md`.

use super::{facts, tree};
use crate::steps::Run;
use crate::{Outcome, workspace};

/// Writes the notes.
pub(super) fn run(_: &mut Run) -> Outcome {
    let notes = section(&workspace::read("CHANGELOG.md")?, facts::VERSION)?;
    tree::write(&facts::folder().join("NOTES.md"), notes)
}

/// Returns the section of a version: `## 1.2.3`, or `## 1.2.3 - 2026-11-30`.
fn section(changelog: &str, version: &str) -> Outcome<String> {
    let is_heading = |line: &&str| line.starts_with("## ");
    let mut lines = changelog.lines().skip_while(|line| line.split(' ').take(2).ne(["##", version]));
    let heading = lines.next().ok_or_else(|| {
        format!(
            "CHANGELOG.md has no section `## {version}`. The version is that of the workspace, in Cargo.toml"
        )
    })?;
    let rest =
        lines.take_while(|line| !is_heading(line)).fold(String::new(), |text, line| text + line + "\n");
    Ok(format!("{heading}\n\n{}\n", rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## 1.10.0\n\nnew\n\n## 1.1.0 - 2026-01-02\n\n### Added\n\n- old\n\n## 1.0.0\n\nfirst\n";

    #[test]
    fn a_section_ends_at_the_next_version() {
        assert_eq!(section(CHANGELOG, "1.1.0").unwrap(), "## 1.1.0 - 2026-01-02\n\n### Added\n\n- old\n");
        assert_eq!(section(CHANGELOG, "1.0.0").unwrap(), "## 1.0.0\n\nfirst\n");
    }

    #[test]
    fn a_version_without_a_section_is_an_error() {
        assert!(section(CHANGELOG, "1.1").unwrap_err().contains("no section `## 1.1`"));
    }
}
