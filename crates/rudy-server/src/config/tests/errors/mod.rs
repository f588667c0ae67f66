//! Diagnostics of invalid configurations.

mod named_files;
mod settings;
mod texts;

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
  = help: the keys of this table are `listen`, `engine`, `cores`, `threads`, `keep_alive`, `http2`, `http3`, `http3_congestion`, `buffer_memory`, `buffer_total`, `buffer_dir`, `password_threads`, `trusted_proxies`, `client_address`, `trust_forwarded_host`, `include`, `limits`, `access_log`, `error_log`, `metrics`, `request_id`, `tracing`, `shutdown_timeout`, `upgrade_timeout`, `user`, `sandbox`, `admin_socket`, `ticket_keys`, `acme`, `cache`, `maps`, `tls`, `redirect_to_https`, `hsts`, `response_headers`, `cache_control`, `request_headers`, `security_headers`, `error_pages`, `intercept_errors`, `maintenance`, `allow`, `deny`, `access`, `cors`, `basic_auth`, `forward_auth`, `authorize`, `rate_limit`, `concurrent_requests`, `bandwidth`, `body_bytes`, `request_timeout`, `compression`, `media_types`, `charset`, `site`, `tcp`

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
   | ^^^^^^^^^^^^^^ expected `files`, `redirect`, `rewrite`, `respond`, `status`, `metrics`, `dashboard`, `stream`, `broadcast`, `tail`, `delay`, `info`, `fastcgi`, `uwsgi`, `scgi`, `proxy`, `mirror` or `php`

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
