//! Certificates from an authority, end to end with pebble: orders, failures, renewal, and processes that share a folder.

use rudy_tests::pebble::{Proxy, Step};
use rudy_tests::prelude::*;

const SITE: &str = "[[site]]\nhosts = 'a.example.net'\ntls = 'auto'\n[[site.route]]\npath = '/*'\nrespond = { body = 'hello' }\n";

fn start(config: &str, state: &Path) -> Server {
    Server::build().config(config).env("STATE_DIRECTORY", state).start()
}

/// The configuration of a server whose authority is behind a proxy.
fn behind(pebble: &Pebble, proxy: &Proxy) -> String {
    pebble.config("").replace(&pebble.directory(), &proxy.directory()) + SITE
}

/// Sends a request over HTTPS, trusting the root of the authority. Returns curl's exit code and the body.
fn get(curl: &Curl, root: &str, server: SocketAddr, name: &str) -> (i32, String) {
    let connect = format!("{name}:443:{server}");
    let result = curl.run(["--cacert", root, "--connect-to", &connect, &format!("https://{name}/")]);
    (result.exit, String::from_utf8_lossy(&result.body).into_owned())
}

/// Waits until the certificate of a name is served.
fn wait_for(curl: &Curl, pebble: &Pebble, name: &str) {
    let root = pebble.root();
    wait_until("the certificate is served", || {
        get(curl, &root, pebble.tls.address(), name) == (0, "hello".to_owned())
    });
}

fn plain(curl: &Curl, server: SocketAddr, name: &str, path: &str) -> (u64, String) {
    let result = curl.run(["--header", &format!("Host: {name}"), &format!("http://{server}{path}")]);
    let status = result.transfers[0]["response_code"].as_u64().expect("a status");
    (status, String::from_utf8_lossy(&result.body).into_owned())
}

fn certificates(server: &Server) -> Value {
    server.rudy(&["certificates", "--json"]).json()["certificates"].clone()
}

/// The lock is a FIFO: reading it waits, as on a file server that hangs.
#[test]
fn a_state_folder_that_hangs_does_not_delay_a_stop() {
    let folder = Folder::new();
    let lock = folder.path().join("acme/locks");
    fs::create_dir_all(&lock).unwrap();
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"a.example.net");
    let start_of_hash = u64::from_be_bytes(hash.as_ref()[..8].try_into().unwrap());
    let lock = lock.join(format!("{start_of_hash:016x}"));
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let listen = "listen = ['127.0.0.1:0', '127.0.0.1:0,tls']\n";
    let acme = "acme = { directory = 'https://127.0.0.1:1/' }\n";
    let mut server = start(&format!("{listen}{acme}{SITE}"), folder.path());
    // Waits until the server reads.
    let _writer = fs::File::options().write(true).open(&lock).unwrap();
    server.stop();
}

#[test]
fn each_challenge_verifies_a_name() {
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    let folder = Folder::new();
    let script = format!(
        "#!/bin/sh\ncase $1 in present) at=set-txt;; cleanup) at=clear-txt;; esac\n\
         curl -sf --noproxy '*' -d \"{{\\\"host\\\":\\\"$2\\\",\\\"value\\\":\\\"$3\\\"}}\" {}/$at\necho $1 >>\"$0.calls\"\n",
        pebble.names_url()
    );
    let hook = folder.write("hook", script);
    folder.set_mode("hook", 0o755);
    let dns = format!("dns_hook = [{hook:?}]\ndns_delay = '0s'");
    for (acme, hosts, name) in [
        ("email = 'a@example.net'\nchallenges = 'http-01'", "'a.example.net'", "a.example.net"),
        ("challenges = 'tls-alpn-01'", "'b.example.net'", "b.example.net"),
        (&dns, "['c.example.net', '*.c.example.net']", "www.c.example.net"),
    ] {
        let config = pebble.config(acme) + &SITE.replace("'a.example.net'", hosts);
        let mut server = start(&config, folder.path());
        let port = pebble.tls.address().port();
        let redirect = format!("https://{name}:{port}/x");
        wait_for(&curl, &pebble, name);
        server.wait_for_line("got a certificate for ");
        let result =
            curl.run(["-H", &format!("Host: {name}"), &format!("http://{}/x", pebble.http.address())]);
        assert_members!(result.transfers[0], "response_code": 308, "redirect_url": redirect);
        // Unknown tokens are not redirected.
        let unknown = plain(&curl, pebble.http.address(), name, "/.well-known/acme-challenge/x");
        assert_eq!(unknown, (200, "hello".to_owned()));
        // The next attempt is known when the authority has said when to renew. Each host has a certificate.
        let is_kept = |certificate: &Value| certificate["next_attempt"].is_string();
        let listed = eventually("the next attempt is known", || {
            Some(certificates(&server)).filter(|listed| listed.as_array().unwrap().iter().all(is_kept))
        });
        assert_members!(listed[0], "source": "auto", "key_type": "ECDSA P-256");
        assert!(listed[0]["last_error"].is_null(), "{listed}");
    }
    let calls = folder.read("hook.calls");
    assert_eq!(calls.lines().filter(|call| *call == "present").count(), 2);
    assert_eq!(calls.lines().filter(|call| *call == "cleanup").count(), 2);
    // Nothing is left of the challenges; keys are secret.
    let left =
        |name: &str| fs::read_dir(folder.path().join(name)).unwrap().map(|entry| entry.unwrap().path());
    wait_until("challenges and locks are removed", || {
        left("acme/challenges").chain(left("acme/locks")).count() == 0
    });
    for path in left("certificates").chain(left("acme").filter(|path| path.is_file())) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    // Without the authority, the stored certificate is served.
    let [root, authority] = ["root.pem", "authority.pem"].map(|name| folder.path().join(name));
    fs::copy(pebble.root(), &root).unwrap();
    fs::copy(pebble.authority(), &authority).unwrap();
    let config = pebble.config("").replace(&pebble.authority(), authority.to_str().unwrap()) + SITE;
    let root = root.to_str().unwrap();
    let address = pebble.tls.address();
    drop(pebble);
    let _server = start(&config, folder.path());
    assert_eq!(get(&curl, root, address, "a.example.net"), (0, "hello".to_owned()));
}

#[test]
fn without_a_certificate_handshakes_are_rejected_and_plain_requests_get_503() {
    let Some(curl) = Curl::find() else { return };
    let folder = Folder::new();
    // Nothing listens there.
    let config =
        "listen = ['127.0.0.1:0', '127.0.0.1:0,tls']\n[acme]\ndirectory = 'https://127.0.0.1:1/dir'\n";
    let mut server = start(&(config.to_owned() + SITE), folder.path());
    let line = server.wait_for_line("cannot get a certificate for a.example.net");
    assert!(line.contains("127.0.0.1:1: Connection refused") && line.contains("next attempt at"), "{line}");
    let [http, tls] = [0, 1].map(|listener| server.address_of(listener));
    let (status, body) = plain(&curl, http, "a.example.net", "/");
    assert_eq!(status, 503);
    assert!(body.contains("no certificate for HTTPS yet"), "{body}");
    // An alert, not a broken connection.
    let connect = format!("a.example.net:443:{tls}");
    assert_eq!(curl.run(["--insecure", "--connect-to", &connect, "https://a.example.net/"]).exit, 35);
    let listed = certificates(&server);
    assert_eq!(listed[0]["names"], json!(["a.example.net"]));
    assert!(listed[0]["not_after"].is_null(), "{listed}");
    assert!(listed[0]["last_error"]["message"].as_str().unwrap().contains("Connection refused"), "{listed}");
    // A challenge that another process has published.
    let challenges = folder.path().join("acme/challenges");
    challenges.write("1.json", r#"{"type": "http-01", "token": "t_1-", "content": "t_1-.key"}"#);
    let path = "/.well-known/acme-challenge/t_1-";
    wait_until("the challenge is answered", || {
        plain(&curl, http, "other.example.net", path) == (200, "t_1-.key".to_owned())
    });
}

#[test]
fn a_failure_is_explained_and_the_test_authority_spares_the_limits_of_the_other() {
    needs!(long());
    let (Some(curl), Some(pebble), Some(test)) = (Curl::find(), Pebble::start(), Pebble::start()) else {
        return;
    };
    let folder = Folder::new();
    let both = [pebble.authority(), test.authority()].map(|path| fs::read_to_string(path).unwrap()).concat();
    let authorities = folder.path().write("authorities.pem", both);
    let config = format!(
        "listen = ['{}', '{},tls', '{}', '{},tls']\n[acme]\ndirectory = '{}'\ntest_directory = '{}'\nauthority = {authorities:?}\n{SITE}",
        pebble.http.address(),
        pebble.tls.address(),
        test.http.address(),
        test.tls.address(),
        pebble.directory(),
        test.directory(),
    );
    // Nothing listens at this address; and then a server that never responds.
    pebble.set_names("/set-default-ipv4", &json!({ "ip": "127.0.0.9" }));
    let mut server = start(&config, folder.path());
    let line = server.wait_for_line("cannot get a certificate");
    assert_contains!(
        line,
        "(http-01)",
        "connection refused (connection)",
        "check the A and AAAA records and the firewall"
    );
    let _silent = TcpListener::bind(("127.0.0.9", pebble.tls.address().port())).unwrap();
    server.forget_lines();
    let line = server.reload("cannot get a certificate");
    assert!(line.contains("(tls-alpn-01)") && line.contains("Failed to connect to 127.0.0.9"), "{line}");
    pebble.set_names("/set-default-ipv4", &json!({ "ip": "127.0.0.1" }));
    server.reload("could verify a.example.net");
    server.wait_for_line("got a certificate for a.example.net");
    wait_for(&curl, &pebble, "a.example.net");
}

#[test]
fn a_hook_that_fails_or_sets_nothing_is_explained() {
    needs!(long());
    let Some(pebble) = Pebble::start() else { return };
    for (hook, expected) in [
        ("['/bin/sh', '-c', 'echo no zone >&2; exit 3']", "failed (exit status: 3): no zone"),
        ("['/bin/true']", "(unauthorized)"),
        ("['/nonexistent']", "cannot run the hook /nonexistent"),
    ] {
        let folder = Folder::new();
        let config = pebble.config(&format!("dns_hook = {hook}\ndns_delay = '0s'")) + SITE;
        let mut server = start(&config, folder.path());
        let line = server.wait_for_line("cannot get a certificate for a.example.net (dns-01)");
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn responses_of_a_broken_authority_are_explained() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    let folder = Folder::new();
    let steps = [
        (
            "it responded with 500 Internal Server Error",
            Step::Respond(
                "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<b>!",
            ),
        ),
        ("the connection was closed", Step::Cut),
        ("invalid response", Step::Respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")),
        ("expected \"HTTP/1.1\"", Step::Respond("SSH-2.0-x\r\n\r\n")),
        (
            "too many (rateLimited)",
            Step::Respond(
                "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Type: application/problem+json\r\nContent-Length: 71\r\n\r\n\
             {\"type\":\"urn:ietf:params:acme:error:rateLimited\",\"detail\":\"too many\"}  ",
            ),
        ),
    ];
    let orders = Arc::new(Mutex::new(Vec::new()));
    let (proxy_orders, answers) = (orders.clone(), steps.clone().map(|(_, step)| step));
    let proxy = pebble.proxy(move |path| {
        if path != "/order-plz" {
            return Step::Pass;
        }
        let mut orders = proxy_orders.lock().unwrap();
        orders.push(Instant::now());
        answers.get(orders.len() - 1).cloned().unwrap_or(Step::Pass)
    });
    let mut server = start(&behind(&pebble, &proxy), folder.path());
    for (expected, _) in steps {
        let line = server.wait_for_line("cannot get a certificate");
        assert!(line.contains(expected), "{expected}: {line}");
        server.reload("reloaded");
    }
    // The authority wanted a pause of two seconds, which a reload does not shorten.
    wait_until("another order", || orders.lock().unwrap().len() > 5);
    let orders = orders.lock().unwrap().clone();
    assert!(orders[5] - orders[4] >= Duration::from_secs(2), "{orders:?}");
    drop(orders);
    wait_for(&curl, &pebble, "a.example.net");
}

#[test]
fn short_lived_certificates_are_renewed_without_a_failed_handshake() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::with_validity(60)) else { return };
    let folder = Folder::new();
    // The sandbox must not be in the way of a renewal.
    let _server = start(&("sandbox = true\n".to_owned() + &pebble.config("") + SITE), folder.path());
    wait_for(&curl, &pebble, "a.example.net");
    let root = pebble.root();
    let file = || {
        let mut files = fs::read_dir(folder.path().join("certificates")).unwrap();
        fs::read(files.next().unwrap().unwrap().path()).unwrap()
    };
    let (mut last, mut renewals, mut handshakes) = (file(), 0, 0);
    let begin = Instant::now();
    while renewals < 2 {
        assert_eq!(get(&curl, &root, pebble.tls.address(), "a.example.net"), (0, "hello".to_owned()));
        handshakes += 1;
        let current = file();
        if current != last {
            (last, renewals) = (current, renewals + 1);
        }
        assert!(begin.elapsed() < Duration::from_mins(3), "{renewals} renewals");
    }
    assert!(handshakes > 50, "{handshakes}");
}

#[test]
fn processes_on_one_folder_order_once_and_take_over_from_one_that_was_killed() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    let folder = Folder::new();
    let orders = Arc::new(AtomicUsize::new(0));
    let (count, (reached, hangs)) = (orders.clone(), mpsc::channel());
    let proxy = pebble.proxy(move |path| {
        if path == "/order-plz" && count.fetch_add(1, Ordering::Relaxed) == 0 {
            reached.send(()).unwrap();
            return Step::Hang;
        }
        Step::Pass
    });
    let config = behind(&pebble, &proxy);
    let first = start(&config, folder.path());
    hangs.recv().unwrap();
    // The second has other ports, and the authority does not see it: it needs the first, or a successor.
    let other = config
        .replace(&pebble.http.address().to_string(), "127.0.0.1:0")
        .replace(&pebble.tls.address().to_string(), "127.0.0.1:0");
    let mut second = start(&other, folder.path());
    drop(first);
    let third = start(&config, folder.path());
    second.wait_for_line("replaced the TLS settings");
    wait_for(&curl, &pebble, "a.example.net");
    // Rejected nonces are repeated; an order by each process would be more.
    let orders = orders.load(Ordering::Relaxed);
    drop(third);
    assert_eq!(fs::read_dir(folder.path().join("acme/locks")).unwrap().count(), 0, "{orders} orders");
}

#[test]
fn a_process_that_is_killed_in_any_step_of_an_order_begins_again() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    for step in ["/sign-me-up", "/order-plz", "/authZ/", "/chalZ/", "/finalize-order/", "/certZ/"] {
        let folder = Folder::new();
        let (reached, hangs) = mpsc::channel();
        let mut has_hung = false;
        let proxy = pebble.proxy(move |path| {
            if !has_hung && path.starts_with(step) {
                has_hung = true;
                reached.send(()).unwrap();
                return Step::Hang;
            }
            Step::Pass
        });
        let server = start(&behind(&pebble, &proxy), folder.path());
        hangs.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{step}: {error}"));
        drop(server);
        let _server = start(&behind(&pebble, &proxy), folder.path());
        wait_for(&curl, &pebble, "a.example.net");
    }
}

#[test]
fn an_account_that_the_authority_forgot_is_replaced() {
    needs!(long());
    let (Some(curl), Some(pebble), Some(other)) = (Curl::find(), Pebble::start(), Pebble::start()) else {
        return;
    };
    let folder = Folder::new();
    let mut server = start(&(pebble.config("") + SITE), folder.path());
    server.wait_for_line("got a certificate");
    drop(server);
    // The key of an account that only the other authority knows.
    let account = fs::read_dir(folder.path().join("acme")).unwrap().map(|entry| entry.unwrap().path());
    let account = account.into_iter().find(|path| path.is_file()).unwrap();
    let text = fs::read_to_string(&account).unwrap();
    fs::write(&account, text.replace("/my-account/", "/my-account/0")).unwrap();
    fs::remove_dir_all(folder.path().join("certificates")).unwrap();
    let mut server = start(&(pebble.config("") + SITE), folder.path());
    server.wait_for_line("cannot get a certificate");
    server.reload("created an account");
    wait_for(&curl, &pebble, "a.example.net");
    drop(other);
}

#[test]
fn domains_on_the_command_line_are_sites_with_certificates() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    let (folder, state) = (Folder::new(), Folder::new());
    folder.write("index.html", "hello");
    let domains = ["--domain", "a.example.net", "--domain", "b.example.net", "--email", "a@example.net"];
    let authority = ["--acme-directory", &pebble.directory(), "--acme-authority", &pebble.authority()];
    let (http, tls) = (pebble.http.address().to_string(), format!("{},tls", pebble.tls.address()));
    let addresses = ["--listen", &http, "--listen", &tls];
    let server = Server::build().arg(folder.path()).args(domains).args(authority).args(addresses);
    let _server = server.env("STATE_DIRECTORY", state.path()).start();
    for name in ["a.example.net", "b.example.net"] {
        wait_for(&curl, &pebble, name);
    }
    // Others are not served.
    let (exit, _) = get(&curl, &pebble.root(), pebble.tls.address(), "c.example.net");
    assert_eq!(exit, 35);
}

#[test]
fn a_full_disk_is_reported_before_a_certificate_is_ordered() {
    needs!(long());
    let (Some(curl), Some(pebble)) = (Curl::find(), Pebble::start()) else { return };
    let folder = Folder::new();
    let orders = Arc::new(AtomicUsize::new(0));
    let count = orders.clone();
    let proxy = pebble.proxy(move |path| {
        count.fetch_add(usize::from(path == "/finalize-order"), Ordering::Relaxed);
        Step::Pass
    });
    let mount = format!("mount -t tmpfs -o size=64k tmpfs '{folder}'");
    let fill = "mkdir -p certificates acme/locks acme/challenges; head -c 100000 /dev/zero >full";
    let mut try_it = Command::new("unshare");
    try_it.args(["-rm", "sh", "-c", &mount]);
    if !try_it.status().is_ok_and(|status| status.success()) {
        skip("this user may not mount anything in a name space of their own (`unshare -rm`)");
        return;
    }
    let script = format!(
        "exec unshare -rm sh -c \"{mount} && (cd '{folder}' && {fill}) 2>/dev/null; exec \\\"\\$@\\\"\" sh \"$@\""
    );
    let server = Server::build().config(&behind(&pebble, &proxy)).through_shell(&script);
    let mut server = server.env("STATE_DIRECTORY", folder.path()).start();
    let line = server.wait_for_line("cannot get a certificate");
    assert_contains!(line, "No space left on device", folder.path().to_str().unwrap());
    assert_eq!(orders.load(Ordering::Relaxed), 0);
    fs::remove_file(format!("/proc/{}/root{folder}/full", server.pid())).unwrap();
    server.signal(Signal::HUP);
    wait_for(&curl, &pebble, "a.example.net");
}

#[test]
fn what_no_authority_would_certify_is_an_error_of_check() {
    for (acme, site, expected) in [
        ("", "", "this site has none"),
        ("", "hosts = 'localhost'", "use `tls = \"internal\"`"),
        ("", "hosts = 'a.local'", "use `tls = \"internal\"`"),
        ("", "hosts = '*.example.org'", "set `dns_hook`"),
        ("", "hosts = '_'", "error"),
        ("directory = 'http://a.test/'", "hosts = 'a.test'", "an authority needs an https URL"),
        ("directory = 'https://a.test/'\nstaging = true", "hosts = 'a.test'", "set `test_directory`"),
        ("external_account = { key_id = '1', key = '!' }", "hosts = 'a.org'", "not Base64"),
        ("challenges = ['dns-01']", "hosts = 'a.org'", "needs a program that sets TXT records"),
        ("challenges = 'dns'", "hosts = 'a.org'", "dns-01"),
        ("authority = '/nonexistent'", "hosts = 'a.org'", "cannot read certificates in PEM format"),
        ("", "hosts = 'a.org'", ""),
        ("directory = 'https://a.test/'", "hosts = 'intranet'", ""),
    ] {
        let text = format!("[acme]\n{acme}\n[[site]]\n{site}\ntls = 'auto'\nroot = '/usr'\n");
        let output = Rudy::check(&text);
        let stderr = &output.stderr;
        assert_eq!(output.is_success(), expected.is_empty(), "{text}{stderr}");
        assert!(stderr.contains(expected), "{text}{stderr}");
        if expected.is_empty() {
            // The ports of the internet are the default.
            assert_contains!(output.stdout, ":80", ":443,tls", ", from https://");
        }
    }
}

#[test]
fn profiles_external_accounts_and_renewal_information_are_used() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    needs!(long());
    let profile = |seconds: u32| json!({ "description": "one of two", "validityPeriod": seconds });
    let settings = json!({
        "externalAccountBindingRequired": true, "externalAccountMACKeys": { "kid-1": KEY },
        "profiles": { "default": profile(7_776_000), "shortlived": profile(518_400) },
    });
    let (Some(openssl), Some(pebble)) = (program("openssl"), Pebble::with(&settings)) else { return };
    let folder = Folder::new();
    let mut server = start(&(pebble.config("") + SITE), folder.path());
    assert_contains!(server.wait_for_line("cannot get a certificate"), "set `external_account` in [acme]");
    drop(server);
    let acme = format!("profile = 'shortlived'\nexternal_account = {{ key_id = 'kid-1', key = '{KEY}' }}");
    let config = pebble.config(&acme) + SITE;
    let mut server = start(&config, folder.path());
    server.wait_for_line("got a certificate");
    let file = fs::read_dir(folder.path().join("certificates")).unwrap().next().unwrap().unwrap().path();
    let expires_within = |seconds: u32| {
        let mut command = Command::new(&openssl);
        command.args(["x509", "-noout", "-checkend", &seconds.to_string(), "-in"]).arg(&file);
        !command.output().unwrap().status.success()
    };
    assert!(expires_within(518_400) && !expires_within(518_400 - 3600));
    drop(server);
    // The authority wants it to be replaced, for example because it will be revoked.
    let pem = fs::read_to_string(&file).unwrap();
    let begin = pem.find("-----BEGIN CERTIFICATE-----").unwrap();
    let window = json!({ "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" });
    pebble.set_renewal_info(&pem[begin..], &json!({ "suggestedWindow": window }));
    let mut server = start(&config, folder.path());
    server.wait_for_line("got a certificate");
    assert_ne!(fs::read_to_string(&file).unwrap(), pem);
}

#[test]
fn a_server_stops_and_reloads_while_an_authority_does_not_respond() {
    needs!(long());
    let Some(pebble) = Pebble::start() else { return };
    let folder = Folder::new();
    let (reached, hangs) = mpsc::channel();
    let proxy = pebble.proxy(move |path| {
        if path != "/order-plz" {
            return Step::Pass;
        }
        reached.send(()).unwrap();
        Step::Hang
    });
    let mut server = start(&behind(&pebble, &proxy), folder.path());
    hangs.recv().unwrap();
    server.reload("reloaded");
    server.stop();
    assert_eq!(fs::read_dir(folder.path().join("acme/locks")).unwrap().count(), 0);
}
