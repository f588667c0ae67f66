//! `docs/from-nginx.md`.

use crate::recipes::kitchen::check;

const PAGE: &str = include_str!("../../../../docs/from-nginx.md");

#[test]
fn every_configuration_for_nginx_users_responds_as_described() {
    check(PAGE, RECIPES);
}

const RECIPES: &str = r#"
# Rudy for nginx users
example.org GET / => 200 GET / script=www/index.php query= body=0 | x-frame-options: SAMEORIGIN
www.example.org GET /a.html => 200 <p>a | x-frame-options: SAMEORIGIN
example.org GET /old/a/b?c => 301 301... | location: /new/a/b?c | x-frame-options: SAMEORIGIN
example.org GET /private/a.html => 403 <p>403 page | x-frame-options: SAMEORIGIN
example.org GET /index.php/private/x => 403 <p>403 page
example.org GET /page?a=b => 200 GET /page?a=b script=www/index.php query=a=b body=0
example.org POST /page | Content-Length: 30000000 | Expect: 100-continue => 413 413...

# listen
example.org GET /a.html => 200 <p>a
other.org GET /a.html => 421 421...
127.0.0.1:9000 GET /x => 200 proxied GET /x...
example.org:9000 GET /a.html => 200 proxied GET /a.html...

# add_header
a GET /a.html => 200 <p>a | x-frame-options: SAMEORIGIN | x-path:
a GET /none => 404 404... | x-frame-options: SAMEORIGIN
a GET /api/x?y => 200 GET /api/x?y... | x-frame-options: SAMEORIGIN | x-path: /api/x
a GET /embed/ => 200 <p>embedded | x-frame-options: | content-security-policy: frame-ancestors *

# expires
a GET /assets/a.css => 200 css | cache-control: max-age=31536000, immutable
a GET /a.pdf => 200 pdf | cache-control: max-age=3628800
a GET /a.png => 200 png | cache-control: max-age=86400
a GET /none.png => 404 404... | cache-control:
a GET /assets/none.css => 404 404... | cache-control:

# types, charset, autoindex
a GET /notes.md => 200 # notes | content-type: text/markdown; charset=iso-8859-1
a GET /LICENSE => 200 licence | content-type: text/plain; charset=iso-8859-1
a GET /a.html => 200 <p>a | content-type: text/html; charset=iso-8859-1
a GET /a.png => 200 png | content-type: image/png
a GET /download/x/mp3/song.mp3 => 200 mp3 | content-type: application/octet-stream
a GET /pixels/ => 200 <!doctype html>... | content-type: text/html; charset=utf-8

# error_page
a GET /none => 404 <p>404 page | content-type: text/html; charset=utf-8
a GET /api/x?status=500 => 500 GET /api/x?status=500...
a GET /app/x?status=500 => 500 <p>50x page
a GET /app/x?status=404 => 404 <p>404 page
a GET /app/x?status=200 => 200 GET /app/x?status=200...
a GET /shop/ => 200 <p>shop
a GET /shop/none => 404 <p>404 page of the shop

# error_page
a GET /a.html => 200 <p>a
a GET /none?a => 200 GET /none?a...
a GET /none?status=404 => 404 GET /none?status=404...
a GET /pixels/one.gif => 200 one
a GET /pixels/none.gif => 200 empty | content-type: image/gif

# rewrite
a GET /download/x/media/song.wav => 200 mp3 | content-type: audio/mpeg
a GET /download/x/audio/song.wav => 200 ra
a GET /download/x/other/song.wav => 403 403...
a GET /users/ann?x=y => 200 GET /users/ann?x=y script=none query=user=ann body=0
a GET /users/a&admin=1 => 200 GET /users/a&admin=1 script=none query=user=a%26admin=1 body=0
a GET /teams/red?x=y => 200 GET /teams/red?x=y script=none query=team=red&x=y body=0
a GET /teams/red => 200 GET /teams/red script=none query=team=red body=0
a GET /blog/12/title?x => 301 301... | location: /posts/12?x
a GET /blog/title => 403 403...
a GET /shops/red/x?y => 301 301... | location: https://red.example.org/x
a GET /item.php?x=1&id=a%26b => 301 301... | location: /items/a%26b

# return
example.org GET /a?b => 301 301... | location: https://www.example.org/a?b
www.example.org GET /a.html => 200 <p>a
www.example.org GET /healthz => 200 ok\n | content-type: text/plain; charset=utf-8
www.example.org GET /gone => 410 410...
www.example.org GET /login => 302 302... | location: https://login.example.org/?from=www.example.org
other.example GET / => 404 404...

# try_files
a GET / => 200 <p>index
a GET /a => 200 <p>a
a GET /none => 404 404...
a GET /images/one.gif => 200 one | cache-control:
a GET /images/none.gif => 200 default | cache-control: max-age=30
a GET /maintained/a.html => 200 <p>maintained
a GET /maintained/x?y => 200 GET /maintained/x?y...

# try_files
a GET /avatars/default/0 => 200 one
a GET /a.html?x => 200 <p>a
a GET /none?x=y => 200 proxied GET /app?q=/none&x=y...
a POST /none => 200 proxied POST /app?q=/none...

# try_files
a GET /a.html => 200 <p>a
a GET /none%2Fx?y => 200 proxied GET /none%2Fx?y...
a POST /a.html => 200 proxied POST /a.html...

# gzip
a GET /api/large | Accept-Encoding: br, gzip
    => 200 proxied GET /api/large... | content-encoding: gzip | vary: Accept-Encoding
a GET /api/large => 200 proxied GET /api/large... | content-encoding: | vary: Accept-Encoding
a GET /api/small | Accept-Encoding: gzip => 200 proxied GET /api/small... | content-encoding: | vary:
a GET /account/large | Accept-Encoding: gzip => 200 proxied GET /account/large... | content-encoding: | vary:
a GET /static.html | Accept-Encoding: gzip
    => 200 precompressed | content-encoding: gzip | vary: Accept-Encoding

# proxy_cache
a GET /x => 200 proxied GET /x for a | cache-status: Rudy; fwd=uri-miss; fwd-status=200; stored
a GET /x | Cookie: session=1 => 200 proxied GET /x for a | cache-status: Rudy; fwd=bypass; fwd-status=200

# map
a GET /about.html?a => 301 301... | location: /about?a
a GET /shop => 308 308... | location: https://shop.example.org/
a GET /a.html => 200 <p>a

# limit_req, limit_conn, limit_rate
a GET /x => 200 GET /x...
a GET /login => 200 GET /login...
a GET /login => 429 429...
a GET /new/x => 200 GET /new/x...
a GET /new/x => 200 GET /new/x...
a GET /new/x => 200 GET /new/x...
a GET /new/x => 200 GET /new/x...
a GET /download/x/mp3/song.mp3 => 200 mp3

# Front controllers
a GET / => 200 GET / script=wordpress/index.php query= body=0
a GET /2026/11/hello/?a=b => 200 GET /2026/11/hello/?a=b script=wordpress/index.php query=a=b body=0
a GET /wp-login.php => 200 GET /wp-login.php script=wordpress/wp-login.php...
a GET /wp-admin/ => 200 GET /wp-admin/ script=wordpress/wp-admin/index.php...
a GET /wp-admin/none.php => 404 404...
a GET /wp-content/themes/x/style.css => 200 css | content-type: text/css; charset=utf-8
a GET /wp-content/none.css => 404 404...
a POST /comment | Content-Length: 5 => 200 POST /comment script=wordpress/index.php query= body=5

# Front controllers
a GET / => 200 GET / script=laravel/public/index.php query= body=0
a GET /users/3?a=b => 200 GET /users/3?a=b script=laravel/public/index.php query=a=b body=0
a PUT /users/3 | Content-Length: 5 => 200 PUT /users/3 script=laravel/public/index.php query= body=5
a GET /build/app.css => 200 css
a GET /build/none.css => 404 404...
a GET /.env => 200 GET /.env script=laravel/public/index.php...
a GET /other.php => 200 GET /other.php script=laravel/public/index.php...

# allow, deny
a GET /admin/x => 200 GET /admin/x...
a GET /admin/x | Via: 1.1 proxy => 403 403...
a GET /api/x => 200 GET /api/x...
a GET /files/x => 200 GET /files/x...
a PUT /files/x | Content-Length: 1 => 403 403...
a GET /a.html => 200 <p>a

# auth_basic
a GET /a.html => 401 401... | www-authenticate: Basic realm="staff only", charset="UTF-8"
a GET /a.html | Authorization: Basic YW5uOnNlY3JldA== => 200 <p>a
a GET /a.html | Authorization: Basic YW5uOndyb25n => 401 401...
a GET /embed/ => 200 <p>embedded

# auth_request
a GET /app/x | Remote-User: root => 401 login
a GET /app/x | Cookie: ann | Remote_User: root => 200 proxied GET /app/x for a by ann
a GET /a.html => 200 <p>a
"#;
