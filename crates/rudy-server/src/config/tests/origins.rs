//! Tests of where settings come from.

use std::path::Path;

use snapbox::str;

use super::*;

const MAIN: &str = r#"
include = "conf.d/*.toml"
response_headers = { X-All = "all" }
deny = "192.0.2.0/24"
rate_limit = "10/s"
compression = true

[[site]]
hosts = "a.org"
root = "."
include = "snippets/shared.toml"
response_headers = { X-Own = "own" }

[[site.route]]
path = "/health"
access = false
rate_limit = false
cache = true
proxy = "http://127.0.0.1:1"

[[site]]
hosts = "b.org"
include = "snippets/shared.toml"
route = [{ path = "/*", respond = 200, allow = "anyone", security_headers = false }]
"#;

const FILES: [(&str, &str); 3] = [
    ("rudy.toml", MAIN),
    (
        "conf.d/c.toml",
        "[[site]]\nhosts = 'c.org'\nroot = '.'\naccess = false\ncompression = false\nrate_limit = '1/s'\n",
    ),
    ("snippets/shared.toml", "security_headers = true\ndeny = '198.51.100.0/24'\ncharset = 'utf-8'\n"),
];

/// Shows a configuration as `rudy check` does, without what depends on the machine.
fn described(files: &[(&str, &str)]) -> String {
    let config = load(files).unwrap();
    let sections = config.settings_for_all().into_iter().chain([config.included_settings()]);
    let rows: Vec<_> =
        sections.map(|rows| rows.iter().map(|row| row.join("  ") + "\n").collect::<String>()).collect();
    without_folder(&config, &rows.join("--\n"))
}

fn without_folder(config: &Config, text: &str) -> String {
    let main = config.sources.paths().next().and_then(Path::parent).unwrap().display().to_string();
    text.replace(&format!("{main}/"), "")
}

#[test]
fn check_counts_the_sites_with_a_setting_for_all_and_names_those_that_switch_it_off() {
    snapbox::assert_data_eq!(
        described(&FILES),
        str![[r"
response_headers  rudy.toml:3  all 3 sites (extended in 1 site)
deny  rudy.toml:4  2 of 3 sites (extended in 2 sites, off in 1 site, off in 1 route)
rate_limit  rudy.toml:5  all 3 sites (extended in 1 site, off in 1 route)
compression  rudy.toml:6  2 of 3 sites (off in 1 site)
--
deny  rudy.toml:16  a.org/health
deny  conf.d/c.toml:4  c.org
rate_limit  rudy.toml:17  a.org/health
compression  conf.d/c.toml:5  c.org
--
snippets/shared.toml:3  charset  a.org and 1 other
snippets/shared.toml:2  deny  a.org and 1 other
snippets/shared.toml:1  security_headers  a.org and 1 other

"]]
    );
}

#[test]
fn a_configuration_without_settings_for_all_sites_and_included_files_has_no_origins() {
    assert_eq!(
        described(&[("rudy.toml", "[[site]]\nroot = '.'\ncompression = false\ncharset = false\n")]),
        "--\n--\n"
    );
}

#[test]
fn many_sites_that_switch_off_a_setting_have_a_few_rows() {
    let site = |number| {
        format!(
            "[[site]]\nhosts = 's{number}.org'\nroot = '.'\nrate_limit = false\ninclude = 'shared.toml'\n"
        )
    };
    let text =
        "rate_limit = '1/s'\nmaintenance = 'off'\n".to_owned() + &(0..1200).map(site).collect::<String>();
    let text = described(&[("rudy.toml", &text), ("shared.toml", "maintenance = false\n")]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 17, "{text}");
    for line in [
        "rate_limit  rudy.toml:1  no site (off in 1,200 sites)",
        "maintenance  shared.toml:1  s0.org and 1,199 others",
        "and 1,190 others",
        "shared.toml:1  maintenance  s0.org and 1,199 others",
    ] {
        assert!(lines.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn the_settings_of_a_route_have_the_places_of_its_site_and_of_all_sites() {
    let config = load(&FILES).unwrap();
    let of_route = |site: usize, route: usize| {
        let site = &config.sites[site];
        let rows = config.origins(site, &site.routes[route]);
        rows.iter().map(|row| row.join("  ") + "\n").collect::<String>()
    };
    let all = [of_route(0, 0), of_route(0, 1), of_route(1, 0), of_route(2, 0)].join("--\n");
    snapbox::assert_data_eq!(
        without_folder(&config, &all),
        str![[r"
response_headers  rudy.toml:3 and rudy.toml:12
security_headers  snippets/shared.toml:1
deny, access  false at rudy.toml:16, instead of rudy.toml:4 and snippets/shared.toml:2
rate_limit  false at rudy.toml:17, instead of rudy.toml:5
compression  rudy.toml:6
charset  snippets/shared.toml:3
cache  rudy.toml:18
--
response_headers  rudy.toml:3 and rudy.toml:12
security_headers  snippets/shared.toml:1
deny  rudy.toml:4 and snippets/shared.toml:2
rate_limit  rudy.toml:5
compression  rudy.toml:6
charset  snippets/shared.toml:3
--
response_headers  rudy.toml:3
security_headers  false at rudy.toml:24, instead of snippets/shared.toml:1
allow, deny  rudy.toml:4 and rudy.toml:24, instead of snippets/shared.toml:2
rate_limit  rudy.toml:5
compression  rudy.toml:6
charset  snippets/shared.toml:3
--
response_headers  rudy.toml:3
deny, access  false at conf.d/c.toml:4, instead of rudy.toml:4
rate_limit  rudy.toml:5 and conf.d/c.toml:6
compression  false at conf.d/c.toml:5, instead of rudy.toml:6

"]]
    );
}

/// The table in the documentation has each key in one row: those of which both are in effect come first.
#[test]
fn the_documentation_says_how_settings_combine() {
    let text = include_str!("../../../../../docs/configuration.md");
    let section = text.split_once("\n## Settings for all sites\n").unwrap().1.split("\n## ").next().unwrap();
    let row_of = |key: &str| {
        let mut rows = section.lines().filter(|line| line.starts_with("| `"));
        rows.find(|row| row.split(" | ").next().is_some_and(|keys| keys.contains(&format!("`{key}`"))))
            .unwrap_or_default()
    };
    for (key, is_both) in crate::config::origins::combined_keys() {
        let row = row_of(key);
        assert_eq!(row.contains("| both"), is_both, "{key}: {row}");
        assert!(!row.is_empty(), "{key}");
    }
}
