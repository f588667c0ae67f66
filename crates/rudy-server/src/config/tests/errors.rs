//! Diagnostics of invalid configurations.

use snapbox::str;

use super::*;

#[test]
fn all_errors_are_reported_at_once_with_their_locations() {
    let output = errors(
        r#"listen = ["80800", 1.5]
colour = "red"

[limits]
hed_timeout = "10s"
idle_timeout = true
head_bytes = "16 kB or so"
linger_bytes = "1GiB"
target_bytes = "1MiB"

[[site]]
hosts = ["example.org:80"]

[[site.route]]
path = "/old/*"
redirect = { to = "/new/{rest}", status = 300 }

[[site.route]]
redirect = {}

[[site.route]]
path = 1
respond = { status = 100, heders = {} }
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: "80800" is not an address to listen on
 --> rudy.toml:1:11
  |
1 | listen = ["80800", 1.5]
  |           ^^^^^^^ expected `127.0.0.1:8080`, `[::1]:8080`, `:8080` (all interfaces), `unix:PATH` or `systemd`

error: expected an address to listen on ("127.0.0.1:8080"), found a number
 --> rudy.toml:1:20
  |
1 | listen = ["80800", 1.5]
  |                    ^^^

error: unknown key `colour`
 --> rudy.toml:2:1
  |
2 | colour = "red"
  | ^^^^^^ not allowed here
  |
  = help: the keys of this table are `listen`, `engine`, `cores`, `threads`, `keep_alive`, `http2`, `buffer_memory`, `buffer_total`, `buffer_dir`, `password_threads`, `trusted_proxies`, `client_address`, `trust_forwarded_host`, `include`, `limits`, `access_log`, `error_log`, `metrics`, `request_id`, `shutdown_timeout`, `upgrade_timeout`, `user`, `sandbox`, `admin_socket`, `ticket_keys`, `acme`, `cache`, `tls`, `redirect_to_https`, `hsts`, `response_headers`, `request_headers`, `security_headers`, `error_pages`, `intercept_errors`, `maintenance`, `allow`, `deny`, `access`, `cors`, `basic_auth`, `forward_auth`, `rate_limit`, `concurrent_requests`, `bandwidth`, `body_bytes`, `request_timeout`, `compression`, `media_types`, `charset`, `site`

error: unknown key `hed_timeout`
 --> rudy.toml:5:1
  |
5 | hed_timeout = "10s"
  | ^^^^^^^^^^^ did you mean `head_timeout`?

error: expected a time ("10s"), found true or false
 --> rudy.toml:6:16
  |
6 | idle_timeout = true
  |                ^^^^

error: "16 kB or so" is not a size
 --> rudy.toml:7:14
  |
7 | head_bytes = "16 kB or so"
  |              ^^^^^^^^^^^^^ expected a number of bytes, or a number and a unit, as in "16k", "20M" or "10MB"

error: 1GiB is out of range
 --> rudy.toml:8:16
  |
8 | linger_bytes = "1GiB"
  |                ^^^^^^ expected 0B to 64MiB

error: "example.org:80" is not a host
  --> rudy.toml:12:10
   |
12 | hosts = ["example.org:80"]
   |          ^^^^^^^^^^^^^^^^ expected the host alone, without a port

error: expected one of 301, 302, 303, 307, 308, found 300
  --> rudy.toml:16:43
   |
16 | redirect = { to = "/new/{rest}", status = 300 }
   |                                           ^^^

error: the key `path` is missing
  --> rudy.toml:18:1
   |
18 | [[site.route]]
   | ^^^^^^^^^^^^^^ needs `path`, for example `path = "/*"` for all paths

error: the key `to` is missing
  --> rudy.toml:19:12
   |
19 | redirect = {}
   |            ^^ needs `to`

error: expected a path ("/docs/*"), found an integer
  --> rudy.toml:22:8
   |
22 | path = 1
   |        ^

error: 100 is out of range
  --> rudy.toml:23:22
   |
23 | respond = { status = 100, heders = {} }
   |                      ^^^ expected 200 to 599

error: unknown key `heders`
  --> rudy.toml:23:27
   |
23 | respond = { status = 100, heders = {} }
   |                           ^^^^^^ did you mean `headers`?

14 errors in the configuration

"#]]
    );
}

#[test]
fn conflicts_are_reported_together_with_malformed_values() {
    let output = errors(
        r#"listne = []

[limits]
head_bytes = "1KiB"
linger_timeout = "2d"

[[site]]
hosts = ["a.org", "A.ORG."]

[[site.route]]
path = "/docs/*"
respond = { status = 204, body = "x" }

[[site.route]]
path = ["/docs/a", "/docs/*.pdf"]
redirect = { to = "/new" }

[[site.route]]
path = "/evil"
redirect = { to = "//evil.org" }

[[site.route]]
path = "/x"
respond = {}
status = {}

[[site.route]]
path = "/y"

[[site]]
hosts = ["*.b.org", "a.org"]

[[site]]
status = {}

[[site]]
route = []
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: unknown key `listne`
 --> rudy.toml:1:1
  |
1 | listne = []
  | ^^^^^^ did you mean `listen`?

error: target_bytes (8KiB) is more than head_bytes (1KiB)
 --> rudy.toml:3:1
  |
3 | [limits]
  | ^^^^^^^^ the target is part of the head

error: 48h is out of range
 --> rudy.toml:5:18
  |
5 | linger_timeout = "2d"
  |                  ^^^^ expected 1ms to 24h

error: duplicate host "a.org"
 --> rudy.toml:8:19
  |
8 | hosts = ["a.org", "A.ORG."]
  |          -------  ^^^^^^^^ the second
  |          |
  |          the first

error: a response with status 204 has no body
  --> rudy.toml:12:22
   |
12 | respond = { status = 204, body = "x" }
   |                      ^^^ remove the body, or use another status
...
15 | path = ["/docs/a", "/docs/*.pdf"]
   |        ^^^^^^^^^^^^^^^^^^^^^^^^^^ an earlier route matches all of these paths
   |
   = help: put the more specific path first

error: invalid target of a redirect
  --> rudy.toml:20:19
   |
20 | redirect = { to = "//evil.org" }
   |                   ^^^^^^^^^^^^ expected "/...", "{path}...", "http://..." or "https://..."

error: a route can only have one handler; this one has `respond` and `status`
  --> rudy.toml:25:1
   |
24 | respond = {}
   |           -- the first
25 | status = {}
   | ^^^^^^ a second handler

error: this route has no handler
  --> rudy.toml:27:1
   |
27 | [[site.route]]
   | ^^^^^^^^^^^^^^ expected `files`, `redirect`, `rewrite`, `respond`, `status`, `metrics`, `dashboard`, `stream`, `broadcast`, `tail`, `delay`, `info`, `fastcgi`, `proxy`, `mirror` or `php`

error: this site has no route
  --> rudy.toml:30:1
   |
30 | [[site]]
   | ^^^^^^^^ expected `root = "..."`, `php = "..."` or a [[site.route]]

error: duplicate host "a.org"
  --> rudy.toml:31:21
   |
 8 | hosts = ["a.org", "A.ORG."]
   |          ------- the first
...
31 | hosts = ["*.b.org", "a.org"]
   |                     ^^^^^^^ the second

error: unknown key `status`
  --> rudy.toml:34:1
   |
34 | status = {}
   | ^^^^^^ write [[site.route]], `path = "/*"` and `status = ...`

error: this site has no route
  --> rudy.toml:36:1
   |
36 | [[site]]
   | ^^^^^^^^ expected `root = "..."`, `php = "..."` or a [[site.route]]

error: two sites have no `hosts`
  --> rudy.toml:36:1
   |
33 | [[site]]
   | -------- the first default site
...
36 | [[site]]
   | ^^^^^^^^ a second default site

14 errors in the configuration

"#]]
    );
}

#[test]
fn allowed_clients_and_trusted_proxies_must_be_configured() {
    let output = errors(
        r#"listen = ["127.0.0.1:8080,proxy_protocol"]
trust_forwarded_host = true
client_address = "x-real-ip"

[[site]]
[[site.route]]
path = "/status"
status = {}
[[site.route]]
path = "/info"
info = { allow = ["loopback", "local"] }
[[site.route]]
path = "/log"
tail = { files = "a.log" }
[[site.route]]
path = "/news"
broadcast = {}
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: `proxy_protocol` needs `trusted_proxies`
 --> rudy.toml:1:11
  |
1 | listen = ["127.0.0.1:8080,proxy_protocol"]
  |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ no proxy is trusted
  |
  = help: write the addresses of the proxies: trusted_proxies = ["10.0.0.1"]

error: `trust_forwarded_host` needs `trusted_proxies`
 --> rudy.toml:2:24
  |
2 | trust_forwarded_host = true
  |                        ^^^^ no proxy is trusted
  |
  = help: write the addresses of the proxies: trusted_proxies = ["10.0.0.1"]

error: `client_address` needs `trusted_proxies`
 --> rudy.toml:3:18
  |
3 | client_address = "x-real-ip"
  |                  ^^^^^^^^^^^ no proxy is trusted
  |
  = help: write the addresses of the proxies: trusted_proxies = ["10.0.0.1"]

error: the key `allow` is missing
 --> rudy.toml:8:10
  |
8 | status = {}
  |          ^^ write status = { allow = "loopback" }
  |
  = help: `allow` lists the clients to allow: "loopback" (this machine, without a proxy), addresses and networks, or "anyone"

error: "local" is not an allowed client
  --> rudy.toml:11:31
   |
11 | info = { allow = ["loopback", "local"] }
   |                               ^^^^^^^ expected an address, or a network such as "10.0.0.0/8", "loopback" or "anyone"

error: the key `allow` is missing
  --> rudy.toml:14:8
   |
14 | tail = { files = "a.log" }
   |        ^^^^^^^^^^^^^^^^^^^ write tail = { files = "access.log", allow = "loopback" }
   |
   = help: `allow` lists the clients to allow: "loopback" (this machine, without a proxy), addresses and networks, or "anyone"

error: the key `publish` is missing
  --> rudy.toml:17:13
   |
17 | broadcast = {}
   |             ^^ write broadcast = { publish = "loopback" }
   |
   = help: `publish` lists the clients to allow: "loopback" (this machine, without a proxy), addresses and networks, or "anyone"

7 errors in the configuration

"#]]
    );
    let output = errors("trusted_proxies = [\"10.0.0.1:80\", \"Unix\"]\n[[site]]\nroot = \"/\"\n");
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: "10.0.0.1:80" is not an address
 --> rudy.toml:1:20
  |
1 | trusted_proxies = ["10.0.0.1:80", "Unix"]
  |                    ^^^^^^^^^^^^^ expected an address, or a network such as "10.0.0.0/8", or "unix", or a file with networks: "file:cdn.txt"

error: "Unix" is not an address
 --> rudy.toml:1:35
  |
1 | trusted_proxies = ["10.0.0.1:80", "Unix"]
  |                                   ^^^^^^ expected an address, or a network such as "10.0.0.0/8", or "unix", or a file with networks: "file:cdn.txt"

2 errors in the configuration

"#]]
    );
}

#[test]
fn a_common_mistake_gets_the_correct_line() {
    let output = errors(
        r#"[site]
root = "public"
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r"
error: expected a list, found a table
 --> rudy.toml:1:1
  |
1 | [site]
  | ^^^^^^ write [[site]]

1 error in the configuration

"]]
    );
    let output = errors(
        r#"[[site]]
[site.route]
path = "/"
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r"
error: expected a list, found a table
 --> rudy.toml:2:1
  |
2 | [site.route]
  | ^^^^^^^^^^^^ write [[site.route]]

1 error in the configuration

"]]
    );
}

#[test]
fn a_buffer_folder_that_does_not_exist_is_reported() {
    let output = errors("buffer_dir = '/nowhere'\n[[site]]\nroot = '.'\n");
    snapbox::assert_data_eq!(
        output,
        str![[r"
error: cannot write to /nowhere: No such file or directory (os error 2)
 --> rudy.toml:1:14
  |
1 | buffer_dir = '/nowhere'
  |              ^^^^^^^^^^ expected a writable folder

1 error in the configuration

"]]
    );
}

#[test]
fn every_wrong_line_of_a_password_file_is_reported_once() {
    let text = "[[site]]\nbasic_auth = 'users'\nroot = '.'\n[[site.route]]\npath = '/a'\nrespond = 404\nbasic_auth = 'users'\n";
    let output = load(&[("rudy.toml", text), ("users", "# staff\nann\nbob:secret\n")]).unwrap_err();
    snapbox::assert_data_eq!(
        output,
        str![[r"
error: cannot use the users of users
 --> rudy.toml:2:14
  |
2 | basic_auth = 'users'
  |              ^^^^^^^ line 2 has no colon: expected `user:hash`, as `rudy hash-password` writes it

error: cannot use the users of users
 --> rudy.toml:2:14
  |
2 | basic_auth = 'users'
  |              ^^^^^^^ line 3 (bob) has a password in plain text: make a new hash with `rudy hash-password --user bob`

2 errors in the configuration

"]]
    );
}

#[test]
fn all_files_of_a_certificate_that_cannot_be_used_are_reported() {
    let site = |tls: &str| format!("listen = ':0,tls'\n[[site]]\nhosts = 'a.org'\nroot = '.'\ntls = {tls}\n");
    for (tls, files) in [
        (
            "{ certificate = 'no-cert', key = 'no-key', ocsp = 'no-ocsp' }",
            &["read no-cert", "read no-key", "read no-ocsp"][..],
        ),
        ("{ certificate = 'text', key = 'text' }", &["'text', key", "key = 'text'", "2 errors"]),
        (
            "{ source = 'self-signed', client_certificates = { authority = 'no-ca', crl = 'no-crl' } }",
            &["read no-ca", "read no-crl"],
        ),
    ] {
        let output = load(&[("rudy.toml", &site(tls)), ("text", "no PEM")]).unwrap_err();
        assert!(files.iter().all(|file| output.contains(file)), "{output}");
    }
}

#[test]
fn an_unknown_engine_and_settings_of_another_engine_are_reported() {
    for (text, expected) in [
        (
            "engine = \"treads\"",
            "unknown engine `treads`; expected serial, thread, pool:N, task, mailbox or percore",
        ),
        ("engine = \"pool\"", "`pool` needs a number of threads: `pool:16`"),
        ("engine = \"serial\"\ncores = 2", "`cores` does not apply to the engine `serial`"),
        ("engine = \"thread\"\ncores = 2", "`cores` does not apply to the engine `thread`"),
        ("threads = 100", "`threads` does not apply to the engine `percore`"),
    ] {
        let output = errors(&format!("{text}\n[[site]]\nroot = \"public\"\n"));
        assert!(output.contains(expected), "{text}: {output}");
    }
}

#[test]
fn a_redirect_loop_is_reported() {
    let output = errors(
        r#"[[site]]
route = [
    { path = "/sorry", respond = {} },
    { path = "/a", redirect = { to = "/b" } },
    { path = "/b", redirect = { to = "/c/d?e" } },
    { path = "/c/*", redirect = { to = "/c/d?e" } },
    { path = "/*", redirect = { to = "/sorry" } },
]
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: this redirect loops
 --> rudy.toml:6:40
  |
6 |     { path = "/c/*", redirect = { to = "/c/d?e" } },
  |              ------                    ^^^^^^^^ the target matches this route
  |              |
  |              the paths of the route

1 error in the configuration

"#]]
    );
}

#[test]
fn a_syntax_error_is_reported_alone() {
    snapbox::assert_data_eq!(
        errors("listen = [\"127.0.0.1:80]\n[[site]]\nroot = 1\n\n\n\n[site\n"),
        str![[r#"
error: invalid basic string, expected `"`
 --> rudy.toml:1:25
  |
1 | listen = ["127.0.0.1:80]
  |                         ^

error: missing comma between array elements, expected `,`
 --> rudy.toml:7:1
  |
7 | [site
  | ^

2 errors in the configuration

"#]]
    );
}

#[test]
fn a_missing_file_and_an_empty_file_are_reported() {
    let error = Config::load(std::path::Path::new("/nowhere/rudy.toml")).unwrap_err();
    snapbox::assert_data_eq!(
        error.render(false),
        str![[r"
error: cannot read /nowhere/rudy.toml: No such file or directory (os error 2)

1 error in the configuration

"]]
    );
    snapbox::assert_data_eq!(
        errors(""),
        str![[r#"
error: the configuration has no site
 --> rudy.toml:1:1
  |
1 |
  | ^ expected a [[site]] here or in an included file
  |
  = help: a minimal site has two lines: [[site]] and root = "public"

1 error in the configuration

"#]]
    );
}

#[test]
fn a_binary_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    for (content, says) in
        [(&b"# \n\xff"[..], "line 2 is not UTF-8"), (&vec![b'#'; 4 * 1024 * 1024 + 1], "larger than 4 MiB")]
    {
        std::fs::write(&file, content).unwrap();
        let error = Config::load(&file).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(errors("[[site]]\nroot = ''").contains("the value is empty"));
}

#[test]
fn an_error_in_two_files_shows_both() {
    let output = load(&[
        (
            "rudy.toml",
            "include = 'conf.d/*.toml'\n[[site]]\nhosts = ['a.org']\nroute = [{ path = '/', respond = {} }]\n",
        ),
        (
            "conf.d/a.toml",
            "listen = [':80']\n[[site]]\nhosts = ['a.org']\nroute = [{ path = '/', respond = {} }]\n",
        ),
    ]);
    snapbox::assert_data_eq!(
        output.unwrap_err(),
        str![[r#"
error: unknown key `listen`
 --> conf.d/a.toml:1:1
  |
1 | listen = [':80']
  | ^^^^^^ write this in the main file: an included file can only contain sites

error: duplicate host "a.org"
 --> conf.d/a.toml:3:10
  |
3 | hosts = ['a.org']
  |          ^^^^^^^ the second
  |
 ::: rudy.toml:3:10
  |
3 | hosts = ['a.org']
  |          ------- the first

2 errors in the configuration

"#]]
    );
}

#[test]
fn colour_is_used_only_on_request() {
    let error = Config::load(std::path::Path::new("/nowhere/rudy.toml")).unwrap_err();
    assert!(!error.render(false).contains('\u{1b}'));
    assert!(error.render(true).contains('\u{1b}'));
    assert_eq!(error.to_string(), error.render(false));
}

#[test]
fn every_option_of_a_folder_can_be_set_and_every_invalid_one_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"[[site]]
[[site.route]]
path = "/*"
[site.route.files]
root = "{}"
index = ["a.html"]
browse = true
try_files = ["{{path}}", "{{path}}.html"]
fallback = "app.html"
cache_control = [{{ pattern = "*.css", value = "max-age=60" }}]
serve_hidden = true
serve_source = true
follow_symlinks = true
precompressed = false
compression = {{ level = 9, gzip = 6, size_min = 1, size_max = "1MiB", streams = 3 }}
cache_size = "1MiB"
cache_max_file_size = "1KiB"
open_files = 9
revalidate_after = "5s"
listing_entries = 7
"#,
        folder.path().display()
    );
    let config = load(&[("rudy.toml", &text)]).unwrap();
    let HandlerTable::Files(files) = &config.sites[0].routes[0].handler else { panic!("files") };
    let usual = rudy_files::FilesOptions::default();
    assert_eq!((&*files.options.index[0], files.options.fallback.as_deref()), ("a.html", Some("app.html")));
    assert_eq!((files.options.cache_size, files.options.revalidate_after.as_secs()), (1 << 20, 5));
    assert!(files.options.compression != usual.compression);

    let output = errors(
        r#"[[site]]
root = "missing"

[[site.route]]
path = "/a/*"
files = { browse = true }

[[site.route]]
path = "/b/*"
[site.route.files]
root = "also-missing"
index = ["../secret"]
cache_control = [{ pattern = "[", value = "a" }, { pattern = "*", value = "a\nb" }]
compression = { level = 12 }
"#,
    );
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: cannot open the folder missing: No such file or directory (os error 2)
 --> rudy.toml:2:8
  |
2 | root = "missing"
  |        ^^^^^^^^^

error: the key `root` is missing
 --> rudy.toml:6:9
  |
6 | files = { browse = true }
  |         ^^^^^^^^^^^^^^^^^ needs `root`

error: cannot open the folder also-missing: No such file or directory (os error 2)
  --> rudy.toml:11:8
   |
11 | root = "also-missing"
   |        ^^^^^^^^^^^^^^

error: index: "../secret" is not a path below the root, such as "pages/home.html"
  --> rudy.toml:12:9
   |
12 | index = ["../secret"]
   |         ^^^^^^^^^^^^^

error: invalid pattern
  --> rudy.toml:13:30
   |
13 | cache_control = [{ pattern = "[", value = "a" }, { pattern = "*", value = "a/nb" }]
   |                              ^^^ unclosed character class; missing ']'

error: a field value cannot contain line feeds or control characters
  --> rudy.toml:13:75
   |
13 | cache_control = [{ pattern = "[", value = "a" }, { pattern = "*", value = "a/nb" }]
   |                                                                           ^^^^^^

error: 12 is out of range
  --> rudy.toml:14:25
   |
14 | compression = { level = 12 }
   |                         ^^ expected 1 to 9

7 errors in the configuration

"#]]
    );
}

proptest::proptest! {
    /// No file makes the reader panic, and every error can be rendered.
    #[test]
    fn any_file_gets_diagnostics(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..24),
        noise in ".{0,6}",
    ) {
        let text = pieces.concat() + &noise;
        if let Err(errors) = load(&[("rudy.toml", &text)]) {
            proptest::prop_assert!(errors.contains("error") && !errors.contains('\u{1b}'), "{}", errors);
        }
    }
}

const PIECES: &[&str] = &[
    "[[site]]\n",
    "[[site.route]]\n",
    "[site]\n",
    "[limits]\n",
    "[site.route.files]\n",
    "root = \"/\"\n",
    "root = 1\n",
    "hosts = [\"a\", \"*.b\", \"ü\"]\n",
    "hosts = \"a\"\n",
    "hosts = []\n",
    "path = \"/*\"\n",
    "path = [\"/a\", 1]\n",
    "path = \"{\"\n",
    "redirect = { to = \"{\" }\n",
    "redirect = { to = \"/{rest}\" }\n",
    "status = {}\n",
    "respond = { headers = { \"a.b\" = \"\\u0000\" } }\n",
    "head_timeout = \"0s\"\n",
    "head_fields = -1\n",
    "idle_timeout = 1e9\n",
    "\"\" = 0\n",
    "a.b.c = [[{}]]\n",
    "site.0 = 1\n",
    "listen = [[]]\n",
    "\t\r\n",
    "'''\n",
    "é = \"日本\"\n",
    "x = 9223372036854775808\n",
    "include = \"\\u001b[31m\"\n",
    "limits = 1979-05-27\n",
];

#[test]
fn at_most_a_hundred_errors_are_shown() {
    let keys: Vec<_> = (0..300).map(|number| format!("wrong{number} = 1")).collect();
    let output = errors(&format!("{}\n[[site]]\nroot = '.'\n", keys.join("\n")));
    assert_eq!(output.matches("unknown key").count(), 100);
    assert!(output.contains("`wrong99`") && !output.contains("`wrong100`"));
    assert!(output.ends_with("300 errors in the configuration, the first 100 are shown\n"));
}

#[test]
fn the_error_for_a_value_that_is_no_text_names_the_words_of_its_key() {
    let expected = "expected \"auto\" or \"full\" or \"off\", found";
    for (value, found, label) in [
        ("5", "an integer", ""),
        ("false", "true or false", "did you mean \"off\"?"),
        ("['full']", "a list", ""),
        ("'ful'", "\"ful\"", "did you mean \"full\"?"),
    ] {
        let output = errors(&format!(
            "[[site]]\n[[site.route]]\npath = '/*'\nproxy = {{ upstreams = 'http://a', request_buffering = {value} }}\n"
        ));
        assert!(output.contains(&format!("{expected} {found}\n")) && output.contains(label), "{output}");
    }
}
