//! Diagnostics of files and folders that a configuration names.

use snapbox::str;

use super::*;

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

#[test]
fn a_problem_of_a_setting_for_all_sites_is_reported_once_where_it_is_written() {
    let sites = "[[site]]\nhosts = 'a.org'\nroot = '.'\n[[site]]\nhosts = 'b.org'\nroot = '.'\n";
    let output = errors(&format!(
        "listen = ':0,tls'\nhsts = {{ max_age = '1d', preload = true }}\n\
         tls = {{ certificate = 'no-cert', key = 5, client_certificates = {{ authority = 'no-ca' }} }}\n{sites}"
    ));
    snapbox::assert_data_eq!(
        output,
        str![[r#"
error: browsers would not list this site
 --> rudy.toml:2:36
  |
2 | hsts = { max_age = '1d', preload = true }
  |                                    ^^^^ needs `include_subdomains = true` and `max_age = "365d"` or more

error: expected a string, found an integer
 --> rudy.toml:3:40
  |
3 | tls = { certificate = 'no-cert', key = 5, client_certificates = { authority = 'no-ca' } }
  |                                        ^ write "5"

2 errors in the configuration

"#]]
    );
    let own = "tls = { source = 'self-signed' }\n";
    let output = errors(&format!(
        "listen = ':0,tls'\ntls = {{ source = 'self-signed', client_certificates = {{ authority = 'no-ca' }} }}\n\
         {sites}{own}"
    ));
    assert!(
        output.contains("rudy.toml:2:") && output.ends_with("\n1 error in the configuration\n"),
        "{output}"
    );
}
