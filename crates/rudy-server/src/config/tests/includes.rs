//! Tests of files that are included into sites and routes.

use super::*;

const MAIN: &str = "[[site]]\nhosts = 'a.org'\ninclude = 'snippets/site.toml'\n\
    [[site.route]]\npath = '/own'\nrespond = 200\ninclude = ['snippets/fields.toml']\n";

const SITE: &str = "security_headers = true\nerror_pages = 'pages'\n[[route]]\npath = '/*'\nfiles = 'www'\n";

#[test]
fn the_keys_of_a_file_become_those_of_the_table_with_paths_relative_to_the_file() {
    let config = load(&[
        ("rudy.toml", MAIN),
        ("snippets/site.toml", SITE),
        ("snippets/fields.toml", "response_headers = { X-A = 'a' }"),
        ("snippets/pages/404.html", "page"),
        ("snippets/www/a", ""),
    ])
    .unwrap();
    let site = &config.sites[0];
    assert_eq!(site.steps.security_headers, Some(true));
    let paths: Vec<_> = site.routes.iter().map(|route| route.paths[0].to_string()).collect();
    assert_eq!(paths, ["/own", "/*"], "lists of tables are joined, those of the table first");
    assert!(!site.routes[0].steps.response_headers.is_empty());
    assert!(site.routes[1].handler.describe().ends_with("snippets/www"));
}

#[test]
fn an_included_file_may_include_others_but_not_itself() {
    let site = |snippet: &str| {
        load(&[
            ("rudy.toml", "[[site]]\nroot = 'snippets'\ninclude = 'snippets/a.toml'"),
            ("snippets/a.toml", snippet),
            ("snippets/b.toml", "charset = 'latin1'"),
        ])
    };
    assert!(site("include = 'b.toml'").unwrap().sites[0].steps.charset.is_some());
    let both = load(&[
        ("rudy.toml", "[[site]]\nroot = 'snippets'\ninclude = ['snippets/a.toml', 'snippets/c.toml']"),
        ("snippets/a.toml", "include = 'b.toml'"),
        ("snippets/b.toml", "charset = 'latin1'"),
        ("snippets/c.toml", "security_headers = true"),
    ]);
    assert_eq!(
        both.unwrap().sites[0].steps.security_headers,
        Some(true),
        "the second starts from the main file"
    );
    let error = site("include = 'a.toml'").unwrap_err();
    assert!(
        error.contains("cannot include \"a.toml\"") && error.contains("the file includes itself"),
        "{error}"
    );
    assert!(error.contains("--> snippets/a.toml:1:11"), "{error}");
}

#[test]
fn mistakes_are_shown_in_the_file_that_has_them() {
    let site = |snippet: &str| {
        let main = "[[site]]\nroot = 'snippets'\ncharset = 'utf-8'\ninclude = 'snippets/a.toml'";
        load(&[("rudy.toml", main), ("snippets/a.toml", snippet)]).unwrap_err()
    };
    for (snippet, title, places) in [
        ("charset = 'latin1'", "duplicate key `charset`", &["snippets/a.toml:1:1", "rudy.toml:3:11"][..]),
        ("\ncolour = 1", "unknown key `colour`", &["snippets/a.toml:2:1"]),
        ("\n\nbody_bytes = 'x'", "\"x\" is not a size", &["snippets/a.toml:3:14"]),
        ("[[route]]\npath = '/'\nfiles = 'missing'", "cannot open the folder", &["snippets/a.toml:3:9"]),
        ("a = ", "", &["snippets/a.toml:1:"]),
    ] {
        let error = site(snippet);
        assert!(error.contains(title) && places.iter().all(|place| error.contains(place)), "{error}");
    }
    let error = load(&[("rudy.toml", "[[site]]\nroot = '.'\ninclude = 'missing.toml'")]).unwrap_err();
    assert!(error.contains("cannot include \"missing.toml\"") && error.contains("rudy.toml:3:11"), "{error}");
}
