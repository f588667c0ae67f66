//! Runs the configurations of a page, with its files and an app.

use rudy_tests::prelude::*;

/// The files in `/srv` of all pages.
const FILES: [(&str, &str); 44] = [
    ("www/themes/blue.css", "blue"),
    ("www/index.html", "<p>index"),
    ("www/index.php", "script"),
    ("www/403.html", "<p>403 page"),
    ("www/404.html", "<p>404 page"),
    ("www/50x.html", "<p>50x page"),
    ("www/missing.html", "<p>missing page"),
    ("www/a.html", "<p>a"),
    ("www/a.pdf", "pdf"),
    ("www/notes.md", "# notes"),
    ("www/LICENSE", "licence"),
    ("www/a.png", "png"),
    ("www/old/a.html", "<p>old"),
    ("www/private/a.html", "<p>private"),
    ("www/assets/a.css", "css"),
    ("www/embed/index.html", "<p>embedded"),
    ("www/shop/index.html", "<p>shop"),
    ("www/shop/404.html", "<p>404 page of the shop"),
    ("www/static.html", "<p>static"),
    ("www/static.html.gz", "precompressed"),
    ("www/pixels/one.gif", "one"),
    ("www/pixels/empty.gif", "empty"),
    ("www/images/one.gif", "one"),
    ("www/images/default.gif", "default"),
    ("www/maintained/a.html", "<p>maintained"),
    ("www/download/x/mp3/song.mp3", "mp3"),
    ("www/download/x/mp3/song.ra", "ra"),
    ("errors/5xx.html", "<p>5xx page"),
    ("errors/error.html.j2", "{{ status }} {{ reason }}"),
    // The password is `secret`.
    ("htpasswd", "ann:$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS\n"),
    ("redirects.txt", "# old pages\n/about.html /about\n/shop https://shop.example.org/ 308\n"),
    ("app/public/index.php", "script"),
    ("app/public/a.css", "css"),
    ("app/public/broken.html", "<p>broken"),
    ("wordpress/index.php", "script"),
    ("wordpress/wp-login.php", "script"),
    ("wordpress/wp-config.php", "script"),
    ("wordpress/wp-admin/index.php", "script"),
    ("wordpress/wp-content/themes/x/style.css", "css"),
    ("laravel/public/index.php", "script"),
    ("laravel/public/build/app.css", "css"),
    ("spa/index.html", "<p>page of the application"),
    ("manual/install.html", "<p>install"),
    ("shop/shop.php", "script"),
];

/// The addresses of apps and authorizers in the pages. One upstream is all of them.
const UPSTREAMS: [&str; 5] = [
    "http://127.0.0.1:8000",
    "http://127.0.0.1:3000",
    "http://127.0.0.1:9091",
    "http://app:3000",
    "http://authelia:9091",
];

/// The paths at which authorizers decide.
const AUTHORIZERS: [&str; 2] = ["/verify", "/api/authz/forward-auth"];

/// Runs each configuration of a page, in the order of the page. The recipes have the same headings, and tables of [`Exchange`]s. Their
/// requests are `HOST METHOD TARGET`; those to the port 9000 go to the second listener.
pub(crate) fn check(page: &str, recipes: &str) {
    let blocks = blocks(page);
    let recipes = recipes.split("\n# ").skip(1).filter_map(|recipe| recipe.split_once('\n'));
    let recipes: Vec<_> = recipes.map(|(heading, table)| (heading, Exchange::table(table))).collect();
    let headings: Vec<_> = blocks.iter().map(|(heading, _)| *heading).collect();
    assert_eq!(
        headings,
        recipes.iter().map(|recipe| recipe.0).collect::<Vec<_>>(),
        "every block has a recipe"
    );
    let ((folder, _app), upstream) = (prepare(&FILES), upstream("proxied"));
    let mut faults_of_page = Vec::new();
    for ((heading, text), (_, exchanges)) in blocks.iter().zip(&recipes) {
        let text = installed(text, folder.path());
        let text = UPSTREAMS.into_iter().fold(text, |text, url| text.replace(url, "UPSTREAM"));
        let path = folder.write("rudy.toml", text.replace("UPSTREAM", &upstream.url()));
        let server = Server::build().arg("--config").arg(&path).start();
        assert!(!exchanges.is_empty(), "{heading} has requests");
        let faults = exchanges.iter().filter_map(|exchange| fault(&respond(&server, exchange), exchange));
        faults_of_page.extend(faults.map(|fault| format!("{heading}: {fault}")));
    }
    assert!(faults_of_page.is_empty(), "{}", faults_of_page.join("\n\n"));
}

/// Returns the heading and the text of each block of TOML.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let (mut heading, mut blocks) = ("", Vec::new());
    // Every second part is in a block: its language, and its text.
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 0 {
            let last =
                part.lines().rev().find_map(|line| line.strip_prefix("# ").or(line.strip_prefix("## ")));
            heading = last.unwrap_or(heading);
        } else if let Some(text) = part.strip_prefix("toml\n") {
            blocks.push((heading, text));
        }
    }
    blocks
}

/// Creates files in `/srv`, and sockets at which one app listens.
pub(crate) fn prepare(files: &[(&str, &str)]) -> (Folder, App) {
    let folder = Folder::new();
    folder.join("srv").add(files);
    let app = App::start(|mut peer| {
        while let Some(params) = peer.request() {
            let Some(length) = peer.body() else { return };
            let [method, uri, query, script_of_test] =
                ["REQUEST_METHOD", "REQUEST_URI", "QUERY_STRING", "HTTP_SEND_APP"]
                    .map(|name| variable(&params, name));
            let status = query.strip_prefix("status=").unwrap_or("200");
            let (status, fields) = scripted(Some(script_of_test), uri, status);
            let script =
                String::from_utf8_lossy(params.get("SCRIPT_FILENAME").unwrap_or_default()).into_owned();
            let script = script.rsplit_once("/srv/").map_or("none", |(_, script)| script);
            let seen = ["REMOTE_USER", "X_CLIENT", "X_DEBUG", "X_FORWARDED_HOST"].map(|name| {
                let value = params.get(&format!("HTTP_{name}"));
                value.map_or_else(String::new, |value| format!(" {name}={}", String::from_utf8_lossy(value)))
            });
            let echo =
                echoed(variable(&params, "HTTP_ECHO"), |name| Some(variable(&params, name).to_owned()));
            let text =
                format!("{method} {uri} script={script} query={query} body={length}{}{echo}", seen.concat());
            let head = format!("Status: {status}\r\nX-Path: app\r\n{fields}\r\n");
            peer.respond((head + &text).as_bytes());
        }
    });
    fs::create_dir_all(folder.join("run/php")).expect("a temp folder can be written");
    for name in ["run/app.sock", "run/php/php-fpm.sock"] {
        symlink(app.socket(), folder.join(name)).expect("a temp folder can be written");
    }
    (folder, app)
}

/// Starts an upstream that responds with its name and the request. A request can script the response, with the field `Send-NAME`, and
/// have fields echoed that the upstream has received.
pub(crate) fn upstream(name: &str) -> Upstream {
    let name = name.to_owned();
    Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let line = request.head.lines().next().and_then(|line| line.strip_suffix(" HTTP/1.1"));
            let host = request.field("host").unwrap_or_default();
            if AUTHORIZERS.contains(&request.target()) {
                match request.field("cookie") {
                    Some("ann") => peer.send("HTTP/1.1 204 No Content\r\nRemote-User: ann\r\n\r\n"),
                    _ => peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\n\r\nlogin"),
                }
                continue;
            }
            let user = request.field("remote-user").map_or_else(String::new, |user| format!(" by {user}"));
            let names = request.field("echo").unwrap_or_default();
            let echo = echoed(names, |name| request.field(name).map(str::to_owned));
            let mut text = format!("{name} {} for {host}{user}{echo}", line.unwrap_or_default());
            if request.target().ends_with("/large") {
                text.push_str(&" more".repeat(500));
            }
            let (status, fields) = scripted(request.field(&format!("send-{name}")), request.target(), "200");
            peer.send(format!(
                "HTTP/1.1 {status} OK\r\n{fields}Content-Length: {}\r\n\r\n{text}",
                text.len()
            ));
        }
    })
}

/// Returns the status and the field lines of a script such as `404 ~ X-A: b ~ X-C: d`. One such as `/a 404` is for the target `/a` alone.
fn scripted<'s>(script: Option<&'s str>, target: &str, status: &'s str) -> (&'s str, String) {
    let script = match script.unwrap_or_default() {
        "" => status,
        script if script.starts_with('/') => script
            .split_once(' ')
            .and_then(|(only, script)| (only == target).then_some(script))
            .unwrap_or(status),
        script => script,
    };
    let mut parts = script.split(" ~ ");
    let status = parts.next().unwrap_or(status);
    let mut fields: String = parts.flat_map(|field| [field, "\r\n"]).collect();
    if !fields.contains("Content-Type") {
        fields.push_str("Content-Type: text/plain\r\n");
    }
    (status, fields)
}

fn echoed(names: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let names = names.split(' ').filter(|name| !name.is_empty());
    names
        .flat_map(|name| [" ".to_owned(), name.to_owned(), "=".to_owned(), value(name).unwrap_or_default()])
        .collect()
}

/// Moves a configuration from `/` to a folder, and to a free port.
fn installed(text: &str, folder: &Path) -> String {
    let text = text
        .replace("listen = \":80\"\n", "")
        .replace("listen = \"127.0.0.1:9000\"", "listen = \"127.0.0.2:0\"")
        // Elsewhere, the default address is written out.
        .replace(
            "php = \"/srv/www\"",
            "php = { root = \"/srv/www\", address = \"unix:/run/php/php-fpm.sock\" }",
        );
    let folder = folder.display();
    let text = text.replace("/srv/", &format!("{folder}/srv/")).replace("/run/", &format!("{folder}/run/"));
    format!("listen = \"127.0.0.1:0\"\n{text}")
}

/// Returns what is wrong with a response.
pub(crate) fn fault(response: &Response, exchange: &Exchange) -> Option<String> {
    let field = |name| response.fields(name).collect::<Vec<_>>().join(", ");
    let wrong = exchange.fields.iter().find(|(name, value)| field(name) != *value);
    let text = decoded(response);
    let is_expected = response.status == exchange.status && wrong.is_none() && exchange.has_body(&text);
    (!is_expected).then(|| format!("{}\nexpected {wrong:?}, got\n{}\n{text}", exchange.line, response.head))
}

/// Returns the body, decoded from gzip if it is compressed.
fn decoded(response: &Response) -> String {
    let mut text = String::new();
    match flate2::read::GzDecoder::new(&*response.body).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => response.text().to_owned(),
    }
}

fn respond(server: &Server, exchange: &Exchange) -> Response {
    let (host, request) = request(exchange);
    let mut connection = Connection::open(server.address_of(usize::from(host.ends_with(":9000"))));
    connection.send(&request);
    connection.response()
}

/// Returns the host and the bytes of a request.
pub(crate) fn request(exchange: &Exchange) -> (&str, Vec<u8>) {
    let parts: Vec<_> = exchange.request.split(' ').collect();
    let [host, method, target] = parts[..] else { panic!("{}: no host, method and target", exchange.line) };
    let fields: String = exchange.request_fields.iter().flat_map(|line| [line, "\r\n"]).collect();
    let length = fields.strip_prefix("Content-Length: ").filter(|_| !fields.contains("Expect"));
    let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
    let name = host.strip_prefix("https://").unwrap_or(host);
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {name}\r\n{fields}\r\n").into_bytes();
    request.extend(vec![b'x'; length.unwrap_or(0)]);
    (host, request)
}
