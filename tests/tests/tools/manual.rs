//! Tests shell completions and manual pages with the real shells and `mandoc`.

use rudy_tests::prelude::*;

/// Runs a command, which must succeed. Returns its stdout and stderr.
fn run(command: &mut Command) -> (String, String) {
    let output = Output::of(command.stdin(Stdio::null()));
    (output.clone().succeeded(), output.stderr)
}

fn rudy(arguments: &[&str]) -> String {
    let (stdout, stderr) = run(&mut Rudy::command(arguments).into_command());
    assert_eq!(stderr, "");
    stdout
}

/// Runs `script` in a shell, in a folder with the completions as `rudy`. Returns the words of its output.
fn in_shell(shell: &Path, script: &str) -> Vec<String> {
    let folder = Folder::new();
    let name = shell.file_name().and_then(|name| name.to_str()).expect("a shell has a name");
    folder.write("rudy", rudy(&["completions", name]));
    fs::create_dir(folder.join("public")).expect("the folder can be created");
    // Stop a shell that hangs.
    let mut command = Command::new("timeout");
    command.arg("60").arg(shell).args(["-c", script]).current_dir(folder.path()).env("HOME", folder.path());
    let (stdout, stderr) = run(&mut command);
    assert_eq!(stderr, "");
    stdout.split_whitespace().map(str::to_owned).collect()
}

fn assert_has(words: &[String], expected: &[&str]) {
    for word in expected {
        assert!(words.iter().any(|known| known == word), "{word} is not in {words:?}");
    }
}

#[test]
fn bash_completes_commands_flags_and_folders() {
    let Some(bash) = program("bash") else { return };
    let complete = |line: &str| {
        let script = format!(
            "source ./rudy; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _rudy rudy \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        in_shell(&bash, &script)
    };
    assert_eq!(complete("rudy se"), ["serve"]);
    assert_has(&complete("rudy \"\""), &["serve", "check", "completions", "manual", "bench"]);
    assert_eq!(complete("rudy serve --lis"), ["--listen"]);
    assert_eq!(complete("rudy serve --config pub"), ["public"]);
    assert_has(&complete("rudy completions \"\""), &["bash", "fish", "zsh"]);
}

#[test]
fn fish_completes_commands_and_flags() {
    let Some(fish) = program("fish") else { return };
    let complete = |line: &str| in_shell(&fish, &format!("source ./rudy; complete -C '{line}'"));
    assert_has(&complete("rudy se"), &["serve"]);
    assert_has(&complete("rudy serve --lis"), &["--listen"]);
}

#[test]
fn zsh_completes_commands_and_flags() {
    let Some(zsh) = program("zsh") else { return };
    // zsh completes only on a terminal. Ctrl-X prints the current line.
    let complete = |line: &str| {
        let script = format!(
            "zmodload zsh/zpty; zpty shell 'zsh -f -i'
             zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; source ./rudy; bindkey \"^I\" complete-word'
             zpty -w shell 'finish() {{ print -r -- \"<<$BUFFER>>\"; exit }}; zle -N finish; bindkey \"^X\" finish'
             zpty -w shell 'print ${{:-rea}}dy'
             zpty -r -m shell before '*ready*'
             zpty -n -w shell $'{line}\\t\\x18'
             zpty -r -m shell out '*<<*>>*'; print -r -- $out"
        );
        in_shell(&zsh, &script).join(" ")
    };
    assert!(complete("rudy chec").contains("<<rudy check >>"));
    assert!(complete("rudy serve --lis").contains("<<rudy serve --listen=>>"));
}

#[test]
fn manual_pages_are_written_and_valid() {
    let folder = Folder::new();
    let target = &folder.text("new/man");
    // The second time they are replaced.
    rudy(&["manual", target]);
    let written = rudy(&["manual", target]);
    let written: Vec<_> = written.lines().collect();
    for name in ["man1/rudy.1", "man1/rudy-serve.1", "man1/rudy-lab-run.1", "man5/rudy.toml.5"] {
        assert!(written.contains(&format!("{target}/{name}").as_str()), "{name} is not in {written:?}");
    }
    assert_contains!(folder.read("new/man/man1/rudy-serve.1"), ".TH rudy-serve 1 ", ".SH EXAMPLES\n");
    let Some(mandoc) = program("mandoc") else { return };
    for file in written {
        let report = Output::of(Command::new(&mandoc).args(["-Tlint", "-Wwarning", file])).stdout;
        // Pages have no date, so that builds are reproducible. The paragraphs are from `clap_mangen`, for lists of values.
        let is_expected =
            |line: &str| line.contains("missing date") || line.contains("skipping paragraph macro: br");
        let mistakes: Vec<_> = report.lines().filter(|line| !is_expected(line)).collect();
        assert!(mistakes.is_empty(), "{mistakes:?}");
    }
}

#[test]
fn pages_that_cannot_be_written_are_reported() {
    let folder = Folder::with(&[("file", "")]);
    let output = Rudy::command(["manual", "file"]).folder(folder.path()).output();
    assert_eq!((output.code, output.stdout.len()), (Some(1), 0));
    assert_eq!(output.stderr, "error: cannot write file/man1/rudy.1: Not a directory (os error 20)\n");
}
