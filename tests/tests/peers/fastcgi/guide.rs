//! The examples of `docs/fastcgi.md`, as they stand there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rudy_tests::{Server, flup, program};

use super::apps::{Running, open_folder, perl_with_fcgi};

const GUIDE: &str = include_str!("../../../../docs/fastcgi.md");

/// The first example in a language, with the socket in `folder`.
fn example(language: &str, folder: &Path) -> String {
    let begin = format!("```{language}\n");
    let text = GUIDE.split(&begin).nth(1).and_then(|rest| rest.split("```").next());
    let text = text.unwrap_or_else(|| panic!("the guide has an example in {language}"));
    text.replace("/run/app.sock", &folder.join("app.sock").display().to_string())
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a temp folder can be written");
    path
}

/// Starts an example and asks it through the guide's configuration.
fn says_hello(language: &str, command: impl FnOnce(&Path, &str) -> Command) {
    let folder = open_folder();
    let command = command(folder.path(), &example(language, folder.path()));
    let app = Running::start(command, folder);
    let config = example("toml", app.folder.path()).replace(":80", "127.0.0.1:0");
    let server = Server::config(&config);
    assert_eq!(server.get("/app/?name=Rudy").text(), "Hello, Rudy\n", "{language}");
}

#[test]
fn the_example_in_go_says_hello() {
    let Some(go) = program("go") else { return };
    says_hello("go", |folder, text| {
        let source = write(folder, "app.go", text);
        let built = Command::new(go).args(["build", "-o"]).arg(folder.join("app")).arg(source).status();
        assert!(built.expect("go can be started").success(), "the example is built");
        Command::new(folder.join("app"))
    });
}

#[test]
fn the_example_in_python_says_hello() {
    let Some(python) = flup() else { return };
    says_hello("python", |folder, text| {
        let mut command = Command::new(python);
        command.arg(write(folder, "app.py", text));
        command
    });
}

#[test]
fn the_example_in_perl_says_hello() {
    let Some(perl) = perl_with_fcgi() else { return };
    says_hello("perl", |folder, text| {
        let mut command = Command::new(perl);
        command.arg(write(folder, "app.pl", text));
        command
    });
}

/// What it says of git is what the test of git does; here it is read.
#[test]
fn the_example_of_git_is_a_configuration() {
    let git = GUIDE.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next());
    let git = git.expect("the guide has a second configuration");
    let server = Server::config(&format!("listen = [\"127.0.0.1:0\"]\n{git}"));
    assert_eq!(server.get("/git/x.git/info/refs").status, 502, "nobody listens at /run/app.sock");
}
