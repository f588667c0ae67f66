//! `docs/headers-and-errors.md`.

use crate::recipes::kitchen::check;

const PAGE: &str = include_str!("../../../../docs/headers-and-errors.md");

#[test]
fn every_configuration_with_header_fields_and_error_pages_responds_as_described() {
    check(PAGE, RECIPES);
}

const RECIPES: &str = r"
# Header fields, error pages, rewrites
a GET /a.html => 200 <p>a | x-served-by: rudy | x-frame-options: SAMEORIGIN | last-modified:
a GET /none => 404 404 Not Found | x-served-by: rudy
a GET /about.html => 301 301... | location: /about | x-served-by: rudy
a GET /users/3?b=c | Remote-User: root | Remote_User: root | X-Client: me
    => 200 GET /users/3?b=c script=none query=id=3&b=c body=0 X_CLIENT=127.0.0.1 | x-served-by: rudy
a GET /app/x?status=500 => 500 <p>5xx page
a POST /app/x | Content-Length: 1100000 | Expect: 100-continue => 413 413 Content Too Large

# Response header fields
a GET /a.html?b
    => 200 <p>a | x-frame-options: DENY | link: </style.css>; rel=preload | cache-control: no-cache | server: | x-seen: GET /a.html
a GET /none => 404 404... | x-frame-options: DENY | x-seen: GET /none
a GET /embed/ => 200 <p>embedded | x-frame-options: | x-seen: GET /embed/

# How long caches keep responses
a GET /assets/a.css => 200 css | cache-control: max-age=31536000, immutable
a GET /a.pdf => 200 pdf | cache-control: max-age=3628800
a GET /a.html => 200 <p>a | cache-control:
a GET /assets/none.css => 404 404... | cache-control:

# Request header fields
a GET /x | REMOTE_USER: root | X-Forwarded-Host: other
    => 200 GET /x script=none query= body=0 X_FORWARDED_HOST=a

# Request header fields
dav.example.org GET /a => 200 proxied GET /a for dav.example.org

# Error pages
a GET /none => 404 <p>missing page
a GET /app/x?status=404 => 404 <p>missing page | x-path: app
a GET /app/x?status=502 => 502 <p>5xx page
a DELETE /a.html => 405 405 Method Not Allowed | allow: GET, HEAD, OPTIONS
a DELETE /a.html | Accept: application/json => 405 {... | content-type: application/problem+json

# Rewrites
a GET /product/12 => 200 GET /product/12 script=shop/shop.php query=id=12 body=0
a GET /other?a => 200 GET /other?a script=shop/shop.php query=a body=0

# Redirects from a file
a GET /shop?a => 308 308... | location: https://shop.example.org/?a

# Limits
a POST /upload | Content-Length: 200000 => 200 POST /upload script=none query= body=200000
a POST /x | Content-Length: 200000 | Expect: 100-continue => 413 413...

# Maps
a GET /theme.css | Cookie: tenant=acme => 200 blue | x-theme: blue
a GET /a.html | Cookie: tenant=bob => 200 <p>a | x-theme: green
a GET /a.html => 200 <p>a | x-theme: gray
";
