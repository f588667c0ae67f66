//! Configurations of nginx with what is made of them. `SNAPSHOTS=overwrite` writes the expected files again.

use std::fs;
use std::path::Path;

use rudy_import::{File, Source, import, nginx};

/// Translates a text, and returns the configuration with the report as comments.
fn translated(name: &str, text: &str) -> String {
    let main = File { name: name.to_owned(), text: text.to_owned() };
    let source = Source::of(&main).unwrap_or(Source::Nginx);
    let import = import(source, &main, &mut |_| Vec::new()).expect("the text is a configuration");
    let report = import.report.to_string();
    let unprotected = if import.report.unprotected { "\nA protection is not translated.\n" } else { "" };
    let lines = report
        .lines()
        .chain(unprotected.lines())
        .map(|line| format!("# {line}").trim_end().to_owned() + "\n");
    format!("{}\n{}", import.toml, lines.collect::<String>())
}

/// The files whose translations are beside them.
const CASES: [&str; 9] = [
    "proxy.conf",
    "order.conf",
    "php.conf",
    "closed.conf",
    "rewrites.conf",
    "caddy.Caddyfile",
    "apache.htaccess",
    "vhosts.apache",
    "frontends.haproxy",
];

#[test]
fn configurations_are_translated_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for source in CASES {
        let name = source.split('.').next().unwrap_or_default();
        let text = fs::read_to_string(folder.join(source)).expect("the case exists");
        let file = |extension: &str| folder.join(format!("{name}.{extension}"));
        let found = translated(source, &text);
        if std::env::var("SNAPSHOTS").is_ok_and(|mode| mode == "overwrite") {
            fs::write(file("toml"), &found).expect("the folder is writable");
        }
        let expected = fs::read_to_string(file("toml")).unwrap_or_default();
        assert!(found == expected, "{source} is translated to\n{found}");
    }
}

#[test]
fn the_output_of_nginx_t_has_all_files() {
    let dump = "# configuration file /etc/nginx/nginx.conf:\nhttp { include sites/*.conf; include mime.types; }\n\
                # configuration file /etc/nginx/sites/a.conf:\nserver { listen 80; location / { return 204; } }\n";
    let text = translated("standard input", dump);
    assert!(text.contains("# /etc/nginx/sites/a.conf:1  location /\n"), "{text}");
    assert!(text.contains("# Not translated: none\n"), "{text}");
}

#[test]
fn errors_have_a_place_and_what_was_expected() {
    for (text, expected) in [
        ("server {\n listen 80;", "a.conf:2: the file ends inside of a block: expected `}`"),
        ("server {\n listen 80\n}", "a.conf:3: unexpected `}`: expected `;` after `listen`"),
        ("a \"b", "a.conf:1: this text has no end: expected \""),
        ("a \"b\"c;", "a.conf:1: `c` follows a text in quotes: expected a space, `;` or `{`"),
        ("}", "a.conf:1: unexpected `}`: expected a directive"),
        ("a b", "a.conf:1: `a` has no end: expected `;`"),
    ] {
        let main = File { name: "a.conf".to_owned(), text: text.to_owned() };
        let error = nginx(&main, &mut |_| Vec::new()).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn files_that_include_each_other_are_an_error() {
    let main = File { name: "a.conf".to_owned(), text: "include a.conf;".to_owned() };
    let error = nginx(&main, &mut |_| vec![main.clone()]).expect_err("it includes itself");
    assert_eq!(error.to_string(), "a.conf:1: files include each other more than 20 times");
}
