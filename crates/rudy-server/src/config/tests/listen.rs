//! Addresses of sites.

use snapbox::str;

use super::*;

/// A site with these keys that responds to all paths.
fn site(keys: &str) -> String {
    format!("[[site]]\n{keys}\nroute = [{{ path = '/*', respond = 'hello' }}]\n")
}

/// The addresses of a configuration whose sites have these keys.
fn addresses(main: &str, sites: &[&str]) -> Result<Vec<String>, String> {
    let sites: String = sites.iter().map(|keys| site(keys)).collect();
    let config = load(&[("rudy.toml", &format!("{main}\n{sites}"))])?;
    Ok(config.addresses().iter().map(ToString::to_string).collect())
}

#[test]
fn addresses_of_sites_are_opened_once_and_the_default_only_if_a_site_needs_it() {
    let auto = "hosts = 'auto.org'\ntls = 'auto'";
    for (main, sites, expected) in [
        ("", &["", "listen = '127.0.0.1:9000'"][..], &["127.0.0.1:8080", "127.0.0.1:9000"][..]),
        ("", &["listen = 80"], &["*:80"]),
        ("listen = ':80'", &["listen = 9000"], &["*:80", "*:9000"]),
        (
            "listen = ':80'",
            &["hosts = 'a'\nlisten = [80, '*:9000', ':9000']", "hosts = 'b'\nlisten = 9000"],
            &["*:80", "*:9000"],
        ),
        ("", &[auto, "listen = 9000"], &["*:80", "*:443,tls", "*:9000"]),
        ("", &["hosts = 'auto.org'\ntls = 'auto'\nlisten = ':8443,tls'"], &["*:8443,tls"]),
        (
            "",
            &["", "hosts = 'auto.org'\ntls = 'auto'\nlisten = ':443,tls'"],
            &["127.0.0.1:8080", "*:443,tls"],
        ),
    ] {
        assert_eq!(addresses(main, sites).unwrap(), expected, "{main} {sites:?}");
    }
}

#[test]
fn a_unix_socket_of_a_site_is_relative_to_its_file() {
    let files =
        [("rudy.toml", "include = 'sites/*.toml'"), ("sites/a.toml", &site("listen = 'unix:a.sock'"))];
    let address = load(&files).unwrap().addresses()[0].to_string();
    assert!(address.ends_with("/sites/a.sock"), "{address}");
}

#[test]
fn sites_at_different_addresses_may_have_the_same_hosts() {
    for sites in [["", "listen = 9000"], ["hosts = 'a'", "hosts = 'a'\nlisten = 9000"]] {
        addresses("", &sites).unwrap();
    }
    let shared = [
        "hosts = 'a'\nlisten = [9000, 9001]",
        "hosts = 'a'\nlisten = [9000, 9001]",
        "listen = 9000",
        "listen = 9000",
    ];
    let error = addresses("", &shared).unwrap_err();
    assert_eq!(error.matches("error: duplicate host \"a\"").count(), 1, "{error}");
    assert_eq!(error.matches("error: two sites have no `hosts`").count(), 1, "{error}");
}

#[test]
fn addresses_with_connections_in_common_are_reported() {
    let text = [
        "listen = [\":80\", \"127.0.0.1:443,tls\"]".to_owned(),
        site("hosts = \"a\"\nlisten = \"127.0.0.1:80\""),
        site("hosts = \"b\"\ntls = \"internal\"\nlisten = [\"127.0.0.1:443\", \"127.0.0.1:443,tls\"]"),
    ];
    snapbox::assert_data_eq!(
        errors(&text.join("\n")),
        str![[r#"
error: `127.0.0.1:80` and `*:80` cannot both be listeners
 --> rudy.toml:4:10
  |
1 | listen = [":80", "127.0.0.1:443,tls"]
  |           ----- the other one
...
4 | listen = "127.0.0.1:80"
  |          ^^^^^^^^^^^^^^ accepts connections of the other one
  |
  = help: use one of them everywhere, with the same options, or another port

error: `127.0.0.1:443` and `127.0.0.1:443,tls` cannot both be listeners
  --> rudy.toml:10:11
   |
 1 | listen = [":80", "127.0.0.1:443,tls"]
   |                  ------------------- the other one
...
10 | listen = ["127.0.0.1:443", "127.0.0.1:443,tls"]
   |           ^^^^^^^^^^^^^^^ accepts connections of the other one
   |
   = help: use one of them everywhere, with the same options, or another port

2 errors in the configuration

"#]]
    );
}

#[test]
fn tls_is_checked_at_the_addresses_of_a_site() {
    let text = [
        "listen = [\":80\", \":443,tls\"]".to_owned(),
        site("hosts = \"a\""),
        site("hosts = \"b\"\ntls = \"internal\"\nlisten = \":9000\""),
    ];
    snapbox::assert_data_eq!(
        errors(&text.join("\n")),
        str![[r#"
error: no site has TLS
 --> rudy.toml:1:18
  |
1 | listen = [":80", ":443,tls"]
  |                  ^^^^^^^^^^ expects HTTPS
  |
  = help: add `tls = "self-signed"`, or `tls` with `certificate` and `key`, to a [[site]]

error: no address accepts HTTPS
 --> rudy.toml:8:1
  |
8 | tls = "internal"
  | ^^^ a site with TLS
  |
  = help: append `,tls` to an address: `listen = [":443,tls", ":80"]`

2 errors in the configuration

"#]]
    );
}

#[test]
fn an_invalid_address_of_a_site_causes_no_other_error() {
    let text = [site(""), site("listen = 'localhost:9000'")].concat();
    snapbox::assert_data_eq!(
        errors(&text),
        str![[r#"
error: "localhost:9000" is not an address to listen on
 --> rudy.toml:5:10
  |
5 | listen = 'localhost:9000'
  |          ^^^^^^^^^^^^^^^^ host names are not supported; write `127.0.0.1:9000` or `[::1]:9000`

1 error in the configuration

"#]]
    );
}

#[test]
fn the_description_has_the_addresses_of_each_site() {
    let text = ["listen = 80".to_owned(), site("hosts = 'a'\nlisten = [80, 9000]"), site("listen = 9000")];
    let text = load(&[("rudy.toml", &text.join("\n"))]).unwrap().describe();
    let beginning = text.split("Running").next().unwrap_or_default();
    snapbox::assert_data_eq!(
        beginning,
        str![[r"
Listens on
  *:80    HTTP/1.1
  *:9000  HTTP/1.1

Site a on *:80, *:9000
  1  /*  respond  200 with 5 bytes of text

Default site on *:9000
  1  /*  respond  200 with 5 bytes of text


"]]
    );
    let text = ["listen = 80".to_owned(), site("listen = 9000")];
    let text = load(&[("rudy.toml", &text.join("\n"))]).unwrap().describe();
    assert!(text.contains("  *:80    HTTP/1.1  serves no site\n  *:9000  HTTP/1.1\n"), "{text}");
}
