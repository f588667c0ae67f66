//! The command line: help, errors and exit codes. `SNAPSHOTS=overwrite cargo xtask quick -- cli::` updates the files in
//! `cli/`; review the changes.

use rudy_tests::prelude::*;
use snapbox::{Data, assert_data_eq, file, str};

/// Runs `rudy` in `folder`, without a terminal whose width would change the help.
fn rudy_in(folder: &Path, arguments: &[&str]) -> Output {
    Rudy::command(arguments).folder(folder).output()
}

fn rudy(arguments: &[&str]) -> Output {
    rudy_in(Path::new("/"), arguments)
}

/// The exit code and stderr; stdout must be empty.
fn failure(output: Output) -> (Option<i32>, String) {
    assert_eq!(output.stdout, "");
    (output.code, output.stderr)
}

/// The stdout of a successful command without stderr. (For root, `check` prints a warning.)
fn success(output: Output) -> String {
    let stderr = &output.stderr;
    let other: Vec<_> =
        stderr.lines().filter(|line| !line.starts_with("warning: Rudy runs as root")).collect();
    assert_eq!(other, [""; 0]);
    assert_eq!(output.code, Some(0));
    output.stdout
}

/// All commands but `http_load`, whose flags have one dash.
const COMMANDS: &str = "\
serve, check, schema, mirror, precompress, reload, hash-password, certificates, certificates trust
status, upstreams, metrics, upstreams drain, limits, cache, cache purge, completions, manual, tail, get
bench, bench merge, flood, tls, lab, lab run, lab report, lab messages, top, conns";

#[test]
fn help_of_every_command() {
    assert_data_eq!(success(rudy(&["--help"])), file!["cli/help.txt"]);
    assert_data_eq!(success(rudy(&["http_load", "-help"])), file!["cli/http_load-help.txt"]);
    for command in COMMANDS.lines().flat_map(|line| line.split(", ")) {
        let arguments: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let file = format!("tests/tools/cli/{}-help.txt", command.replace(' ', "-"));
        let expected = Data::read_from(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), None);
        assert_data_eq!(success(rudy(&arguments)), expected);
    }
}

#[test]
fn version() {
    assert_eq!(success(rudy(&["--version"])), format!("rudy {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_prints_the_help_with_exit_code_2() {
    let (code, help) = failure(rudy(&[]));
    assert_eq!(code, Some(2));
    assert!(help.contains("Usage: rudy <COMMAND>"), "{help}");
}

/// Arguments, and what is on stderr.
const INVALID: &str = r#"
serve --brows
    error: unexpected argument '--brows' found[..]\n...
server
    error: unrecognized subcommand 'server'[..]\n...
serve --cores 0
    error: invalid value '0' for '--cores <N>'[..]\n...
serve /tmp --config rudy.toml
    error: the argument '[DIR|FILE]' cannot be used with '--config <FILE>'\n...
serve --config rudy.toml --spa
    error: the argument '--config <FILE>' cannot be used with '--spa'\n...
serve --host http://a.test
    error: invalid value 'http://a.test' for '--host <NAME>': expected the host alone, without the scheme\n...
serve --listen 8080
    error: invalid value '8080' for '--listen <ADDR>': [..] write `127.0.0.1:8080` for this machine only[..]\n...
bench -q 100 a
    error: unexpected argument '-q' found\n\n  tip: set the rate of all connections[..]\n...
flood -t2 http://a/
    error: unexpected argument '-t' found\n\n  tip: one thread handles all connections[..]\n...
get -v http://a/
    error: unexpected argument '-v' found\n\n  tip: the report on standard error[..]\n...
tail
    error: the following required arguments were not provided:\n  <FILE>...\n...
tail --grep a(b x
    error: invalid value 'a(b' for '--grep <REGEX>': regex parse error:\n    a(b\n     ^\nerror: unclosed group\n...
bench -R fast a
    error: invalid value 'fast' for '--rate <RATE>': expected a rate in requests per second, such as[..]\n...
bench -n 1 -d 1 a
    error: the argument '--requests <N>' cannot be used with[..]\n...
top 1 --interval 1ms
    error: invalid value '1ms' for '--interval <TIME>': expected a time from 10ms to 1h\n...
conns --watch
    error: no process is given; --watch has 1 s as its time\n...
tail -
    error: cannot follow standard input: give the name of a file\n...
tail /[.log
    error: cannot follow "/[.log": unclosed character class[..]\n...
serve nowhere
    error: cannot serve nowhere: No such file or directory (os error 2)\n
serve page.html
    error: cannot serve page.html: expected a folder or a configuration file (.toml)\n
serve nowhere.toml
    error: cannot serve nowhere.toml: No such file or directory (os error 2)\n
serve rudy.toml --host a.test
    error: cannot serve rudy.toml: it is a configuration file, and --browse, --spa, --host, --domain and --tls apply to folders only\n
serve --json-log
    error: --json-log needs an access log: add --access-log PATH, or --access-log - for standard output\n
"#;

#[test]
fn invalid_arguments_are_errors_with_exit_code_2() {
    let folder = Folder::with(&[("rudy.toml", ""), ("page.html", "")]);
    let lines: Vec<_> = INVALID.lines().skip(1).collect();
    for lines in lines.chunks(2) {
        let arguments: Vec<_> = lines[0].split(' ').collect();
        let (code, message) = failure(rudy_in(folder.path(), &arguments));
        assert_eq!(code, Some(2), "{}: {message}", lines[0]);
        assert_data_eq!(message, lines[1].trim_start().replace("\\n", "\n"));
    }
}

const SITE: &str = "listen = [\"127.0.0.1:0\"]\n\n[[site]]\n\n[[site.route]]\npath = \"/*\"\n";

#[test]
fn a_configuration_is_checked() {
    let folder = Folder::with(&[("rudy.toml", &format!("{SITE}respond = {{ body = \"hello\" }}\n"))]);
    assert_data_eq!(success(rudy_in(folder.path(), &["check"])), file!["cli/check.txt"]);
}

#[test]
fn all_errors_of_a_configuration_are_reported_at_once() {
    let wrong = format!("lisen = []\n{SITE}respond = {{ body = \"hello\", status = 99 }}\n");
    let folder = Folder::with(&[("rudy.toml", &wrong)]);
    for command in [
        &["check"][..],
        &["check", "--config", "rudy.toml"],
        &["serve", "--config", "rudy.toml"],
        &["serve", "rudy.toml"],
    ] {
        let (code, message) = failure(rudy_in(folder.path(), command));
        assert_eq!(code, Some(2));
        assert_data_eq!(message, file!["cli/check-errors.txt"]);
    }
}

#[test]
fn words_of_other_servers_are_no_names_of_access_logs() {
    let folder = Folder::with(&[("index.html", "page")]);
    for (word, expected) in [
        ("off", "leave out the flag"),
        ("none", "leave out the flag"),
        ("stdout", "write -"),
        ("stderr", "write /dev/stderr"),
    ] {
        let (code, message) = failure(rudy_in(folder.path(), &["serve", ".", "--access-log", word]));
        assert!(code == Some(2) && message.contains(expected), "{word}: {message}");
        assert!(!folder.join(word).exists());
    }
}

#[test]
fn a_request_is_explained() {
    let folder = Folder::with(&[(
        "rudy.toml",
        "[[site]]\nhosts = ['example.org']\nerror_pages = { 404 = '/missing' }\nsecurity_headers = true\n\
             [[site.route]]\npath = 'regex:^/user/([0-9]+)$'\nrewrite = '/profile?id={1}'\n\
             [[site.route]]\npath = '/profile'\nresponse_headers = { X-Path = '{path}', Server = false }\n\
             body_bytes = '1M'\nrequest_timeout = '3s'\nrespond = 'profile'\n",
    )]);
    let explain = |url| success(rudy_in(folder.path(), &["check", "--explain", url]));
    let explained = ["/user/3", "https://example.org/none", "http://other.org/"].map(explain).join("---\n");
    assert_data_eq!(explained, file!["cli/check-explain.txt"]);
    let (code, message) = failure(rudy_in(folder.path(), &["check", "--explain", "a b"]));
    assert_eq!(code, Some(1));
    assert!(message.contains("\"a b\" is not a URL"), "{message}");
}

#[test]
fn the_access_rule_that_decides_is_explained() {
    let folder = Folder::with(&[(
        "rudy.toml",
        "[[site]]\n[[site.route]]\npath = '/*'\nrespond = 'page'\n\
         access = [{ deny = '192.0.2.0/24' }, { allow = 'anyone', methods = 'GET', headers = { X-A = 'a*' } }]\n",
    )]);
    let explain = |arguments: &[&str]| {
        let command = ["check", "--explain", "/x", "--from"].iter().chain(arguments);
        success(rudy_in(folder.path(), &command.copied().collect::<Vec<_>>()))
    };
    for (arguments, expected) in [
        (&["192.0.2.7"][..], "Response  403: access rule 1: deny 192.0.2.0/24\n"),
        (&["203.0.113.1"], "Response  403: the access rules, none of which matches: deny all others\n"),
        (
            &["203.0.113.1", "--header", "X-A: abc", "--method", "POST"],
            "none of which matches: deny all others\n",
        ),
        (
            &["203.0.113.1", "--header", "X-A: abc"],
            "Allowed   by access rule 2: allow anyone, method GET, field x-a: a*\nHandler   respond: 200 with 4 bytes of text\n",
        ),
    ] {
        let explained = explain(arguments);
        assert!(explained.ends_with(expected), "{arguments:?}: {explained}");
    }
}

#[test]
fn a_password_is_hashed_and_weak_hashes_are_reported() {
    let apr1 = "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n";
    let folder = Folder::with(&[
        ("rudy.toml", "[[site]]\nroot = '.'\nbasic_auth = 'htpasswd'\n"),
        ("htpasswd", apr1),
        ("password", "secret\n"),
        ("empty", "\n"),
    ]);
    let hash = |arguments: &[&str], input: &str| {
        let input = fs::File::open(folder.join(input)).expect("the file is there");
        Rudy::command(["hash-password"]).args(arguments).folder(folder.path()).stdin(input).output()
    };
    let warnings = || {
        let output = rudy_in(folder.path(), &["check"]).with_code(0);
        output.stderr
    };
    assert!(success(hash(&[], "password")).starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
    assert!(
        success(hash(&["--user", "bob", "--algorithm", "bcrypt"], "password")).starts_with("bob:$2y$12$")
    );
    assert_contains!(warnings(), "($apr1$)", "rudy hash-password --file htpasswd --user ann");
    assert_eq!(success(hash(&["--user", "ann", "--file", "htpasswd"], "password")), "");
    assert!(!warnings().contains("hash-password"));
    for (arguments, input, code, expected) in [
        (&[][..], "empty", 1, "cannot read the password: the password is empty"),
        (&["--user", "a:b"], "password", 1, "expected a name without colons"),
        (&["--user", "ann", "--file", "none/htpasswd"], "password", 1, "cannot write none/htpasswd"),
        (&["--file", "htpasswd"], "password", 2, "--user <NAME>"),
    ] {
        let (found, message) = failure(hash(arguments, input));
        assert!(found == Some(code) && message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn rudy_check_finds_errors_of_a_start() {
    let wrong = r#"listen = ["192.0.2.1:8080", "unix:nowhere/rudy.sock", "unix:rudy.toml"]
access_log = { path = "nowhere/access.log" }
buffer_dir = "nowhere"

[[site]]
[[site.route]]
path = "/app"
[site.route.fastcgi]
command = ["./app"]
processes = { user = "nosuchuser", folder = "nowhere" }

[[site.route]]
path = "/in-path"
fastcgi = { command = ["rudy-no-such-program"] }

[[site.route]]
path = "/plain-file"
fastcgi = { command = ["./rudy.toml"] }
"#;
    let folder = Folder::with(&[("rudy.toml", wrong)]);
    let (code, message) = failure(rudy_in(folder.path(), &["check"]));
    assert_eq!(code, Some(2));
    assert_data_eq!(message, file!["cli/check-start.txt"]);
}

#[test]
fn rudy_check_finds_files_that_a_start_cannot_create() {
    for (setting, expected) in [
        ("admin_socket = 'nowhere/a.sock'", "cannot listen on unix:nowhere/a.sock: No such file"),
        ("admin_socket = 'rudy.toml'", "rudy.toml exists and is not a socket"),
        ("error_log = 'nowhere/e.log'", "cannot open the error log nowhere/e.log: nowhere: No such file"),
        ("error_log = 'link'", "cannot open the error log link: nowhere: No such file"),
        ("error_log = 'socket'", "cannot open the error log socket: it is a socket"),
        (
            "error_log = { syslog = 'unix:/nowhere/log' }",
            "cannot open the error log syslog unix:/nowhere/log: No such file",
        ),
        ("cache.path = '.'", "it has other files than those of a cache"),
        (
            "cache.path = 'rudy.toml/cache'",
            "cannot open the cache rudy.toml/cache: rudy.toml: Not a directory",
        ),
    ] {
        let route = "path = '/*'\nproxy = 'http://127.0.0.1:9'\ncache = true\n";
        let text = format!("listen = '127.0.0.1:0'\n{setting}\n[[site]]\n[[site.route]]\n{route}");
        let folder = Folder::with(&[("rudy.toml", &text)]);
        symlink("nowhere/e.log", folder.join("link")).unwrap();
        let _socket = UnixListener::bind(folder.join("socket")).unwrap();
        let (code, message) = failure(rudy_in(folder.path(), &["check"]));
        assert!(code == Some(2) && message.contains(expected), "{setting}: {message}");
        if setting.starts_with("error_log") {
            let (_, message) = failure(rudy_in(&folder, &["serve", "--config", "rudy.toml"]));
            let what = expected.split(": ").next().unwrap_or_default();
            assert!(message.contains(what), "the start names it too: {message}");
        }
    }
}

#[test]
fn rudy_check_finds_a_state_folder_that_a_start_cannot_create() {
    let site =
        "[[site]]\nhosts = 'a.example.net'\ntls = 'auto'\n[[site.route]]\npath = '/*'\nrespond = 204\n";
    let folder = Folder::with(&[("rudy.toml", format!("listen = '127.0.0.1:0,tls'\n{site}"))]);
    for arguments in [&["check"][..], &["serve", "--config", "rudy.toml"]] {
        let command = Rudy::command(arguments).folder(&folder);
        let (_, message) = failure(command.env("STATE_DIRECTORY", folder.join("rudy.toml/state")).output());
        let is_named = message.contains("cannot keep certificates") && message.contains("Not a directory");
        assert!(is_named, "{arguments:?}: {message}");
    }
}

#[test]
fn a_script_with_a_missing_interpreter_cannot_be_started() {
    let text = format!("{SITE}fastcgi = {{ command = [\"./app\"] }}\n");
    let folder = Folder::with(&[("rudy.toml", &*text), ("app", "#! /no/such/interpreter -x\n")]);
    let app = folder.join("app");
    fs::set_permissions(&app, Permissions::from_mode(0o755)).expect("the file is ours");
    let (_, message) = failure(rudy_in(folder.path(), &["check"]));
    assert!(message.contains("its first line names /no/such/interpreter, which does not exist"), "{message}");
    fs::write(&app, "#!/bin/sh\nexit 1\n").expect("the file is ours");
    success(rudy_in(folder.path(), &["check"]));
}

#[test]
fn an_app_that_cannot_be_started_is_the_same_error_in_serve_and_check() {
    let wrong =
        format!("{SITE}fastcgi = {{ command = [\"./app\"], processes = {{ user = \"nosuchuser\" }} }}\n");
    let folder = Folder::with(&[("rudy.toml", &wrong)]);
    let [check, serve] = [&["check"][..], &["serve", "--config", "rudy.toml"]]
        .map(|arguments| failure(rudy_in(folder.path(), arguments)));
    assert_eq!(check, serve);
    assert!(check.1.contains("cannot start `./app`") && check.1.contains("`nosuchuser`"), "{}", check.1);
}

#[test]
fn rudy_check_lists_open_questions() {
    let text = r#"listen = ["127.0.0.1:8080", "unix:rudy.sock", "systemd"]
[[site]]
route = [
    { path = "/a", fastcgi = { address = ["127.0.0.1:9000", "unix:/run/app.sock"] } },
    { path = "/b", fastcgi = { address = "127.0.0.1:9000" } },
]
"#;
    let folder = Folder::with(&[("rudy.toml", text)]);
    assert_data_eq!(success(rudy_in(folder.path(), &["check"])), file!["cli/check-unknown.txt"]);
}

#[test]
fn permissions_of_root_are_open_questions_for_another_user() {
    let folder = Folder::new();
    let closed = folder.join("closed");
    fs::create_dir(&closed).unwrap();
    let text = format!(
        "listen = [\"unix:{0}/sock\"]\naccess_log = {{ path = \"{0}/log\" }}\n[[site]]\n[[site.route]]\npath = \"/app\"\n\
         fastcgi = {{ command = [\"/bin/true\"], processes.user = \"root\" }}\n",
        closed.display()
    );
    folder.write("rudy.toml", text);
    for (path, mode) in [(folder.path(), 0o755), (&closed, 0o555)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new(binary());
    if geteuid().is_root() {
        let Some(setpriv) = program("setpriv") else { return };
        command = Command::new(setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    }
    let output = Output::of(command.arg("check").current_dir(&folder).env("TMPDIR", "/tmp"));
    if output.code == Some(126) {
        skip("another user cannot run the program in its folder");
        return;
    }
    let shown = success(output).replace(&closed.display().to_string(), "/closed");
    let (_, unknown) = shown.split_once("Checked only at start-up\n").expect("a section");
    assert_data_eq!(
        unknown,
        str![[r"
  whether another program listens on unix:/closed/sock
  whether root may run /bin/true
  whether Rudy may listen on unix:/closed/sock (you lack the permission)
  whether Rudy may write the access log /closed/log (you lack the permission)
  whether Rudy may start processes as `root` (you lack the permission)

"]]
    );
}

#[test]
fn a_missing_configuration_is_an_error() {
    let (code, message) = failure(rudy_in(Path::new("/"), &["check", "nowhere.toml"]));
    assert_eq!(code, Some(2));
    assert!(message.contains("nowhere.toml"), "{message}");
}

#[test]
fn the_schema_is_json() {
    let schema: Value = serde_json::from_str(&success(rudy(&["schema"]))).unwrap();
    assert_eq!(schema["title"], "rudy.toml");
}

#[test]
fn a_mirror_without_a_url_names_where_clients_have_it() {
    let errors = rudy(&["mirror", "npm", "-p", "8081"]).failed_with(2);
    assert_contains!(errors, "`npm config get registry` prints it", "write `rudy mirror npm URL`");
}

#[test]
fn precompress_reports_what_it_writes() {
    let text = "text ".repeat(1000);
    let folder = Folder::with(&[("page.html", &*text), ("small.html", "text")]);
    let arguments = |more: &[&str]| -> String {
        success(rudy_in(folder.path(), &[&["precompress", ".", "--codings", "gzip,br,gzip"], more].concat()))
    };
    assert!(
        arguments(&["--dry-run", "--level", "1"])
            .starts_with("would write 2 compressed files: 9.77 KiB became ")
    );
    assert!(!folder.join("page.html.gz").exists());
    assert!(arguments(&[]).starts_with("wrote 2 compressed files: "));
    assert!(folder.join("page.html.br").exists() && !folder.join("page.html.zst").exists());
    assert_eq!(arguments(&["--jobs", "1"]), "wrote 0 compressed files; 2 current already\n");
    let missing = failure(rudy_in(folder.path(), &["precompress", "none"]));
    assert_eq!(missing, (Some(1), "error: none: No such file or directory (os error 2)\n".to_owned()));
    let wrong = failure(rudy_in(folder.path(), &["precompress", ".", "--codings", "lzma"]));
    assert!(wrong.0 == Some(2) && wrong.1.contains("[possible values: br, zstd, gzip]"), "{}", wrong.1);
}
