//! `docs/from-caddy.md`.

use crate::recipes::kitchen::check;

const PAGE: &str = include_str!("../../../../docs/from-caddy.md");

#[test]
fn every_configuration_for_caddy_users_responds_as_described() {
    check(PAGE, RECIPES);
}

const RECIPES: &str = r"
# Static file server
example.com GET / => 200 <p>index | content-type: text/html; charset=utf-8
example.com GET /assets/ => 200 <!doctype html>...
other.com GET / => 421 421...

# PHP
example.com GET /a.css => 200 css
example.com GET /page?a => 200 GET /page?a script=app/public/index.php query=a body=0

# Reverse proxy
example.com GET /api/x?y => 200 proxied GET /api/x?y for example.com
example.com GET /a.html => 200 <p>a

# bind
example.com GET /a.html => 200 <p>a
127.0.0.1 GET /x => 421 421...
127.0.0.1:9000 GET /x => 200 proxied GET /x...

# encode
example.com GET /large | Accept-Encoding: zstd, gzip, br
    => 200 proxied GET /large for example.com... | content-encoding: gzip | vary: Accept-Encoding
example.com GET /large | Accept-Encoding: br
    => 200 proxied GET /large for example.com... | content-encoding: | vary: Accept-Encoding

# Redirect www
www.example.com GET /a?b => 301 301... | location: https://example.com/a?b
example.com GET /a.html => 200 <p>a
example.com GET /old => 302 302... | location: /new
example.com GET /blog/a?b => 302 302... | location: https://blog.example.com/blog/a?b

# Trailing slashes
example.com GET /add?a => 200 GET /add?a...
example.com GET /remove/ => 302 302... | location: /remove
example.com GET /remove => 200 GET /remove...

# Single-page application
example.com GET /api/x => 200 proxied GET /api/x for example.com
example.com GET / => 200 <p>page of the application | cache-control: no-cache
example.com GET /users/3 => 200 <p>page of the application | cache-control: no-cache
example.com GET /none.js => 404 404...

# Header fields
example.com GET /a.html
    => 200 <p>a | x-content-type-options: nosniff | x-frame-options: DENY | referrer-policy: no-referrer | cache-control: max-age=60 | link: </style.css>; rel=preload | last-modified:
example.com GET /embed/ => 200 <p>embedded | x-frame-options: | referrer-policy: no-referrer
example.com GET /none => 404 404... | x-frame-options: DENY

# handle_errors
example.com GET /none => 404 <p>404 page
example.com DELETE /a.html => 405 405 Method Not Allowed
example.com DELETE /a.html | Accept: application/json => 405 {... | content-type: application/problem+json

# Intercept errors of apps
example.com GET /page?status=500 => 500 <p>broken
example.com GET /page?status=503 => 503 <p>broken
example.com GET /page?status=404 => 404 GET /page?status=404...

# Rewrite
example.com GET /users/ann/x => 200 GET /users/ann/x script=none query=id=ann body=0
example.com GET /p/pen-12?a=b => 200 GET /p/pen-12?a=b script=none query=name=pen&id=12&a=b body=0
example.com GET /p/pen => 404 404...

# handle_path
example.com GET /docs/install => 200 <p>install
example.com GET /docs/none => 404 404...
example.com GET /v1/users?a => 200 proxied GET /api/users?a for example.com
example.com GET /v2/users?a => 200 proxied GET /users?a for example.com

# Respond
example.com GET /healthz => 200 ok
example.com GET /admin/x => 403 403...
example.com GET /robots.txt => 200 User-agent: *\nDisallow: /\n

# Request bodies and timeouts
example.com POST /upload | Content-Length: 1500000 => 200 POST /upload script=none query= body=1500000
example.com POST /x | Content-Length: 1500000 | Expect: 100-continue => 413 413...
example.com POST /x | Content-Length: 5 => 200 POST /x script=none query= body=5

# rate_limit
example.com GET /api/a | X-Api-Key: a => 200 GET /api/a...
example.com GET /api/b | X-Api-Key: a => 200 GET /api/b...
example.com GET /api/c | X-Api-Key: a => 429 429...
example.com GET /api/c | X-Api-Key: b => 200 GET /api/c...
example.com GET /d => 200 GET /d...
example.com GET /e => 200 GET /e...
example.com GET /f => 429 429...

# basic_auth
example.com GET /embed/ => 401 401...
example.com GET /embed/ | Authorization: Basic YW5uOnNlY3JldA== => 200 <p>embedded
example.com GET /a.html => 200 <p>a

# forward_auth
app.example.com GET /x | Remote-User: root => 401 login
app.example.com GET /x | Cookie: ann | Remote_User: root => 200 proxied GET /x for app.example.com by ann

# remote_ip, method and header matchers
example.com GET /a.html => 200 <p>a
// The address of the peer decides, whatever it sends.
example.com GET /a.html | X-Forwarded-For: 203.0.113.1 => 200 <p>a
";
