//! A configuration of nginx, and what `rudy import` makes of it: both servers respond to the same requests in the same way.

use rudy_tests::prelude::*;

const NGINX: &str = r#"
upstream app { server ADDRESS_OF_APP; }
map $cookie_color $theme { default gray; red warm; "~^b" cold; }

server {
    listen ADDRESS;
    root ROOT;
    index index.html;
    error_page 404 /404.html;
    client_max_body_size 1k;
    add_header X-Loc none always;

    if ($request_method = DELETE) { return 405; }
    if ($http_x_scanner) { return 403; }
    rewrite ^/moved/(.*)$ /new/$1 permanent;
    rewrite ^/inner/(.*)$ /files/$1 last;

    location = / { add_header X-Loc exact always; }
    location = /exact { add_header X-Loc exact-path always; return 200 "exact"; }
    location / { add_header X-Loc root always; try_files $uri $uri/ =404; }
    location /files/ { add_header X-Loc files always; }
    location /files/deep/ { add_header X-Loc deep always; }
    location ^~ /final/ { add_header X-Loc final always; try_files $uri =404; }
    location /final/inner/ { add_header X-Loc inner always; try_files $uri =404; }
    location ~ \.txt$ { add_header X-Loc regex always; }
    location ~* \.(gif|png)$ { add_header X-Loc picture always; expires 1h; }
    location /pre { add_header X-Loc pre always; return 204; }

    location /app/ { add_header X-Loc app always; proxy_pass http://app; }
    location /strip/ { add_header X-Loc strip always; proxy_pass http://app/; }
    location /base/ { add_header X-Loc base always; proxy_pass http://app/v1/; }
    location = /fixed { add_header X-Loc fixed always; proxy_pass http://app/other?a=b; }
    location /cut/ { add_header X-Loc cut always; rewrite ^/cut/([a-z]+)/(.*)$ /$2/$1 break; proxy_pass http://app; }
    location /spa/ { add_header X-Loc spa always; try_files $uri $uri/ /spa/index.html; }
    location /named/ { add_header X-Loc named-files always; try_files $uri @app; }
    location @app { add_header X-Loc named always; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Theme $theme; proxy_pass http://app; }
    location /alias/ { add_header X-Loc alias always; alias ROOT/files/; }

    location /closed/ { add_header X-Loc closed always; deny all; }
    location /some/ { add_header X-Loc some always; allow 192.0.2.0/24; deny all; }
    location /others/ { add_header X-Loc others always; deny 192.0.2.0/24; try_files $uri /others/b.html =404; }
    location /internal/ { add_header X-Loc internal always; internal; }
    location /methods/ { add_header X-Loc methods always; limit_except GET { deny all; } proxy_pass http://app; }
    location /old { return 301 /new$request_uri; }
    location /away/ { return 302 https://example.org$uri?x=$arg_x; }
    location /gone { return 410; }
    location /nested/ {
        add_header X-Loc nested always;
        location ~ \.html$ { add_header X-Loc nested-html always; try_files $uri =404; }
        location /nested/more/ { add_header X-Loc nested-more always; try_files $uri =404; }
    }
    if (-f ROOT/maintenance) { return 503; }
}
"#;

const FILES: &[(&str, &str)] = &[
    ("index.html", "home"),
    ("404.html", "missing"),
    ("files/index.html", "index of files"),
    ("files/a.html", "a"),
    ("files/a.txt", "a as text"),
    ("files/deep/b.html", "b"),
    ("files/one.gif", "gif"),
    ("final/a.txt", "final text"),
    ("final/inner/a.txt", "inner text"),
    ("final/inner/a.html", "inner page"),
    ("spa/index.html", "spa"),
    ("spa/a.js", "script"),
    ("named/a.html", "named file"),
    ("closed/a.html", "secret"),
    ("some/a.html", "secret"),
    ("internal/a.html", "secret"),
    ("others/b.html", "another b"),
    ("nested/a.html", "nested page"),
    ("nested/a.css", "nested style"),
    ("nested/more/a.html", "more"),
    ("nested/more/a.css", "more style"),
];

const PATHS: &str = "/ /index.html /exact /exact/ /exactly /files /files/ /files/a.html /files/a.txt /files/none.txt /files/deep/b.html \
    /files/one.gif /files/ONE.GIF /final/a.txt /final/inner/a.txt /final/inner/a.html /pre /prefix /pre/a /app /app/ /app/a?b \
    /app/a.txt /app/one.gif /strip /strip/ /strip/a/b?c=d /strip/a.html /base /base/ /base/a?b /fixed /cut/a/b /cut/ab/c/d?e /cut/ \
    /spa/ /spa/a.js /spa/none /spa/none/at/all /named/a.html /named/none /named/none.html?q /alias/a.html /alias/ /alias/none.html \
    /closed/ /closed/a.html /closed/a.txt /some/a.html /others/x /internal/a.html /methods/ /old /old/a?b /older /away/a?x=1 /gone /gone/a \
    /nested/a.html /nested/a.css /nested/more/a.html /nested/more/a.css /moved/a/b /moved/a?b /inner/a.html /inner/deep/b.html /none \
    /none.txt /none.gif /%66iles/a.html /files/../exact //files//a.html";

/// Responds with what the application gets.
fn application() -> Upstream {
    Upstream::serve(|peer, request| {
        let field = |name: &str| request.field(name).unwrap_or("-").to_owned();
        let method = request.head.split(' ').next().unwrap_or_default();
        let text =
            format!("{method} {} ip {} theme {}", request.target(), field("x-real-ip"), field("x-theme"));
        peer.respond(&text);
    })
}

fn written(application: &Upstream, root: &Path, address: SocketAddr) -> String {
    NGINX
        .replace("ADDRESS_OF_APP", &application.address().to_string())
        .replace("ADDRESS", &address.to_string())
        .replace("ROOT", &root.display().to_string())
}

/// Imports the configuration, for another port.
fn import(text: &str, address: SocketAddr) -> String {
    let folder = Folder::with(&[("nginx.conf", text)]);
    let output = Rudy::command(["import", "nginx.conf"]).folder(&folder).output();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_contains!(output.stderr, "Not translated: none");
    output.stdout.replace(&address.to_string(), "127.0.0.1:0")
}

/// What matters of a response. Error pages of the servers are their own, and those of the site have the fields of another location in
/// nginx.
fn outcome(response: &Response, address: SocketAddr) -> (u16, String, String, String) {
    let field = |name: &str| response.field(name).unwrap_or_default().to_owned();
    let location = field("location").replace(&format!("http://a:{}", address.port()), "");
    let is_page = response.status == 404 && response.text() == "missing";
    let body = if response.status == 200 || is_page { response.text().to_owned() } else { String::new() };
    let place = if is_page { String::new() } else { field("x-loc") };
    (response.status, place, location, body)
}

/// Requests for all paths, and with the conditions of the server.
fn requests() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let of_paths = PATHS.split_whitespace().map(|path| ("GET", path, "Cookie: color=blue"));
    of_paths.chain([
        ("DELETE", "/exact", "X: y"),
        ("GET", "/exact", "X-Scanner: a"),
        ("POST", "/app/a", "X: y"),
        ("POST", "/strip/a", "Cookie: color=red"),
        ("POST", "/methods/a", "X: y"),
        ("GET", "/methods/a", "X: y"),
        ("PUT", "/named/none", "Cookie: color=red"),
    ])
}

#[test]
fn an_imported_configuration_responds_as_nginx_does() {
    let folder = Folder::with(FILES);
    let application = application();
    let mut text = String::new();
    let peer = rudy_tests::Peer::nginx_with(|_, address| {
        text = written(&application, folder.path(), address);
        text.clone()
    });
    let Some(nginx) = peer else { return };
    let server = Server::config(&import(&text, nginx.address()));
    let mut differences = Vec::new();
    for (method, path, field) in requests() {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{field}\r\nContent-Length: 0\r\n\r\n");
        let [expected, found] = [nginx.address(), server.address()].map(|address| {
            let mut connection = Connection::open(address);
            connection.send(request.as_bytes());
            outcome(&connection.response(), address)
        });
        if expected != found {
            differences.push(format!("{method} {path} {field}\n  nginx {expected:?}\n  Rudy  {found:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Prefixes and paths of generated locations.
const PREFIXES: [&str; 12] =
    ["/a", "/a/", "/ab", "/a/b", "/a/b/", "/a/b/c", "/b", "/b/", "/b/a/", "/c.x", "/a/c.x", "/b/ab"];

const EXPRESSIONS: [&str; 8] =
    [r"~ \.x$", r"~* \.X$", "~ ^/a/", "~ ^/a/b", "~ b", "~ (a|b)/c", "~* ^/B/", "~ ^/b/a?"];

const REQUESTED: &str = "/ /a /a/ /ab /abc /a/b /a/b/ /a/b/c /a/b/cd /a/c /a/c.x /a/b/c.x /b /b/ /ba /b/a /b/a/ /b/a/c /b/ab /b/ab/c.X /c.x /c.x/a \
    /d /d.x /d/b /A/b /B/c.x /a/b/c/d/e.x";

/// Locations with the number of each as its response: prefixes with some inside of them, exact paths and expressions.
fn generated_locations(random: &mut Random) -> String {
    let mut count = 0;
    let mut respond = |name: &str, inside: &str| {
        count += 1;
        format!("location {name} {{ {inside} return 200 \"{count}\"; }}\n")
    };
    let mut locations = vec![respond("/", "")];
    for prefix in PREFIXES {
        let modifier = if random.below(3) == 0 { "^~ " } else { "" };
        match random.below(6) {
            0 | 1 => locations.push(respond(&format!("{modifier}{prefix}"), "")),
            2 => locations.push(respond(&format!("= {prefix}"), "")),
            3 => {
                let expression = EXPRESSIONS[random.below(EXPRESSIONS.len())];
                let inside = respond(expression, "") + &respond(&format!("{prefix}inner"), "");
                locations.push(respond(&format!("{modifier}{prefix}"), &inside));
            }
            _ => {}
        }
    }
    for expression in EXPRESSIONS {
        if random.below(4) == 0 {
            locations.push(respond(expression, ""));
        }
    }
    let start = random.below(locations.len());
    locations.rotate_left(start);
    locations.concat()
}

#[test]
fn every_path_has_the_location_that_nginx_chooses() {
    const SERVERS: usize = 60;
    let mut random = Random::new(7);
    let mut text = String::new();
    let peer = rudy_tests::Peer::nginx_with(|_, address| {
        let servers = (0..SERVERS).map(|server| {
            let locations = generated_locations(&mut random);
            format!("server {{ listen {address}; server_name s{server}.test;\n{locations}}}\n")
        });
        text = servers.collect();
        text.clone()
    });
    let Some(nginx) = peer else { return };
    let server = Server::config(&import(&text, nginx.address()));
    for host in 0..SERVERS {
        let mut connections = [nginx.address(), server.address()].map(Connection::open);
        let field = format!("Host: s{host}.test");
        for path in REQUESTED.split_whitespace() {
            let [expected, found] = connections.each_mut().map(|connection| {
                let response = connection.get(path, &[&field]);
                (response.status, response.text().to_owned())
            });
            let location = text.split("server_name").nth(host + 1).unwrap_or_default();
            assert_eq!(expected, found, "{path} of{location}");
        }
    }
}
