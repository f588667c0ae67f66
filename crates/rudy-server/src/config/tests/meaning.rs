//! The results of valid configurations.

use snapbox::str;

use super::*;

#[test]
fn included_files_add_sites_with_paths_relative_to_themselves() {
    let config = load(&[
        (
            "rudy.toml",
            "listen = ['unix:rudy.sock']\ninclude = 'conf.d/*.toml'\naccess_log = { path = 'log' }",
        ),
        (
            "conf.d/b.toml",
            "[[site]]\nhosts = ['b.org']\nroute = [{ path = '/', respond = { body_file = 'b.txt' } }]",
        ),
        ("conf.d/b.txt", "b"),
    ])
    .unwrap();
    let [Site { hosts, routes, .. }] = config.sites.as_slice() else { panic!("one site") };
    assert_eq!(hosts, &["b.org".parse().unwrap()]);
    let HandlerTable::Respond(respond) = &routes[0].handler else { panic!("respond") };
    assert!(respond.body_file.as_ref().unwrap().ends_with("conf.d/b.txt"));
    assert!(matches!(&config.listen[0].endpoint, Endpoint::Unix { path, .. } if path.is_absolute()));
    assert_eq!(config.ignored.len(), 1, "{:?}", config.ignored);
}

#[test]
fn every_limit_can_be_set() {
    let limits = LimitsTable::written(&rudy_service::Limits::default());
    let line =
        |(key, value): (&str, Option<String>)| format!("{key} = {}\n", value.as_deref().unwrap_or("7"));
    let table: String = limits.into_iter().map(line).collect();
    let config = load(&[(
        "rudy.toml",
        &format!("[limits]\n{table}[[site]]\nroute = [{{ path = '/', respond = {{}} }}]"),
    )]);
    let limits = config.unwrap().limits;
    assert_eq!((limits.connections, limits.connections_per_address), (Some(7), Some(7)));
    assert_eq!(limits.http.requests_per_connection, Some(7));
    assert_eq!(limits.http.head_timeout, rudy_http::Limits::default().head_timeout);
}

#[test]
fn the_buffer_folder_is_relative_to_the_main_file_and_limits_have_defaults() {
    let site = "[[site]]\nroute = [{ path = '/', respond = {} }]";
    let keys = "buffer_memory = '1MiB'\nbuffer_total = 0\nbuffer_dir = '.'\n";
    let set = load(&[("rudy.toml", &format!("{keys}{site}"))]).unwrap().buffer;
    assert_eq!((set.memory, set.total), (1 << 20, Some(0)));
    assert!(set.dir.unwrap().is_absolute());
    assert_eq!(load(&[("rudy.toml", site)]).unwrap().buffer, BufferOptions::default());
}

#[test]
fn the_effective_configuration_is_described_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("conf.d")).unwrap();
    std::fs::write(folder.path().join("conf.d/README"), "").unwrap();
    std::fs::write(
        &file,
        r#"listen = ["127.0.0.1:8080", ":80"]
include = "conf.d/*.toml"
access_log = { path = "-", format = "json" }
limits = { head_timeout = "5s", connections = 1000 }

[[site]]
hosts = ["example.org", "*.example.org"]

[[site.route]]
path = ["/old/*", "*.php"]
redirect = { to = "https://{host}/" }

[[site.route]]
path = "/ping"
respond = { body = "pong\n" }

[[site.route]]
path = "/test/*"
stream = { format = "sse", interval = "500ms", count = 10 }

[[site]]

[[site.route]]
path = "/status"
status = { allow = "anyone" }

[[site.route]]
path = "/info"
info = { allow = "loopback" }

[[site.route]]
path = "/ticks"
stream = {}

[[site.route]]
path = "/wait"
delay = { time = "2s", status = 503 }

[[site.route]]
path = "/*"
respond = { status = 404 }
"#,
    )
    .unwrap();
    let text = Config::load(&file).unwrap().describe().replace(&format!("{}/", folder.path().display()), "");
    snapbox::assert_data_eq!(
        text,
        str![[r#"
Listens on
  127.0.0.1:8080  HTTP/1.1
  *:80            HTTP/1.1

Site example.org, *.example.org
  1  /old/* *.php  redirect  307 to https://{host}/
  2  /ping         respond   200 with 5 bytes of text
  3  /test/*       stream    10 Server-Sent Events, 500ms apart

Default site
  1  /status  status   for anyone
  2  /info    info     for this machine only
  3  /ticks   stream   lines of text, 1s apart, forever
  4  /wait    delay    503 after 2s
  5  /*       respond  404

Limits that differ from their defaults
  head_timeout  5s    (default 10s)
  connections   1000  (default none)

Running
  engine            percore
  threads           one per core
  keep-alive        on
  access log        JSON lines to standard output
  shutdown timeout  30s

Notices
  conf.d/README is not included: its name does not match "*.toml"
  include = "conf.d/*.toml" matches no file

Checked only at start-up
  whether another program listens on 127.0.0.1:8080
  whether another program listens on *:80

"#]]
    );
}

#[test]
fn every_example_in_the_documentation_is_valid() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut examples = 0;
    for entry in std::fs::read_dir(docs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            // A fragment needs a site to be complete. The files that it names need not exist.
            let rest = if block.contains("[[site]]") { "" } else { "\n[[site]]\nroot = \"public\"\n" };
            let errors = load(&[("rudy.toml", &format!("{block}{rest}"))]).err().unwrap_or_default();
            let wrong = errors.lines().filter(|line| line.starts_with("error: "));
            let is_of_machine = |line: &str| {
                ["(os error 2)", "it is not in PATH"].iter().any(|end| line.ends_with(end))
                    || [
                        "there is no user",
                        "only root can",
                        "cannot use the error page",
                        "cannot read the redirects",
                        "cannot use the users of",
                        "cannot use the networks of",
                    ]
                    .iter()
                    .any(|part| line.contains(part))
            };
            let wrong: Vec<_> = wrong.filter(|line| !is_of_machine(line)).collect();
            let is_include =
                block.contains("include = ") && wrong.iter().all(|line| line.contains("cannot include"));
            assert!(wrong.is_empty() || is_include, "{}:\n{block}\n{errors}", path.display());
            examples += 1;
        }
    }
    assert!(examples > 10, "only {examples} examples were found");
}

#[test]
fn an_endless_stream_on_an_engine_with_few_threads_gets_a_notice() {
    let routes = "[[site]]\nroute = [\n{ path = '/ends', stream = { count = 9 } },\n{ path = '/ticks', stream = {} },\n]";
    for (engine, notices) in [
        ("percore", &[][..]),
        ("thread", &[]),
        (
            "pool:4",
            &[
                "/ticks is an endless stream: with the engine `pool:4`, each of its clients occupies one of 4 threads",
            ],
        ),
        (
            "serial",
            &[
                "/ticks is an endless stream: with the engine `serial`, its first client occupies the only thread, and no \
                 other client is served",
            ],
        ),
    ] {
        let config = load(&[("rudy.toml", &format!("engine = '{engine}'\n{routes}"))]).unwrap();
        assert_eq!(config.notices(), notices, "{engine}");
    }
}

#[test]
fn a_cache_of_pages_for_users_gets_a_notice() {
    let notices = |site: &str, route: &str| {
        let route = format!("[[site.route]]\npath = '/*'\nproxy = 'http://127.0.0.1:1'\n{route}");
        let text = if site.contains("[[site]]") {
            format!("{site}\n{route}")
        } else {
            format!("[[site]]\n{site}\n{route}")
        };
        let users = "ann:$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS\n";
        let notices = load(&[("rudy.toml", &text), ("htpasswd", users)]).unwrap().notices();
        notices.into_iter().filter(|notice| notice.contains("has `cache` with")).collect::<Vec<_>>()
    };
    let auth = "forward_auth = 'http://127.0.0.1:2/'";
    for (site, route, setting) in [
        (auth, "cache = true", "forward_auth"),
        ("cache = true", auth, "forward_auth"),
        ("cache = true\nauthorize = { address = '127.0.0.1:1' }", "", "authorize"),
        ("authorize = { address = '127.0.0.1:1' }\n[[site]]", "cache = true", "authorize"),
        ("basic_auth = 'htpasswd'", "cache = true", "basic_auth"),
    ] {
        let expected = format!(
            "/* has `cache` with `{setting}`: only responses with `public`, `s-maxage` or `must-revalidate` are stored; if all \
             responses are the same for all users, set `cache = {{ ignore_authorization = true }}`"
        );
        assert_eq!(notices(site, route), [expected], "{site} {route}");
    }
    let shared = notices(auth, "cache = { ignore_authorization = true }");
    assert!(
        shared[0].contains("`forward_auth` and `ignore_authorization`: responses to one user"),
        "{shared:?}"
    );
    for (site, route) in [(auth, ""), (auth, "cache = true\nforward_auth = false"), ("", "cache = true")] {
        assert_eq!(notices(site, route), [""; 0], "{site} {route}");
    }
}

#[test]
fn a_php_site_needs_three_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("app")).unwrap();
    let route = "[[site.route]]\npath = '/b/*'\nphp = { root = 'app', address = 'unix:none.sock', follow_symlinks = true }";
    std::fs::write(&file, format!("[[site]]\nphp = 'app'\n{route}")).unwrap();
    let config = Config::load(&file).unwrap();
    App::new(&config, &rudy_pipeline::Resources::default()).unwrap();
    let text = config.describe().replace(&format!("{}/", folder.path().display()), "");
    for line in [
        "  1  /b/*  php  app, links followed, run by unix:none.sock",
        "  2  /*    php  app, run by unix:/run/php/php-fpm.sock",
        "  none.sock does not exist: PHP requests get 502 until php-fpm listens on it; set `address` if it listens \
         elsewhere",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn processes_that_rudy_starts_need_no_socket_of_php_fpm() {
    let text = "[[site]]\n[[site.route]]\npath = '/*'\nphp = { root = '.', command = ['php-cgi'] }\n";
    let notices = load(&[("rudy.toml", text)]).unwrap().notices();
    assert!(!notices.iter().any(|notice| notice.contains("php-fpm.sock")), "{notices:?}");
}

#[test]
fn a_closed_front_controller_gets_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("app")).unwrap();
    std::fs::write(folder.path().join("app/index.php"), "").unwrap();
    for (routes, mount, is_closed) in [
        ("path = '*.php'\nrespond = 404", "/*", true),
        ("path = ['/x', '/b/*.php']\nrespond = 403", "/b/*", true),
        ("path = '*.php'\nrespond = 404", "/index.html", false),
        ("path = '/uploads/*.php'\nrespond = 404", "/*", false),
        ("path = '*.php'\nrespond = 200", "/*", false),
        ("path = '/index.php'\nphp = 'app'\n[[site.route]]\npath = '*.php'\nrespond = 404", "/*", false),
    ] {
        let route = format!("[[site.route]]\npath = '{mount}'\nphp = 'app'\n");
        std::fs::write(&file, format!("[[site]]\n[[site.route]]\n{routes}\n{route}")).unwrap();
        let notices = Config::load(&file).unwrap().notices();
        let is_noticed = notices.iter().any(|notice| notice.contains("also closes"));
        assert_eq!(is_noticed, is_closed, "{routes} {mount}: {notices:?}");
    }
}

#[test]
fn a_restricted_path_that_path_info_reaches_gets_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("app")).unwrap();
    let notices = |path: &str, closed: &str, mount: &str| {
        let text = format!(
            "[[site]]\n[[site.route]]\npath = {path}\n{closed}\n\
             [[site.route]]\npath = '{mount}/*'\nphp = {{ root = 'app' }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let notices = Config::load(&file).unwrap().notices();
        notices.into_iter().filter(|notice| notice.contains("PATH_INFO")).collect::<Vec<_>>()
    };
    let reject = "respond = { status = 403 }";
    assert_eq!(notices("'/admin/*'", reject, ""), [""; 0], "there is no front controller");
    std::fs::write(folder.path().join("app/index.php"), "").unwrap();
    let expected = "\"/admin/*\" is restricted, but \"/index.php/admin/*\" can reach the same page of the app, as PATH_INFO of index.php: \
                    restrict it too, with path = [\"/admin/*\", \"/index.php/admin/*\"]";
    assert_eq!(notices("'/admin/*'", reject, ""), [expected]);
    let authorize = "files = { root = 'app' }\nauthorize = { address = '127.0.0.1:1' }";
    assert_eq!(notices("'/admin/*'", authorize, ""), [expected]);
    assert!(notices("'/{admin,conf}/*'", reject, "")[0].contains("\"/index.php/{admin,conf}/*\" can reach"));
    assert!(notices("'/blog/admin'", reject, "/blog")[0].contains("\"/blog/index.php/admin\" can reach"));
    for (path, closed, mount) in [
        ("['/admin/*', '/index.php/admin/*']", reject, ""),
        ("['/admin/*', '/index.php/*']", reject, ""),
        ("'/admin/*'", "respond = { body = 'hello' }", ""),
        ("'/admin/*'", reject, "/blog"),
        ("'*.bak'", reject, ""),
        ("'/**/private/*'", reject, ""),
        ("['/{a,b}/*', '/index.php/{a,b}/*']", reject, ""),
    ] {
        assert_eq!(notices(path, closed, mount), [""; 0], "{path}");
    }
}

#[test]
fn a_route_of_a_script_that_gets_its_path_info_is_named() {
    let app = "fastcgi = { address = '127.0.0.1:1', script_suffix = '.php' }";
    let notices = |routes: &[(&str, &str)]| {
        let routes =
            routes.iter().map(|(path, handler)| format!("[[site.route]]\npath = {path}\n{handler}\n"));
        let text = format!("[[site]]\n{}", routes.collect::<String>());
        let notices = load(&[("rudy.toml", &text)]).unwrap().notices();
        notices.into_iter().filter(|notice| notice.contains("path info")).collect::<Vec<_>>()
    };
    let reject = "respond = { status = 403 }";
    for (path, loser) in [
        ("/xmlrpc.php", "/*"),
        ("/uploads/*.php", "/*"),
        ("*.php", "/*"),
        ("/blog/x.php", "/blog/*"),
        ("regex:^/wp-[a-z]+\\.php$", "/*"),
        ("/xmlrpc.php", "*.php"),
        ("/xmlrpc.php", "*.html"),
    ] {
        let expected = format!(
            "\"{path}\" also decides about the script with path info (\"{path}/...\"), no longer \"{loser}\""
        );
        let routes = [(&*format!("'{path}'"), reject), (&*format!("'{loser}'"), app)];
        assert_eq!(notices(&routes), [expected], "{path} {loser}");
    }
    for (first, second, app) in [
        ("['/xmlrpc.php', '/xmlrpc.php/*']", "'/*'", app),
        ("'/admin/*'", "'/*'", app),
        ("'/xmlrpc.php'", "'/blog/*'", app),
        ("'/xmlrpc.php'", "'/index.php'", app),
        ("'*.php'", "'/*'", "files = '.'"),
    ] {
        assert_eq!(notices(&[(first, reject), (second, app)]), [""; 0], "{first} {second}");
    }
}

#[test]
fn a_php_route_checks_scripts_without_a_configured_suffix() {
    let load = |path: &str, table: &str| {
        let text = format!(
            "[[site]]\n[[site.route]]\npath = '{path}'\nfastcgi = {{ address = '127.0.0.1:1', {table} }}"
        );
        load(&[("rudy.toml", &text)])
    };
    let suffix = |config: &Config| match &config.sites[0].routes[0].handler {
        HandlerTable::Fastcgi(table) => table.suffix(&config.sites[0].routes[0].paths).map(str::to_owned),
        _ => None,
    };
    assert_eq!(suffix(&load("*.php", "root = '/'").unwrap()).as_deref(), Some(".php"));
    assert_eq!(suffix(&load("/app/**/*.php", "root = '/'").unwrap()).as_deref(), Some(".php"));
    assert_eq!(suffix(&load("*.php", "root = '/', script_suffix = '.x'").unwrap()).as_deref(), Some(".x"));
    assert_eq!(suffix(&load("/app/*", "root = '/', check_scripts = false").unwrap()), None);
    let error = load("/app/*", "root = '/'").unwrap_err();
    assert!(
        error.contains(
            "`root` needs `script_suffix`: without it, the part of a path that is the script is unknown"
        ),
        "{error}"
    );
}

#[test]
fn a_page_that_is_a_script_without_a_route_is_an_error() {
    let load = |php: &str, table: &str| {
        let text = format!("[[site]]\n{php}\n[[site.route]]\npath = '/*'\nfiles = {{ root = '/', {table} }}");
        load(&[("rudy.toml", &text)])
    };
    let fallback = "fallback = 'index.php'";
    let error = load("", fallback).unwrap_err();
    assert!(error.contains("\"index.php\" is a script, and no route runs it"), "{error}");
    load("", "try_files = ['{path}', 'x.php']").unwrap_err();
    load("[[site.route]]\npath = '*.php'\nrespond = 404", fallback).unwrap_err();
    load("", "fallback = 'index.php', serve_source = true").unwrap();
    let error = load("", "try_files = ['{path}', '/app?q={path}']").unwrap_err();
    assert!(error.contains("no route can take \"/app?q={path}\" of `try_files`"), "{error}");
    load("[[site.route]]\npath = '/app'\nrespond = 404", "try_files = ['{path}', '/app?q={path}']").unwrap();
    let error = load("", "try_files = ['{path}', '/app?q={paht}&{header.x}']").unwrap_err();
    assert!(
        error.contains("{header.x}") || error.contains("this placeholder is for header fields"),
        "{error}"
    );
    load("[[site.route]]\npath = '*.php'\nfastcgi = { address = '127.0.0.1:1' }", fallback).unwrap();
}

#[test]
fn problems_of_a_php_site_are_reported() {
    for (text, expected) in [
        ("[[site]]\nphp = 'none'", "cannot open the folder none"),
        ("[[site]]\nphp = '.'\nroot = '.'", "both `root` and `php` handle all paths"),
        ("[[site]]\nroute = [{ path = '/*', php = {} }]", "the key `root` is missing"),
        ("[[site]]\nroute = [{ path = '/*', fastcgi = {} }]", "the key `address` is missing"),
        (
            "[[site]]\nroute = [{ path = '/*', php = { root = '.', script_suffix = '.pl' } }]",
            "use `fastcgi` for another suffix",
        ),
        (
            "[[site]]\nroute = [{ path = '/*', php = { root = '.', check_scripts = false } }]",
            "cannot be `false`",
        ),
        (
            "[[site]]\nroute = [{ path = '/*', fastcgi = { root = 'none', script_suffix = '.pl', address = '[::1]:9000' } }]",
            "`check_scripts = false`",
        ),
    ] {
        let output = errors(text);
        assert!(output.contains(expected) && output.contains("\n1 error in"), "{text}\n{output}");
    }
}
