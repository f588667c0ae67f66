//! Diagnostics of settings.

use snapbox::str;

use super::*;

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

#[test]
fn traces_need_a_collector_that_can_be_reached() {
    let text = |tracing: &str| format!("tracing = {tracing}\n[[site]]\nroot = \"/\"\n");
    for (tracing, expected) in [
        ("\"127.0.0.1:4318\"", "expected a URL with its scheme, as in \"http://127.0.0.1:4318\""),
        ("\"grpc://127.0.0.1:4317\"", "expected a URL with its scheme"),
        ("\"http://\"", "expected a URL with its scheme"),
        ("\"http://user:secret@host\"", "expected a URL with its scheme"),
        ("{ sample = \"1%\" }", "the key `endpoint` is missing"),
        ("{ endpoint = \"http://a\", sample = \"1\" }", "expected a percentage from 0 to 100"),
        ("{ endpoint = \"http://a\", sample = \"101%\" }", "expected a percentage from 0 to 100"),
        ("{ endpoint = \"http://a\", headers = { Host = \"b\" } }", "host cannot be set"),
        ("{ endpoint = \"http://a\", headers = { Connection = \"b\" } }", "connection cannot be set"),
        ("{ endpoint = \"http://a\", queue = \"1k\" }", "expected 64KiB to 1GiB"),
        ("{ endpoint = \"http://a\", timeout = \"0s\" }", "out of range"),
    ] {
        let output = errors(&text(tracing));
        assert!(output.contains(expected), "{tracing}: {output}");
    }
}
