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

/// The stderr of a command that has failed with this code. Stdout must be empty.
#[track_caller]
fn failure(code: i32, output: Output) -> String {
    assert_eq!(output.stdout, "");
    output.failed_with(code)
}

/// The stderr of a failed `rudy check`.
#[track_caller]
fn check_failure(folder: &Folder) -> String {
    failure(2, rudy_in(folder, &["check"]))
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
serve, check, import, replay, schema, mirror, precompress, reload, hash-password, certificates, certificates trust
status, upstreams, metrics, upstreams drain, limits, cache, cache purge, cache list, cache verify, completions, manual, tail, get
bench, bench merge, flood, tls, lab, lab run, lab compare, lab diff, lab list, lab show, lab report, lab messages, top, conns";

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
fn verbose_version_describes_the_build() {
    let text = success(rudy(&["--version", "--verbose"]));
    assert_data_eq!(
        text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]"),
        str![[r"
rudy [VERSION]
commit: [..]
target: [..]-linux-[..]
features: resolver
compiler: rustc 1.[..]
libraries in Cargo.lock: aws-lc-rs [..], rustls 0.[..], tokio 1.[..]

"]]
    );
    assert_contains!(failure(2, rudy(&["--verbose"])), "--version");
}

#[test]
fn no_command_prints_the_help_with_exit_code_2() {
    assert_contains!(failure(2, rudy(&[])), "Usage: rudy <COMMAND>");
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
        let message = failure(2, rudy_in(&folder, &arguments));
        assert_data_eq!(message, lines[1].trim_start().replace("\\n", "\n"));
    }
}

const SITE: &str = "listen = [\"127.0.0.1:0\"]\n\n[[site]]\n\n[[site.route]]\npath = \"/*\"\n";

#[test]
fn a_configuration_is_checked() {
    let folder = Folder::with(&[("rudy.toml", &format!("{SITE}respond = {{ body = \"hello\" }}\n"))]);
    assert_data_eq!(success(rudy_in(&folder, &["check"])), file!["cli/check.txt"]);
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
        assert_data_eq!(failure(2, rudy_in(&folder, command)), file!["cli/check-errors.txt"]);
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
        assert_contains!(failure(2, rudy_in(&folder, &["serve", ".", "--access-log", word])), expected);
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
    let explain = |url| success(rudy_in(&folder, &["check", "--explain", url]));
    let explained = ["/user/3", "https://example.org/none", "http://other.org/"].map(explain).join("---\n");
    assert_data_eq!(explained, file!["cli/check-explain.txt"]);
    assert_contains!(failure(1, rudy_in(&folder, &["check", "--explain", "a b"])), "\"a b\" is not a URL");
}

#[test]
fn a_check_shows_where_settings_come_from() {
    let folder = Folder::with(&[
        (
            "rudy.toml",
            "listen = '127.0.0.1:0'\nresponse_headers = { X-All = 'all' }\ndeny = '192.0.2.0/24'\n\
             [[site]]\nhosts = 'example.org'\ninclude = 'shared.toml'\nresponse_headers = { X-Own = 'own' }\n\
             [[site.route]]\npath = '/health'\naccess = false\nrespond = 200\n\
             [[site.route]]\npath = '/*'\nrespond = 404\n",
        ),
        ("shared.toml", "security_headers = true\n"),
    ]);
    let check = |arguments: &[&str]| success(rudy_in(&folder, &[&["check"], arguments].concat()));
    let shown = check(&[]) + "---\n" + &check(&["--explain", "/health"]);
    assert_data_eq!(shown, file!["cli/check-origins.txt"]);
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
        success(rudy_in(&folder, &command.copied().collect::<Vec<_>>()))
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
    let warnings = || rudy_in(&folder, &["check"]).failed_with(0);
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
        assert_contains!(failure(code, hash(arguments, input)), expected);
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
    assert_data_eq!(check_failure(&folder), file!["cli/check-start.txt"]);
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
        assert_contains!(check_failure(&folder), expected);
        if setting.starts_with("error_log") {
            let output = rudy_in(&folder, &["serve", "--config", "rudy.toml"]);
            assert_eq!(output.stdout, "");
            let what = expected.split(": ").next().unwrap_or_default();
            assert!(output.stderr.contains(what), "the start names it too: {}", output.stderr);
        }
    }
}

#[test]
fn rudy_check_finds_a_state_folder_that_a_start_cannot_create() {
    let text = "listen = '127.0.0.1:0,tls'\n[[site]]\nhosts = 'a.example.net'\ntls = 'auto'\n[[site.route]]\npath = '/*'\nrespond = 204\n";
    let folder = Folder::with(&[("rudy.toml", text)]);
    for arguments in [&["check"][..], &["serve", "--config", "rudy.toml"]] {
        let command = Rudy::command(arguments).folder(&folder);
        let output = command.env("STATE_DIRECTORY", folder.join("rudy.toml/state")).output();
        assert_eq!(output.stdout, "");
        assert_contains!(output.stderr, "cannot keep certificates", "Not a directory");
    }
}

#[test]
fn a_script_with_a_missing_interpreter_cannot_be_started() {
    let text = format!("{SITE}fastcgi = {{ command = [\"./app\"] }}\n");
    let folder = Folder::with(&[("rudy.toml", &*text), ("app", "#! /no/such/interpreter -x\n")]);
    folder.set_mode("app", 0o755);
    assert_contains!(
        check_failure(&folder),
        "its first line names /no/such/interpreter, which does not exist"
    );
    folder.write("app", "#!/bin/sh\nexit 1\n");
    success(rudy_in(&folder, &["check"]));
}

#[test]
fn an_app_that_cannot_be_started_is_the_same_error_in_serve_and_check() {
    let wrong =
        format!("{SITE}fastcgi = {{ command = [\"./app\"], processes = {{ user = \"nosuchuser\" }} }}\n");
    let folder = Folder::with(&[("rudy.toml", &wrong)]);
    let [check, serve] =
        [&["check"][..], &["serve", "--config", "rudy.toml"]].map(|arguments| rudy_in(&folder, arguments));
    assert_eq!(check, serve);
    assert_eq!(check.stdout, "");
    assert_contains!(check.stderr, "cannot start `./app`", "`nosuchuser`");
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
    assert_data_eq!(success(rudy_in(&folder, &["check"])), file!["cli/check-unknown.txt"]);
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
    folder.set_mode(".", 0o755);
    folder.set_mode("closed", 0o555);
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
    assert_contains!(failure(2, rudy(&["check", "nowhere.toml"])), "nowhere.toml");
}

#[test]
fn the_schema_is_json() {
    assert_eq!(rudy(&["schema"]).with_code(0).json()["title"], "rudy.toml");
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
        success(rudy_in(&folder, &[&["precompress", ".", "--codings", "gzip,br,gzip"], more].concat()))
    };
    assert!(
        arguments(&["--dry-run", "--level", "1"])
            .starts_with("would write 2 compressed files: 9.77 KiB became ")
    );
    assert!(!folder.join("page.html.gz").exists());
    assert!(arguments(&[]).starts_with("wrote 2 compressed files: "));
    assert!(folder.join("page.html.br").exists() && !folder.join("page.html.zst").exists());
    assert_eq!(arguments(&["--jobs", "1"]), "wrote 0 compressed files; 2 current already\n");
    let missing = failure(1, rudy_in(&folder, &["precompress", "none"]));
    assert_eq!(missing, "error: none: No such file or directory (os error 2)\n");
    let wrong = failure(2, rudy_in(&folder, &["precompress", ".", "--codings", "lzma"]));
    assert_contains!(wrong, "[possible values: br, zstd, gzip]");
}
