//! Maps: texts by a part of the request, in redirects, rewrites and header fields.

use rudy_tests::prelude::*;

const CONFIG: &str = r#"
listen = "127.0.0.1:0"
[maps.tenant]
from = "{cookie.tenant}"
values = { acme = "blue", "a*" = "red", "ab*" = "green" }
default = "none"
[maps.lang]
from = "{query.l}-{header.X-Lang}"
values = { "de-" = "deutsch", "*-de" = "deutsch auch" }
[maps.moved]
from = "{path}"
values = { "/old" = "/new", "/far" = "https://other.example/x?y=1" }
default = "/"
[maps.site]
from = "{host}"
values = { "a.example" = "A" }
[[site]]
response_headers = { X-Tenant = "{map.tenant}", X-Lang = "{map.lang}", X-Site = "{map.site}", X-Cookie = "{cookie.tenant}" }
[[site.route]]
path = ["/old", "/far", "/none"]
redirect = "{map.moved}"
[[site.route]]
path = "/file"
rewrite = "/files/{map.tenant}.txt?t={map.tenant}"
[[site.route]]
path = "/files/*"
files = "files"
[[site.route]]
path = "/*"
respond = { body = "page" }
"#;

#[test]
fn the_text_of_a_map_is_in_fields_and_targets() {
    let files = [("rudy.toml", CONFIG), ("files/blue.txt", "of acme"), ("files/none.txt", "of others")];
    let server = Server::build().config_of(Folder::with(&files)).start();
    let get =
        |target: &str, fields: &[&str]| server.get_with(target, &[&["Host: A.example:80"], fields].concat());
    for (target, fields, name, expected) in [
        ("/", &["Cookie: tenant=acme"][..], "x-tenant", Some("blue")),
        ("/", &["Cookie: tenant=abc"], "x-tenant", Some("green")),
        ("/", &["Cookie: tenant=axe; tenant=acme"], "x-tenant", Some("red")),
        ("/", &["Cookie: tenant=Acme"], "x-tenant", Some("none")),
        ("/", &[], "x-tenant", Some("none")),
        ("/", &["Cookie: tenant=x"], "x-cookie", Some("x")),
        ("/?l=d%65", &[], "x-lang", Some("deutsch")),
        ("/?l=x", &["X-Lang: de"], "x-lang", Some("deutsch auch")),
        ("/?l=x", &[], "x-lang", Some("")),
        ("/", &[], "x-site", Some("A")),
        ("/old", &[], "location", Some("/new")),
        ("/far?z", &[], "location", Some("https://other.example/x?y=1")),
        ("/none", &[], "location", Some("/")),
    ] {
        assert_eq!(get(target, fields).field(name), expected, "{target} {fields:?} {name}");
    }
    assert_eq!(get("/file", &["Cookie: tenant=acme"]).text(), "of acme");
    assert_eq!(get("/file", &["Cookie: tenant=../../rudy.toml"]).text(), "of others");
}

#[test]
fn mistakes_in_maps_are_reported() {
    for (config, expected) in [
        ("[[site]]\nroot = '.'\nresponse_headers = { X = '{map.none}' }", "there is no map `none`"),
        ("[maps.a]\nfrom = 'x'\nvalues = {}\n[[site]]\nroot = '.'", "this is no part of a request"),
        ("[maps.a]\nfrom = '{map.b}'\nvalues = {}\n[[site]]\nroot = '.'", "this is no part of a request"),
        ("[maps.'a b']\nfrom = '{host}'\nvalues = {}\n[[site]]\nroot = '.'", "is not the name of a map"),
        ("[maps.a]\nfrom = '{host}'\nvalues = { x = \"a\\nb\" }\n[[site]]\nroot = '.'", "control characters"),
        (
            "[[site]]\n[[site.route]]\npath = '/*'\nredirect = '/{cookie.a}'",
            "this placeholder is for header fields",
        ),
    ] {
        let (_, error) = Rudy::check(config).error();
        assert!(error.contains(expected), "{config}: {error}");
    }
}
