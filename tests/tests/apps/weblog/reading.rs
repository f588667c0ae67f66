//! Posts, lists, search and feeds.

use rudy_tests::prelude::*;

use super::{Site, URL};

const POST: &str = "+++\ntitle = \"Fresh & <new>\"\ndate = 2099-11-26\ntags = [\"news\", \"größe\"]\n+++\nHello \"you\" & <b>me</b>.\n";

#[test]
fn a_saved_file_is_a_post_and_a_broken_one_changes_nothing() {
    let site = Site::start(None);
    assert!(site.get("/").contains("How to poll politely"));
    site.weblog.save("new.md", POST);
    wait_until("the post appears", || site.get("/").contains("Fresh &amp; &lt;new&gt;"));
    site.weblog.save("new.md", "broken");
    let problem = "does not begin with its title";
    wait_until("the problem is named", || site.as_author("/admin").text().contains(problem));
    let targets = "/ /posts/new /tags/news /tags/gr%C3%B6%C3%9Fe /archive/2099-11 /search?q=fresh+HELLO /feed.atom /feed.json";
    for target in targets.split(' ') {
        assert!(site.get(target).contains("Fresh"), "{target}");
    }
    fs::remove_file(site.weblog.path().join("posts/new.md")).expect("the file is there");
    wait_until("the post is gone", || site.server.get("/posts/new").status == 404);
}

#[test]
fn the_images_of_feeds_have_whole_urls() {
    let site = Site::start(None);
    let feed: Value = serde_json::from_str(&site.get("/feed.json")).expect("it is JSON");
    let items = feed["items"].as_array().expect("a list");
    let html = items.iter().filter_map(|item| item["content_html"].as_str()).collect::<String>();
    let image = format!("<img src=\"{URL}/images/one-process.png\"");
    assert!(html.contains(&image) && !html.contains("=\"/"), "{html}");
    let atom = site.get("/feed.atom").replace("&lt;", "<").replace("&quot;", "\"").replace("&#x2f;", "/");
    assert!(atom.contains(&image), "{atom}");
}

#[test]
fn a_page_has_seven_posts_and_leads_to_the_next() {
    let site = Site::start(None);
    let first = site.get("/");
    assert_eq!(first.matches("<article").count(), 7, "{first}");
    assert!(first.contains("href=\"?page=2\"") && !first.contains("rel=\"prev\""), "{first}");
    let second = site.get("/?page=2");
    assert!(second.contains("href=\"?page=1\"") && !second.contains("rel=\"next\""), "{second}");
    assert!(second.contains(">Hello</a>") && !first.contains(">Hello</a>"), "the oldest is last: {second}");
    assert!(site.get("/archive/2026-10").contains("October 2026"));
    assert_eq!(site.get("/tags/html").matches("<article").count(), 3);
    let none = "0 posts contain all words of “&lt;script&gt; poll”";
    assert!(site.get("/search?q=%3Cscript%3E+poll").contains(none), "a query is text");
    for target in "/posts/none /tags/none /archive/1999-01 /?page=3 /?page=0 /?page=x /posts".split(' ') {
        assert_eq!(site.server.get(target).status, 404, "{target}");
    }
    for (target, location) in [
        ("//evil.example/", "/evil.example"),
        ("/\\evil.example/", "/%5Cevil.example"),
        ("/posts/%69ndex.html", "/posts"),
        ("/tags/", "/tags"),
    ] {
        assert_eq!(site.server.get(target).field("location"), Some(location), "{target}");
    }
    assert_eq!(site.send("DELETE /", &[], "").field("allow"), Some("GET, HEAD"));
}

#[test]
fn drafts_are_for_the_author_alone() {
    let site = Site::start(None);
    for target in
        "/ /?page=2 /tags/caching /search?q=cache+keep /feed.atom /feed.json /sitemap.xml".split(' ')
    {
        assert!(!site.get(target).contains("What a cache may keep"), "{target}");
    }
    assert_eq!(site.server.get("/posts/draft-on-caches").status, 404);
    for target in "/admin /admin/ /admin/posts/draft-on-caches //admin /%61dmin /x/../admin".split(' ') {
        let response = site.server.get(target);
        assert!(matches!(response.status, 401 | 404), "{target}: {}", response.head);
        assert!(!response.text().contains("draft"), "{target}");
    }
    assert!(site.as_author("/admin").text().contains("What a cache may keep"));
    let preview = site.as_author("/admin/posts/draft-on-caches");
    assert!(
        preview.text().contains("This is a preview") && preview.field("cache-control") == Some("no-store")
    );
}

#[test]
fn a_page_that_has_not_changed_is_not_sent_again() {
    let site = Site::start(None);
    let targets = ["/", "/posts/one-process", "/feed.atom", "/feed.json", "/sitemap.xml"];
    let pages = targets.map(|target| (target, site.server.get(target)));
    let again = |(target, page): &(&str, Response)| {
        let validator = format!("If-None-Match: {}", page.field("etag").expect("a page has a validator"));
        site.send(&format!("GET {target}"), &[&validator], "")
    };
    for page in &pages {
        let second = again(page);
        assert_eq!((second.status, second.body.len()), (304, 0), "{}", page.0);
        assert_eq!(second.field("etag"), page.1.field("etag"), "{}", page.0);
    }
    site.weblog.save("new.md", POST);
    // The sidebar of each page has the tag of the new post.
    wait_until("all pages change", || pages.iter().all(|page| again(page).status == 200));
}

#[test]
fn feeds_and_the_sitemap_are_valid() {
    let site = Site::start(None);
    site.weblog.save("new.md", POST);
    wait_until("the post appears", || site.get("/feed.json").contains("Fresh"));
    let feed = site.server.get("/feed.json");
    assert_eq!(feed.field("content-type"), Some("application/feed+json"));
    let feed: Value = serde_json::from_slice(&feed.body).expect("the feed is JSON");
    assert_eq!(feed["version"], "https://jsonfeed.org/version/1.1");
    assert_eq!(feed["feed_url"], format!("{URL}/feed.json"));
    let item = &feed["items"][0];
    assert_members!(item, "title": "Fresh & <new>", "id": format!("{URL}/posts/new"));
    assert_eq!((&item["date_published"], &item["tags"][0]), (&"2099-11-26T00:00:00Z".into(), &"news".into()));
    let Some(python) = program("python3") else { return };
    for (target, script) in [("/feed.atom", ATOM), ("/sitemap.xml", SITEMAP)] {
        let output = Output::of(Command::new(&python).args(["-c", script, &site.get(target)]));
        assert_eq!(output.stdout, "valid\n", "{target}: {}", output.stderr);
    }
}

/// Checks what RFC 4287 §4.1 requires of a feed and its entries.
const ATOM: &str = r#"
import re, sys, xml.etree.ElementTree as xml
A = "{http://www.w3.org/2005/Atom}"
feed = xml.fromstring(sys.argv[1].encode())
entries = feed.findall(A + "entry")
assert feed.tag == A + "feed" and len(entries) >= 9, feed.tag
assert feed.find(A + "author/" + A + "name").text
assert feed.find(A + "link[@rel='self']").get("href") == "https://notes.example/feed.atom"
for part in [feed, *entries]:
    for name in ["id", "title", "updated"]:
        assert len(part.findall(A + name)) == 1, name
    assert part.find(A + "id").text.startswith("https://notes.example/")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00Z", part.find(A + "updated").text)
assert len({entry.find(A + "id").text for entry in entries}) == len(entries)
assert entries[0].find(A + "title").text == "Fresh & <new>", entries[0].find(A + "title").text
content = entries[0].find(A + "content")
assert content.get("type") == "html" and content.text.startswith("<p>Hello"), content.text
print("valid")
"#;

/// Checks what the protocol of sitemaps requires.
const SITEMAP: &str = r#"
import sys, xml.etree.ElementTree as xml
S = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
pages = xml.fromstring(sys.argv[1].encode()).findall(S + "url/" + S + "loc")
assert "https://notes.example/posts/new" in [page.text for page in pages]
print("valid")
"#;
