//! First guesses of users: accepted, or rejected with the correct line.

use rudy_files::Browse;
use rudy_log::Destination;
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::{CompressionSetting, Of};
use rudy_service::listen_address::Endpoint;
use rudy_watch::access_log::Format;

use super::*;

/// A configuration with one site, with these lines before and in the site.
fn with_site(main: &str, site: &str) -> Result<Config, String> {
    let text = format!("{main}\n[[site]]\n{site}\n");
    load(&[("rudy.toml", &text), ("public/index.html", ""), ("public/index.php", "")])
}

#[test]
fn a_port_alone_listens_on_all_addresses() {
    for listen in ["8080", "\":8080\"", "\"8080\"", "[8080]", "[\":8080\"]"] {
        let config = with_site(&format!("listen = {listen}"), "root = 'public'").unwrap();
        assert_eq!(config.listen, [Endpoint::AllInterfaces { port: 8080 }.into()], "{listen}");
    }
    let config = with_site("listen = \"127.0.0.1:1\"", "root = 'public'").unwrap();
    assert_eq!(config.listen, ["127.0.0.1:1".parse().unwrap()]);
    let error = with_site("listen = 80800", "root = 'public'").unwrap_err();
    assert!(error.contains("\"80800\" is not an address to listen on"), "{error}");
    let error = with_site("listen = []", "root = 'public'").unwrap_err();
    assert!(error.contains("the list is empty") && error.contains("remove the key"), "{error}");
}

#[test]
fn a_single_value_can_replace_a_list_or_a_table() {
    let config = with_site("access_log = 'access.log'", "hosts = 'example.org'\nroot = 'public'").unwrap();
    assert_eq!(config.sites[0].hosts, ["example.org".parse().unwrap()]);
    let log = config.access_log().cloned().unwrap();
    assert_eq!(log.format, Format::default());
    let Destination::File(path) = log.destination else { panic!("a file") };
    assert!(path.is_absolute() && path.ends_with("access.log"), "it starts from the folder of the file");
    let config = with_site("access_log = '-'", "root = 'public'").unwrap();
    assert_eq!(config.access_log().cloned().unwrap().destination, Destination::Stdout);
    assert_eq!(with_site("access_log = false", "root = 'public'").unwrap().access_log(), None);
    for name in ["./off", "logs/off", "off.log"] {
        let config = with_site(&format!("access_log = '{name}'"), "root = 'public'").unwrap();
        assert!(matches!(config.access_log().cloned().unwrap().destination, Destination::File(_)), "{name}");
    }
    let routes = "route = [
        { path = '/old', redirect = '/new' }, { path = '/gone', respond = 404 }, { path = '/ping', respond = 'pong' },
        { path = '/a/*', files = 'public' }, { path = '/b/*', php = 'public' }, { path = '/*', respond = {} },
    ]";
    let config = with_site("", routes).unwrap();
    let described: Vec<_> = config.sites[0].routes.iter().map(|route| route.handler.describe()).collect();
    assert_eq!(&described[..3], ["307 to /new", "404", "200 with 4 bytes of text"]);
    assert!(described[3].ends_with("/public") && described[4].contains("/public, run by unix:/run/php"));
    let error = with_site("", "route = [{ path = '/', respond = 999 }]").unwrap_err();
    assert!(error.contains("999 is out of range") && error.contains("expected 200 to 599"), "{error}");
    let error = with_site("", "route = [{ path = '/', redirect = true }]").unwrap_err();
    assert!(error.contains("expected a URL (\"/new\") or a table, found true or false"), "{error}");
}

#[test]
fn a_site_with_a_root_accepts_index_browse_and_fallback() {
    let site = "root = 'public'\nindex = ['home.html', 'index.html']\nbrowse = true\nfallback = 'index.html'";
    let config = with_site("", site).unwrap();
    let HandlerTable::Files(files) = &config.sites[0].routes[0].handler else { panic!("files") };
    assert_eq!(files.options.index, ["home.html", "index.html"]);
    assert!(files.options.browse == Browse::On && files.options.fallback.as_deref() == Some("index.html"));
    with_site("", "root = 'public'\nindex = 'home.html'").unwrap();
    let error = with_site("", "php = 'public'\nbrowse = true").unwrap_err();
    assert!(error.contains("`browse` is for the files of `root`"), "{error}");
}

#[test]
fn keys_of_other_servers_have_a_hint() {
    let route = |handler: &str| format!("route = [{{ path = '/*', {handler} }}]");
    for (site, hint) in [
        (route("deny = 'all'"), "write \"anyone\" for all clients"),
        (route("status = 403"), "`respond = 403` sends a status code"),
        (route("redirect = { url = '/new' }"), "write `to = \"/new\"`"),
        (route("redirect = { to = '/new', code = 301 }"), "write `status = 301`"),
        (route("redirect = '/new{uri}'"), "{query} (with its question mark or `&`)"),
        (route("files = { root = 'public', dotfiles = true }"), "write `serve_hidden = true`"),
        (route("files = { root = 'public', max_age = '1y' }"), "write `cache_control = ["),
        (route("php = { root = 'public', try_files = '/index.php' }"), "`php` runs index.php"),
        ("php = { root = 'public', index = 'index.php' }".to_owned(), "`php` runs index.php"),
        ("php = 'unix:/run/app.sock'".to_owned(), "a socket is an address"),
        ("route = [{ respond = 403 }]".to_owned(), "for example `path = \"/*\"`"),
    ] {
        let error = with_site("", &site).unwrap_err();
        assert!(error.contains(hint), "{site}: {error}");
    }
    for (main, hint) in [
        ("log_format = 'json'", "write `access_log = { path = "),
        ("pid = 'rudy.pid'", "Rudy writes no PID file"),
        ("grace_period = '10s'", "write `shutdown_timeout = \"30s\"`"),
        ("order = 'a'", "steps have a fixed order"),
        ("access_log = { path = 'a', json = true }", "write `format = \"json\"`"),
        ("access_log = { file = 'a' }", "write `path = \"access.log\"`"),
        ("access_log = 'off'", "write `access_log = false`"),
        ("access_log = { path = 'none' }", "write `access_log = false`"),
        ("access_log = 'stdout'", "write \"-\""),
        ("access_log = 'stderr'", "write \"/dev/stderr\""),
        ("access_log = 'syslog'", "write `{ syslog = \"unix:/dev/log\" }`"),
        ("error_log = 'off'", "write `error_log = { level = \"off\" }`"),
        ("error_log = 'stderr'", "remove `error_log`"),
        ("error_log = 'journald'", "write `{ journald = true }`"),
    ] {
        let error = with_site(main, "root = 'public'").unwrap_err();
        assert!(error.contains(hint), "{main}: {error}");
    }
}

#[test]
fn the_time_of_a_rotation_divides_a_day_or_is_a_number_of_days() {
    let log = |every: &str| format!("path = 'a', rotate = {{ every = '{every}' }}");
    for (every, hours) in [("30m", 0), ("6h", 6), ("1d", 24), ("7d", 168)] {
        let config = with_site(&format!("access_log = {{ {} }}", log(every)), "root = 'public'").unwrap();
        let rotation = config.access_log().cloned().unwrap().rotation.unwrap();
        assert_eq!(rotation.every.unwrap().as_secs() / 3600, hours, "{every}");
    }
    for (every, expected) in [
        ("7h", "\"6h\" or \"8h\""),
        ("110s", "\"1m 48s\" or \"2m\""),
        ("1.5s", "\"1s\" or \"2s\""),
        ("36h", "\"24h\" or \"48h\""),
    ] {
        for key in ["access_log", "error_log"] {
            let error = with_site(&format!("{key} = {{ {} }}", log(every)), "root = 'public'").unwrap_err();
            assert!(error.contains(&format!("expected for example {expected}")), "{error}");
        }
    }
}

#[test]
fn php_of_a_site_can_be_a_table() {
    let site = "php = { root = 'public', address = '127.0.0.1:9000', response_timeout = 5 }";
    let config = with_site("", site).unwrap();
    let HandlerTable::Php(php) = &config.sites[0].routes[0].handler else { panic!("php") };
    assert_eq!(php.0.app.addresses(), ["127.0.0.1:9000".parse().unwrap()]);
    let error = with_site("", "php = { root = 'public', adress = 'x' }").unwrap_err();
    assert!(error.contains("unknown key `adress`") && error.contains("did you mean `address`?"), "{error}");
}

#[test]
fn times_and_sizes_accept_common_notations() {
    let limits = |limits: &str| {
        with_site(&format!("limits = {{ {limits} }}"), "root = 'public'").map(|config| config.limits.http)
    };
    for (text, ms) in
        [("75", 75_000), ("1.5", 1500), ("\"1.5s\"", 1500), ("\"75\"", 75_000), ("\"2m\"", 120_000)]
    {
        assert_eq!(limits(&format!("idle_timeout = {text}")).unwrap().idle_timeout.as_millis(), ms, "{text}");
    }
    for (text, bytes) in
        [("\"20M\"", 20 << 20), ("\"16k\"", 16 << 10), ("\"1MB\"", 1_000_000), ("1000", 1000)]
    {
        assert_eq!(limits(&format!("body_bytes = {text}")).unwrap().body_bytes, bytes, "{text}");
    }
    for (text, says) in [
        ("idle_timeout = -1", "-1 is not a time"),
        ("idle_timeout = 0", "0s is out of range"),
        ("idle_timeout = \"soon\"", "\"soon\" is not a time"),
        ("body_bytes = -1", "-1 is not a size"),
        ("body_bytes = 1.5", "expected a size (\"16k\"), found a number"),
    ] {
        let error = limits(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn each_coding_can_have_a_level() {
    let site = |compression: &str| {
        let route = format!(
            "route = [{{ path = '/*', files = {{ root = 'public', compression = {compression} }} }}]"
        );
        with_site("", &route)
    };
    let config = site("{ gzip = 6 }").unwrap();
    let HandlerTable::Files(files) = &config.sites[0].routes[0].handler else { panic!("files") };
    let Some(CompressionSetting(Some(compression))) = &files.options.compression else { panic!("a table") };
    let level = |coding| compression.level(coding, Of::Files);
    assert_eq!((level(Coding::Gzip), level(Coding::Brotli)), (6, 5));
    let error = site("{ gzip = 12 }").unwrap_err();
    assert!(error.contains("12 is out of range") && error.contains("expected 1 to 9"), "{error}");
    let error = site("\"on\"").unwrap_err();
    assert!(error.contains("expected true, false or a table, found a string"), "{error}");
}

#[test]
fn variables_of_the_environment_are_expanded_and_not_shown() {
    // `PATH` is always set. A test that sets a variable would race with others.
    let path = std::env::var("PATH").unwrap();
    let main = "cores = '${RUDY_TEST_UNSET:-3}'\naccess_log = '${RUDY_TEST_UNSET:-a.log}'";
    let site = "root = 'public'\nroute = [{ path = '/p', respond = '${PATH}' }, { path = '/q', respond = '$${PATH}' }]";
    let config = with_site(main, site).unwrap();
    assert_eq!(config.engine.cores.unwrap().get(), 3);
    let bodies = config.sites[0].routes.iter().filter_map(|route| match &route.handler {
        HandlerTable::Respond(table) => table.body.clone(),
        _ => None,
    });
    assert_eq!(bodies.collect::<Vec<_>>(), [path.clone(), "${PATH}".to_owned()]);
    let config = with_site("", "route = [{ path = '/', redirect = 'https://x/${PATH}' }]").unwrap();
    let shown = config.describe();
    assert!(shown.contains("307 to https://x/${PATH}") && !shown.contains(&path), "{shown}");
    let error = with_site("listen = '${PATH}'", "root = 'public'").unwrap_err();
    assert!(error.contains("\"${PATH}\" is not an address") && !error.contains(&path), "{error}");
    let site = "root = 'public'\nhosts = '${RUDY_TEST_UNSET}'";
    let error = with_site("", site).unwrap_err();
    assert!(error.contains("the environment variable `RUDY_TEST_UNSET` is not set"), "{error}");
}

#[test]
fn logs_with_the_same_file_and_other_settings_are_an_error() {
    let site =
        |log: &str| with_site("access_log = 'access.log'", &format!("root = 'public'\naccess_log = {log}"));
    for log in ["'access.log'", "false", "{ path = 'site.log', format = 'json' }"] {
        assert!(site(log).is_ok(), "{log}");
    }
    let error = site("{ path = 'access.log', format = 'json' }").unwrap_err();
    assert!(error.contains("another access log with other settings has the same destination"), "{error}");
    let error = site("'off'").unwrap_err();
    assert!(error.contains("write `access_log = false`"), "{error}");
}

#[test]
fn a_misplaced_key_gets_the_correct_line() {
    for (site, says) in [
        ("root = 'public'\ncores = 2", "write this before the first [[site]]"),
        ("root = 'public'\nerror_log = 'x'", "write this before the first [[site]]"),
        ("root = 'public'\nlimits = {}", "write this before the first [[site]]"),
        ("root = 'public'\nheaders = {}", "write `response_headers = { X-Frame-Options = \"DENY\" }`"),
        (
            "route = [{ path = '/*', files = { root = '.', error_pages = { 404 = '404.html' } } }]",
            "write this in the [[site.route]] itself",
        ),
        ("root = 'public'\nerror_pages = {}", "expected for example 404 = \"/not-found\""),
        (
            "route = [{ path = '/', respond = 200, browse = true }]",
            "write `files = { root = \"...\", browse = ... }`",
        ),
        ("route = [{ path = '/old/*', redirect = { to = '/new$1' } }]", "captures are written {1}, not $1"),
        ("root = 'public'\nrotate = 'daily'", "rotate = { every = \"1d\" } }` at the top of the main file"),
        ("root = 'public'\nserver_name = 'x'", "write `hosts = [\"example.org\", "),
        ("root = 'public'\nServerName = 'x'", "write `hosts = [\"example.org\", "),
        ("root = 'public'\nlocation = {}", "write [[site.route]] and `path = \"/docs/*\"`"),
        ("DocumentRoot = '/x'\nroot = 'public'", "write `root = \"/srv/www\"`"),
        ("root = 'public'\nfile_server = true", "write `root = \"/srv/www\"`"),
        ("root = 'public'\nssl_certificate = 'x'", "write `tls = { certificate = "),
        ("root = 'public'\nproxy_pass = 'x'", "write `proxy = \"http://127.0.0.1:3000\"`"),
        ("route = [{ path = '/', proxy_pass = 'x' }]", "write `proxy = \"http://127.0.0.1:3000\"`"),
    ] {
        let error = with_site("", site).unwrap_err();
        assert!(error.contains(says) && error.contains("1 error in"), "{site}:\n{error}");
    }
}

#[test]
fn consequences_of_an_error_are_not_reported() {
    for (main, site, says) in [
        ("", "root = 'public'\nhosts = '${RUDY_TEST_UNSET}'", "`RUDY_TEST_UNSET` is not set"),
        ("", "root = 'public'\nhosts = ['a.org', '${RUDY_TEST_UNSET}']", "`RUDY_TEST_UNSET` is not set"),
        ("listen = [{ address = ':80' }]", "root = 'public'", "expected an address to listen on"),
        ("", "rot = 'public'", "did you mean `root`?"),
        ("", "proxy_pass = 'x'", "write `proxy = \"http://127.0.0.1:3000\"`"),
        ("", "route = [{ path = '/', tail = { file = '/x', allow = 'anyone' } }]", "did you mean `files`?"),
        ("", "route = [{ pth = '/', respond = 404 }]", "did you mean `path`?"),
        ("", "route = [{ path = '/', fastcgi = { command = 'app' } }]", "expected a list"),
        ("", "route = [{ path = '/', fastcgi = { comand = ['app'] } }]", "did you mean `command`?"),
        ("", "route = [{ path = '/', fastcgi = { adress = 'x:9' } }]", "did you mean `address`?"),
    ] {
        let error = with_site(main, site).unwrap_err();
        assert!(error.contains(says) && error.contains("1 error in"), "{main} {site}:\n{error}");
    }
    let error = with_site("", "hosts = 'a b'").unwrap_err();
    assert!(error.contains("\"a b\" is not a host") && error.contains("this site has no route"), "{error}");
}

#[test]
fn an_invalid_guess_gets_the_correct_line() {
    for (main, site, says) in [
        ("root = 'public'", "root = 'public'", "write [[site]] above this"),
        ("respond = 404", "root = 'public'", "write [[site.route]], `path = \"/*\"` and `respond = ...`"),
        ("hosts = 'a.org'", "root = 'public'", "write [[site]] above this"),
        ("head_timeout = 5", "root = 'public'", "write `limits = { head_timeout = ... }` at the top"),
        ("limits = { user = 'x' }", "root = 'public'", "write this above [limits]"),
        ("limits = { send_timeout = 5 }", "root = 'public'", "send_stall_timeout"),
        ("timeouts = {}", "root = 'public'", "limits = { head_timeout"),
        ("proxy_protocol = true", "root = 'public'", "write `listen = \":8080,proxy_protocol\"`"),
        ("user = 1000", "root = 'public'", "write \"1000\""),
        ("limits = { body_rate_min = -1 }", "root = 'public'", "-1 is out of range"),
        ("limits = { body_rate_min = 99999999999 }", "root = 'public'", "99999999999 is out of range"),
        ("", "route = [{ path = '/', root = 'public' }]", "write `files = \"public\"`"),
        ("", "root = 'public'\nauth = 1", "write `basic_auth = \"htpasswd\"`"),
        ("", "root = 'public'\nrespond = 404", "write [[site.route]], `path = \"/*\"` and `respond = ...`"),
        ("", "route = [{ path = '/', status = true }]", "write `status = { allow = \"loopback\" }`"),
        ("", "route = [{ path = '/', delay = '2s' }]", "write `delay = { time = \"40ms\" }`"),
        (
            "",
            "route = [{ path = '/', fastcgi = 'php' }]",
            "write `fastcgi = { address = \"127.0.0.1:9000\" }`",
        ),
        ("", "route = [{ path = '/', fastcgi = { command = 'app' } }]", "write `command = ["),
        ("", "root = 'public'\nhosts = '${A:-${B}}'", "a default cannot contain a placeholder"),
    ] {
        let error = with_site(main, site).unwrap_err();
        assert!(error.contains(says) && error.contains("1 error in"), "{main} {site}:\n{error}");
    }
}
