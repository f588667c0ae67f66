//! Diagnostics of the files of a configuration, whatever they contain.

use snapbox::str;

use super::*;

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
  | ^ expected a [[site]] or [[tcp]] here or in an included file
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
