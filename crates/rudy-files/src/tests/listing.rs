//! Tests directory listings.

use std::os::unix::fs::symlink;

use rudy_config::FilePath;

use super::super::FilesError;
use super::*;

fn browsed(contents: &[(&str, &str)]) -> Site {
    Site::with_options(contents, FilesOptions { browse: Browse::On, ..FilesOptions::default() })
}

fn names(site: &Site, target: &str) -> Vec<String> {
    let response = site.get_with(target, &[("accept", "application/json")]);
    assert_eq!(response.field("content-type"), "application/json");
    let listing: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn folders_are_listed_only_with_browse() {
    let contents = [("d/a.txt", "a"), ("i/index.html", "index")];
    let site = browsed(&contents);
    let response = site.get("/d/");
    assert_eq!((response.status.as_u16(), response.field("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!((response.field("vary"), response.field("cache-control")), ("Accept", "no-cache"));
    assert_eq!(site.get("/i/").text(), "index");
    assert_eq!(site.get("/d").field("location"), "/d/");
    assert_eq!(site.get("/nothing/").status, 404);
    assert_eq!(site.get("/d/a.txt/").status, 404);
    assert_eq!(Site::with(&contents).get("/d/").status, 404);
}

/// Writes a template, and returns the options that `rudy.toml` would have.
fn with_template(folder: &TempDir, text: &str) -> Result<FilesOptions, FilesError> {
    let file = folder.path().join("listing.html");
    fs::write(&file, text).unwrap();
    let browse = Browse::Template(FilePath(file));
    let mut options = FilesOptions { browse, ..FilesOptions::default() };
    options.read_template().map(|()| options)
}

#[test]
fn a_template_of_the_user_replaces_the_page_and_escapes_names() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{{ path }}:{% for row in rows %} <a href=\"{{ row.href }}\">{{ row.name }}{{ row.slash }}</a> {{ row.size }}{% endfor %}";
    let options = with_template(&folder, text).unwrap();
    let site = Site::with_options(&[("d/<b>.txt", "12345"), ("d/sub/x", "")], options);
    let expected =
        "&#x2f;d&#x2f;: <a href=\"sub/\">sub&#x2f;</a>  <a href=\"%3Cb%3E.txt\">&lt;b&gt;.txt</a> 5 B";
    assert_eq!(site.get("/d/").text(), expected);
    assert_eq!(names(&site, "/d/"), ["sub", "<b>.txt"], "JSON is the same");
}

#[test]
fn an_unusable_template_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("{{ pth }}", "undefined value"),
        ("{% for row in rows %}{{ row.owner }}{% endfor %}", "undefined value"),
        ("{% for %}", "syntax error"),
    ] {
        let error = with_template(&folder, text).unwrap_err().to_string();
        assert!(error.contains("cannot use the template") && error.contains(expected), "{text}: {error}");
    }
    with_template(&folder, include_str!("../templates/listing.html")).unwrap();
    let browse = Browse::Template(FilePath(folder.path().join("missing.html")));
    let mut options = FilesOptions { browse, ..FilesOptions::default() };
    assert!(options.read_template().unwrap_err().to_string().contains("No such file"));
}

#[test]
fn a_listing_is_sorted_as_requested_with_folders_first() {
    let site = browsed(&[("b.txt", "22"), ("a.txt", "333"), ("c.txt", "1"), ("z/x", ""), ("y/x", "")]);
    for (name, age) in [("a.txt", 200), ("b.txt", 100), ("c.txt", 300), ("y/x", 1), ("z/x", 1)] {
        let time = SystemTime::now() - Duration::from_secs(age);
        let file = fs::File::options().write(true).open(site.folder.path().join(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    for (query, expected) in [
        ("", ["y", "z", "a.txt", "b.txt", "c.txt"]),
        ("?sort=name&order=desc", ["z", "y", "c.txt", "b.txt", "a.txt"]),
        ("?sort=size", ["y", "z", "c.txt", "b.txt", "a.txt"]),
        ("?sort=size&order=desc", ["z", "y", "a.txt", "b.txt", "c.txt"]),
    ] {
        assert_eq!(names(&site, &format!("/{query}")), expected, "{query}");
    }
    assert_eq!(names(&site, "/?sort=date")[2..], ["c.txt", "a.txt", "b.txt"]);
}

#[test]
fn json_has_type_size_and_time_of_an_entry() {
    let site = browsed(&[("d/a.txt", "12345"), ("d/sub/x", "")]);
    let response = site.get_with("/d/", &[("accept", "application/json")]);
    let listing: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((&listing["path"], &listing["truncated"]), (&"/d/".into(), &false.into()));
    let [folder, file] = listing["entries"].as_array().unwrap().as_slice() else { panic!("{listing}") };
    assert_eq!((&folder["type"], folder.get("size_bytes")), (&"directory".into(), None));
    assert_eq!((&file["type"], &file["size_bytes"]), (&"file".into(), &5.into()));
    assert!(file["modified"].as_str().unwrap().ends_with('Z'), "{file}");
}

#[test]
fn names_are_escaped_in_the_page_and_encoded_in_urls() {
    let site = browsed(&[
        ("<script>alert(1)<&>\"'.txt", "x"),
        ("a b?#%.txt", "x"),
        ("javascript:alert(1)", "x"),
        ("grüße.txt", "x"),
        ("d<i>/x", "x"),
    ]);
    let page = site.get("/");
    let text = page.text();
    assert!(!text.contains("<script>") && !text.contains("<i>"), "{text}");
    for expected in [
        "&lt;script&gt;",
        "href=\"%3Cscript%3Ealert%281%29%3C&amp;%3E%22%27.txt\"",
        "href=\"a%20b%3F%23%25.txt\"",
        "href=\"javascript%3Aalert%281%29\"",
        "href=\"gr%C3%BC%C3%9Fe.txt\"",
        "href=\"d%3Ci%3E/\"",
    ] {
        let expected = expected.replace("&amp;", "%26");
        assert!(text.contains(&expected), "{expected} in {text}");
    }
    // Every link in the page works.
    for href in text.split("<td><a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert_eq!(site.get(&format!("/{href}")).status, 200, "{href}");
    }
    assert!(site.get("/d%3Ci%3E/").text().contains("d&lt;i&gt;"));
}

#[test]
fn files_that_are_not_served_are_not_listed() {
    let site = browsed(&[("a.txt", "a"), (".hidden", "x"), ("back\\slash", "x")]);
    let root = site.folder.path();
    symlink("a.txt", root.join("inside")).unwrap();
    symlink("/etc/passwd", root.join("outside")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    assert_eq!(names(&site, "/"), ["a.txt", "inside"]);
    let hidden = FilesOptions { browse: Browse::On, serve_hidden: true, ..FilesOptions::default() };
    assert_eq!(names(&Site::with_options(&[("a", ""), (".b", "")], hidden), "/"), [".b", "a"]);
}

#[test]
fn a_truncated_listing_shows_a_note() {
    let contents: Vec<(String, &str)> = (0..5).map(|number| (format!("{number}.txt"), "x")).collect();
    let contents: Vec<(&str, &str)> = contents.iter().map(|(name, text)| (&**name, *text)).collect();
    let at = |listing_entries| {
        let options = FilesOptions { browse: Browse::On, listing_entries, ..FilesOptions::default() };
        let site = Site::with_options(&contents, options);
        let listing = site.get_with("/", &[("accept", "application/json")]);
        let listing: serde_json::Value = serde_json::from_slice(&listing.body).unwrap();
        let is_truncated = site.get("/").text().contains("Only the first");
        (listing["entries"].as_array().unwrap().len(), listing["truncated"].as_bool().unwrap(), is_truncated)
    };
    assert_eq!(at(5), (5, false, false));
    assert_eq!(at(4), (4, true, true));
}

#[test]
fn a_listing_links_to_its_parent_folders() {
    let site = browsed(&[("a/b/c.txt", "x")]);
    let page = site.get("/a/b/");
    for expected in
        ["<a href=\"../../\">/</a><a href=\"../\">a</a>/<a href=\"./\">b</a>/", "<a href=\"../\">../</a>"]
    {
        assert!(page.text().contains(expected), "{expected} in {}", page.text());
    }
    assert!(!site.get("/").text().contains("../"), "the root is the top");
}
