//! Shell completions and man pages, generated from the definition of the command line.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use rudy_server::run::{self, Exit, Page};

use crate::CommandLine;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy completions bash > ~/.local/share/bash-completion/completions/rudy
  rudy completions zsh > ~/.zfunc/_rudy    with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  rudy completions fish > ~/.config/fish/completions/rudy.fish")]
pub(crate) struct Completions {
    /// Shell to generate the script for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Exit {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(&CommandLine::command()), "rudy", &mut script);
        run::print(&script)
    }
}

/// Returns the command without hidden flags, which `clap_complete` would offer.
fn visible(command: &Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned())
        .about(about)
        .disable_help_subcommand(true)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().map(visible))
}

/// Write the man pages of all commands and of rudy.toml
///
/// Writes the pages of the commands to DIR/man1 and rudy.toml(5), the configuration reference, to DIR/man5. Prints the
/// names of the files. Creates missing folders and replaces existing pages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy manual ~/.local/share/man      for this user; read with `man rudy-serve`, `man rudy.toml`
  rudy manual /usr/local/share/man    for all users")]
pub(crate) struct Manual {
    /// Root folder of the man pages
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

impl Manual {
    pub(crate) fn run(&self) -> Exit {
        let mut root = CommandLine::command().disable_help_subcommand(true);
        root.build();
        let mut pages = Vec::new();
        match add_pages(&root, &mut pages) {
            Ok(()) => run::write_manual(&self.folder, pages),
            Err(error) => run::cannot(&format!("write the manual pages: {error}")),
        }
    }
}

/// Adds the page of a command and the pages of its subcommands.
fn add_pages(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let version = env!("CARGO_PKG_VERSION");
    // `render_title` omits the parent commands from the name, and drops an empty date.
    let mut text = format!(".TH {name} 1 \"\" \"rudy {version}\" \"User Commands\"\n").into_bytes();
    let page = Man::new(command.clone());
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    last_sections(command, name).to_writer(&mut text)?;
    pages.push(Page { name: format!("{name}.1"), section: 1, text });
    command.get_subcommands().try_for_each(|inner| add_pages(inner, pages))
}

/// The sections made from the end of `--help`: examples, notes, and references to other pages.
fn last_sections(command: &Command, name: &str) -> Roff {
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes): (Vec<_>, Vec<_>) =
        help.split("\n\n").filter(|part| !part.is_empty()).partition(|part| part.starts_with("Example"));
    for (title, parts) in [("EXAMPLES", examples), ("NOTES", notes)] {
        if parts.is_empty() {
            continue;
        }
        roff.control("SH", [title]).control("nf", []);
        for part in parts {
            let label = ["Examples:\n", "Example: "].iter().find_map(|label| part.strip_prefix(label));
            label.unwrap_or(part).lines().for_each(|line| _ = roff.text([roman(line)]));
        }
        roff.control("fi", []);
    }
    let others = ["rudy(1)", "rudy.toml(5)"].into_iter().filter(|other| *other != format!("{name}(1)"));
    roff.control("SH", ["SEE ALSO"]).text([roman(others.collect::<Vec<_>>().join(", "))]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "`{}` has no example", command.get_name());
            command.get_subcommands().for_each(check);
        }
        let command = CommandLine::command();
        command.clone().debug_assert();
        check(&command);
    }

    /// The page has each code with its meaning. 0, 1, 2 and 130 mean the same in all commands, and the others name theirs.
    #[test]
    fn exit_codes_are_those_of_the_page() {
        fn check(command: &Command, name: &str, rows: &[(&str, &str)]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let codes = help.split_once("Exit codes: ").map(|(_, codes)| codes).unwrap_or_default();
            for code in codes.split([',', ';']).filter_map(|part| part.split_ascii_whitespace().next()) {
                let Ok(number) = code.parse::<u8>() else { continue };
                let row = rows.iter().find(|(code, _)| *code == number.to_string());
                let (_, text) = row.unwrap_or_else(|| panic!("{name}: no row for the exit code {number}"));
                let is_common = [0, 1, 2, 130].contains(&number);
                assert!(
                    is_common || text.contains(&format!("`{name}")),
                    "{name} is not in the row of {number}"
                );
            }
            for command in command.get_subcommands() {
                let name = format!("{name} {}", command.get_name());
                check(command, name.trim_start(), rows);
            }
        }
        let page = include_str!("../../../docs/commands.md");
        let rows: Vec<_> =
            page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).collect();
        check(&CommandLine::command(), "", &rows);
    }

    #[test]
    fn examples_and_notes_get_their_own_sections() {
        let command = Command::new("a").after_help("Examples:\n  a b   c\n  .d\n\nExit codes: 0\nor 1.");
        let text = last_sections(&command, "rudy-a").to_roff();
        assert_eq!(
            text,
            ".SH EXAMPLES\n.nf\n  a b   c\n  .d\n.fi\n.SH NOTES\n.nf\nExit codes: 0\nor 1.\n.fi\n\
             .SH \"SEE ALSO\"\nrudy(1), rudy.toml(5)\n"
        );
        assert_eq!(
            last_sections(&Command::new("rudy"), "rudy").to_roff(),
            ".SH \"SEE ALSO\"\nrudy.toml(5)\n"
        );
    }
}
