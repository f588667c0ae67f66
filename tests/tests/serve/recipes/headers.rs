//! `docs/headers-and-errors.md`.

use crate::recipes::kitchen::{Recipe, check};

const PAGE: &str = include_str!("../../../../docs/headers-and-errors.md");

#[test]
fn every_configuration_with_header_fields_and_error_pages_responds_as_described() {
    check(PAGE, RECIPES);
}

const RECIPES: &[Recipe] = &[
    Recipe(
        "Header fields, error pages, rewrites",
        &[
            (
                "a GET /a.html",
                200,
                &[("x-served-by", "rudy"), ("x-frame-options", "SAMEORIGIN"), ("last-modified", "")],
                "<p>a",
            ),
            ("a GET /none", 404, &[("x-served-by", "rudy")], "404 Not Found"),
            ("a GET /about.html", 301, &[("location", "/about"), ("x-served-by", "rudy")], "301..."),
            (
                "a GET /users/3?b=c\nRemote-User: root\nRemote_User: root\nX-Client: me",
                200,
                &[("x-served-by", "rudy")],
                "GET /users/3?b=c script=none query=id=3&b=c body=0 X_CLIENT=127.0.0.1",
            ),
            ("a GET /app/x?status=500", 500, &[], "<p>5xx page"),
            (
                "a POST /app/x\nContent-Length: 1100000\nExpect: 100-continue",
                413,
                &[],
                "413 Content Too Large",
            ),
        ],
    ),
    Recipe(
        "Response header fields",
        &[
            (
                "a GET /a.html?b",
                200,
                &[
                    ("x-frame-options", "DENY"),
                    ("link", "</style.css>; rel=preload"),
                    ("cache-control", "no-cache"),
                    ("server", ""),
                    ("x-seen", "GET /a.html"),
                ],
                "<p>a",
            ),
            ("a GET /none", 404, &[("x-frame-options", "DENY"), ("x-seen", "GET /none")], "404..."),
            ("a GET /embed/", 200, &[("x-frame-options", ""), ("x-seen", "GET /embed/")], "<p>embedded"),
        ],
    ),
    Recipe(
        "Request header fields",
        &[(
            "a GET /x\nREMOTE_USER: root\nX-Forwarded-Host: other",
            200,
            &[],
            "GET /x script=none query= body=0 X_FORWARDED_HOST=a",
        )],
    ),
    Recipe(
        "Request header fields",
        &[("dav.example.org GET /a", 200, &[], "proxied GET /a for dav.example.org")],
    ),
    Recipe(
        "Error pages",
        &[
            ("a GET /none", 404, &[], "<p>missing page"),
            ("a GET /app/x?status=404", 404, &[("x-path", "app")], "<p>missing page"),
            ("a GET /app/x?status=502", 502, &[], "<p>5xx page"),
            ("a DELETE /a.html", 405, &[("allow", "GET, HEAD, OPTIONS")], "405 Method Not Allowed"),
            (
                "a DELETE /a.html\nAccept: application/json",
                405,
                &[("content-type", "application/problem+json")],
                "{...",
            ),
        ],
    ),
    Recipe(
        "Rewrites",
        &[
            ("a GET /product/12", 200, &[], "GET /product/12 script=shop/shop.php query=id=12 body=0"),
            ("a GET /other?a", 200, &[], "GET /other?a script=shop/shop.php query=a body=0"),
        ],
    ),
    Recipe(
        "Redirects from a file",
        &[("a GET /shop?a", 308, &[("location", "https://shop.example.org/?a")], "308...")],
    ),
    Recipe(
        "Limits",
        &[
            (
                "a POST /upload\nContent-Length: 200000",
                200,
                &[],
                "POST /upload script=none query= body=200000",
            ),
            ("a POST /x\nContent-Length: 200000\nExpect: 100-continue", 413, &[], "413..."),
        ],
    ),
];
