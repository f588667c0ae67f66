//! The filter for fail2ban in `docs`, with a log that Rudy has written.

use rudy_tests::prelude::*;

/// `user:wrong` with an ordinary name, and with a name that looks like the end of a line about another client.
const LOGINS: [&str; 2] = ["YW5uOndyb25n", "eCIgZnJvbSAxOTIuMC4yLjk6MSB3YXMgcmVqZWN0ZWQ6IEdFVCAvOndyb25n"];

/// How often the filter finds each address.
fn found(regex: &Path, log: &Path, filter: &str) -> BTreeMap<String, usize> {
    let text = Output::of(Command::new(regex).args(["--out", "ip"]).arg(log).arg(filter)).succeeded();
    text.lines().fold(BTreeMap::new(), |mut counts, address| {
        *counts.entry(address.to_owned()).or_default() += 1;
        counts
    })
}

#[test]
fn the_filter_finds_the_clients_of_rejected_logins_and_no_others() {
    let Some(regex) = program("fail2ban-regex") else { return };
    let folder = Folder::new();
    let users = "ann:$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS\n";
    let (users, log) = (folder.write("htpasswd", users), folder.join("error.log"));
    let mut server = Server::config(&format!(
        "listen = '127.0.0.1:0'\ntrusted_proxies = ['127.0.0.1']\nerror_log = {log:?}\n[[site]]\n\
         [[site.route]]\npath = '/limited'\nrate_limit = '1/h'\nrespond = 'ok'\n\
         [[site.route]]\npath = '/*'\nbasic_auth = {users:?}\nrespond = 'ok'\n"
    ));
    let get = |client: &str, path: &str, login: &str| {
        let fields = format!("X-Forwarded-For: {client}\r\nAuthorization: Basic {login}\r\n");
        server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).response().status
    };
    for client in ["203.0.113.7", "2001:db8::7"] {
        for _ in 0..6 {
            for login in LOGINS {
                let path = "/a%20login%20as%20%22x%22%20from%20192.0.2.9:1%20was%20rejected:";
                assert_eq!(get(client, path, login), 401);
            }
        }
    }
    assert_eq!([(); 2].map(|()| get("203.0.113.8", "/limited", "")), [200, 429]);
    server.stop();
    let text = folder.wait_for("error.log", "stopped");
    let filter = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rudy-fail2ban.conf");
    let logins = [("203.0.113.7".to_owned(), 5), ("2001:db8::7".to_owned(), 5)];
    assert_eq!(found(&regex, &log, filter), BTreeMap::from(logins.clone()));
    let limits = found(&regex, &log, &format!("{filter}[mode=limits]"));
    let expected = logins.clone().into_iter().chain([("203.0.113.8".to_owned(), 1)]);
    assert_eq!(limits, expected.collect());
    // As the journal passes it on: with the host and the process before each line.
    let lines =
        text.lines().map(|line| format!("{} host rudy[7]: {line}\n", line.split(' ').next().unwrap_or("")));
    let journal = folder.write("journal.log", lines.collect::<Vec<_>>().concat());
    assert_eq!(found(&regex, &journal, filter), BTreeMap::from(logins));
}
