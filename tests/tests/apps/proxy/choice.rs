//! Which of several upstreams gets a request.

use rudy_tests::prelude::*;

use crate::proxy::{counts, proxy_to_all};

/// An upstream that responds with its name.
pub(crate) fn named(name: &'static str) -> Upstream {
    Upstream::serve(move |peer, _| peer.respond(name))
}

#[test]
fn upstreams_take_turns_in_proportion_to_their_weights() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let upstreams = format!("{{ url = \"{a}\", weight = 2 }}, \"{b}\", \"{c}\"");
    let server = proxy_to_all(&upstreams, "choice = \"round-robin\"");
    let expected = [("a", 8), ("b", 4), ("c", 4)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&server, 16), expected.into());
}

#[test]
fn a_busy_upstream_gets_no_more_requests_than_an_idle_one() {
    /// Responds once it may.
    fn waiting(name: &'static str, begun: Sender<&'static str>, may_respond: Gate<()>) -> Upstream {
        Upstream::serve(move |peer, request| {
            if request.target() == "/wait" {
                begun.send(name).expect("the test waits");
                may_respond.wait().expect("the test continues");
            }
            peer.respond(name);
        })
    }

    let (begun, has_begun) = channel();
    let ((release_a, a), (release_b, b)) = (gate(), gate());
    let (a, b) = (waiting("a", begun.clone(), a), waiting("b", begun, b));
    let server = proxy_to_all(&format!("\"{a}\", \"{b}\""), "");
    let mut first = server.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    let busy = has_begun.recv().expect("an upstream got the request");
    let (idle, release) = if busy == "a" { ("b", release_a) } else { ("a", release_b) };
    assert_eq!(counts(&server, 10), [(idle.to_owned(), 10)].into());
    release.send(()).expect("the upstream waits");
    assert_eq!(first.response().text(), busy);
}

#[test]
fn a_key_leads_to_the_same_upstream_and_only_the_keys_of_a_lost_one_move() {
    let upstreams = [named("a"), named("b"), named("c")];
    let urls = upstreams.each_ref().map(|upstream| format!("\"{upstream}\"")).join(", ");
    let server = proxy_to_all(&urls, "choice = \"hash:cookie:session\"");
    let get = |session: usize| {
        let cookie = format!("Cookie: theme=dark; session={session}");
        server.get_with("/", &["Host: a", &cookie]).text().to_owned()
    };
    let before: Vec<_> = (0..30).map(get).collect();
    for name in ["a", "b", "c"] {
        assert!(before.iter().any(|response| response == name), "{before:?}");
    }
    assert_eq!((0..30).map(get).collect::<Vec<_>>(), before);
    let [lost, ..] = upstreams;
    drop(lost);
    for (session, before) in before.iter().enumerate() {
        let after = get(session);
        assert!(after == *before || before == "a" && after != "a", "{session}: {before}, then {after}");
    }
}

#[test]
fn a_cookie_leads_to_the_same_upstream_until_that_one_is_drained() {
    let (a, b) = (named("a"), named("b"));
    let state = Folder::new();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n[site.route.proxy]\n\
         upstreams = [\"{a}\", \"{b}\"]\nsticky = \"lb\"\nchoice = \"round-robin\"\n"
    );
    let start = || Server::build().config(&config).env("STATE_DIRECTORY", state.path()).start();
    let get = |server: &Server, cookie: &str| {
        let response = server.get_with("/", &["Host: a", &format!("Cookie: {cookie}")]);
        (response.text().to_owned(), response.field("set-cookie").map(str::to_owned))
    };
    let server = start();
    let (first, cookie) = get(&server, "x=y");
    let cookie = cookie.expect("the first response sets a cookie");
    let (pair, attributes) = cookie.split_once("; ").expect("it has attributes");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    for _ in 0..4 {
        assert_eq!(get(&server, pair), (first.clone(), None));
    }
    drop(server);
    let server = start();
    assert_eq!(get(&server, pair), (first.clone(), None), "after a restart");
    let url = if first == "a" { a.url() } else { b.url() };
    let drained = crate::proxy::admin::upstreams(&server, &["drain", &url]);
    drained.with_code(0);
    let (second, cookie) = get(&server, pair);
    let cookie = cookie.expect("another upstream, another cookie");
    assert_ne!(second, first);
    let (pair, _) = cookie.split_once("; ").expect("it has attributes");
    assert_eq!(get(&server, pair), (second, None));
}
