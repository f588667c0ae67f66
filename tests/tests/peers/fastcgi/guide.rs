//! Runs the examples of `docs/fastcgi.md`.

use rudy_tests::flup;
use rudy_tests::prelude::*;

use super::apps::{Running, open_folder, perl_with_fcgi};

const GUIDE: &str = include_str!("../../../../docs/fastcgi.md");

/// Returns the first example in a language, with the socket in `folder`.
fn example(language: &str, folder: &Path) -> String {
    let begin = format!("```{language}\n");
    let text = GUIDE.split(&begin).nth(1).and_then(|rest| rest.split("```").next());
    let text = text.unwrap_or_else(|| panic!("the guide has an example in {language}"));
    text.replace("/run/app.sock", &folder.join("app.sock").display().to_string())
}

/// Starts an example and sends a request to it with the guide's configuration.
fn says_hello(language: &str, command: impl FnOnce(&Path, &str) -> Command) {
    let folder = open_folder();
    let command = command(folder.path(), &example(language, folder.path()));
    let app = Running::start(command, folder);
    let config = example("toml", app.folder.path()).replace(":80", "127.0.0.1:0");
    assert_eq!(Server::config(&config).get("/app/?name=Rudy").text(), "Hello, Rudy\n", "{language}");
}

#[test]
fn the_example_in_go_says_hello() {
    let Some(go) = program("go") else { return };
    says_hello("go", |folder, text| {
        let source = folder.write("app.go", text);
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
        command.arg(folder.write("app.py", text));
        command
    });
}

#[test]
fn the_example_in_perl_says_hello() {
    let Some(perl) = perl_with_fcgi() else { return };
    says_hello("perl", |folder, text| {
        let mut command = Command::new(perl);
        command.arg(folder.write("app.pl", text));
        command
    });
}

#[test]
fn the_authorizer_in_perl_allows_requests_with_the_cookie() {
    let Some(perl) = perl_with_fcgi() else { return };
    let folder = open_folder();
    let text = |language: &str, number| {
        let blocks = GUIDE.split(&format!("```{language}\n")).nth(number);
        blocks.and_then(|rest| rest.split("```").next()).expect("the guide has this example")
    };
    let here =
        |text: &str| text.replace("/run/auth.sock", &folder.path().join("app.sock").display().to_string());
    let script = folder.path().write("auth.pl", here(text("perl", 2)));
    let config = here(text("toml", 3)).replace(":80", "127.0.0.1:0");
    let config = config.replace("/srv/members", &folder.path().display().to_string());
    folder.path().write("a.txt", "for members");
    let mut command = Command::new(perl);
    command.arg(script);
    let _authorizer = Running::start(command, folder);
    let server = Server::config(&config);
    let sent = server.get("/a.txt");
    assert_eq!((sent.status, sent.field("location")), (302, Some("/login")));
    assert_eq!(
        server.get("/login").status,
        502,
        "it needs no authorization, and no app listens at /run/app.sock"
    );
    // Several times, so that the connection to the authorizer is reused, and with a body, which the
    // authorizer does not get.
    for _ in 0..3 {
        let mut client = server.connect();
        let fields =
            "Host: test\r\nConnection: close\r\nCookie: session=c2VjcmV0\r\nContent-Length: 3\r\n\r\nabc";
        client.send(format!("GET /a.txt HTTP/1.1\r\n{fields}").as_bytes());
        assert_eq!(client.response().text(), "for members");
    }
}

/// The test of git runs this configuration; this one checks that it is valid.
#[test]
fn the_example_of_git_is_a_valid_configuration() {
    let git = GUIDE.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next());
    let git = git.expect("the guide has a second configuration");
    let server = Server::config(&format!("listen = [\"127.0.0.1:0\"]\n{git}"));
    assert_eq!(server.get("/git/x.git/info/refs").status, 502, "no app listens at /run/app.sock");
}
